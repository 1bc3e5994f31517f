#!/usr/bin/env bash
# The district of district.flags: three traversals over three seeds, the maps of
# their routes at two degrees and from pairs of the training data, and one page.
#
#   bash launch/flags/vafa2024/district.sh
#   bash launch/flags/vafa2024/district.sh shortest     one traversal
#
# A run that was stopped goes on.
source "$(dirname "$0")/../../env.sh"

OUT="${OUT:-runs/vafa2024}"
FLAGS=launch/flags/vafa2024
runs=()
[ $# -gt 0 ] || set -- shortest noisy random
for each in "$@"; do
  "$PY" launch/study.py --flagfile="$FLAGS/district_$each.flags" --jobs=2
  for run in "$OUT/district_$each"/*_seed_0; do
    for degree in 4 8; do
      for pairs in uniform train; do
        "$PY" launch/reconstruct.py --flagfile="$FLAGS/district_$each.flags" \
          --checkpoint="$run" --pairs="$pairs" --max_degree="$degree" \
          --name="$(basename "$run")" --order=0 --shuffles=4 \
          --out="$OUT/district_maps/${each}_${degree}_$pairs"
      done
    done
  done
  runs+=(--runs="$OUT/district_$each")
done
"$PY" launch/report.py "${runs[@]}" --out="$OUT/district"
