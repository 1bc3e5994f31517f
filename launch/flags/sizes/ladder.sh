#!/usr/bin/env bash
# How much training real streets take: districts of Manhattan within so many metres
# of one place, and the steps until 96 % of held-out routes arrive.
#
#   bash launch/flags/sizes/ladder.sh 600 830 1200
#   TRAVERSALS='shortest noisy random' bash launch/flags/sizes/ladder.sh 600
#   bash launch/flags/sizes/ladder.sh --fit
#
# A rung is a 2 x 128 transformer of ladder.flags for each traversal and each of
# four to six numbers of steps: a rate that falls to zero decides how many routes
# arrive, so that a checkpoint on the way does not tell. All are scored with the
# same 500 routes. --fit prints the rungs and the law. The map is in maps/manhattan,
# as for vafa2024/manhattan_shortest.flags. A run that was stopped goes on.
source "$(dirname "$0")/../../env.sh"

OUT="${OUT:-runs/sizes/ladder}"
# Metres -> most moves of a route; numbers of steps.
declare -A MOVES=([600]=20 [830]=32 [1200]=44 [1650]=52)
declare -A STEPS=([600]='200 400 800 1600 3200' [830]='500 1000 2000 4000 8000 16000'
  [1200]='1000 2000 4000 8000' [1650]='8000 16000 24000 40000')
fit() { "$PY" launch/docs/ladder.py "$OUT"; }
if [ "${1:-}" = --fit ]; then
  fit
  exit
fi
for radius in "$@"; do
  if [ -z "${MOVES[$radius]:-}" ]; then
    echo "error: $radius; expected metres: 600, 830, 1200 or 1650" >&2
    exit 2
  fi
  for traversal in ${TRAVERSALS:-shortest random}; do
    world="nodes='maps/manhattan/nodes.csv', edges='maps/manhattan/edges.csv'"
    world="$world, around='40.7265,-73.9815', radius=$radius"
    world="$world, max_moves=${MOVES[$radius]}, traversal='$traversal'"
    flags=(--flagfile=launch/flags/sizes/ladder.flags --world="maps($world)")
    data="$OUT/${traversal}_$radius"
    "$PY" launch/sample.py "${flags[@]}" --out="$data"
    for steps in ${STEPS[$radius]}; do
      flags+=(--out="${data}_$steps" --data="$data/data" --steps="$steps")
      "$PY" launch/train.py "${flags[@]}"
      "$PY" launch/score.py "${flags[@]}"
    done
  done
done
fit
