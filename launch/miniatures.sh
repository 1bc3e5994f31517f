#!/usr/bin/env bash
# Makes the miniatures' missing results: all, or those that are named.
#
#   bash launch/miniatures.sh
#   bash launch/miniatures.sh maps groups --jobs=1
#
# launch/cross.sh does the same with the folder of another study.
#
# Two units at a time; other flags are those of launch/miniature.py, which
# starts from committed files only, unless --allow_dirty is given; results of
# other code are refused and made again. Started again after an interruption, it
# goes on where it was. Units that failed are named at the end, and the exit
# code is 1. What all results say of the papers'
# findings is in runs/miniatures/report.
source "$(dirname "$0")/env.sh"
study="${WM_STUDY:-miniatures}"
flags="launch/flags/$study"
names=() more=()
for given in "$@"; do
  case "$given" in
    -*) more+=("$given") ;;
    *) names+=("$given") ;;
  esac
done
if [ "${#names[@]}" = 0 ]; then
  for file in "$flags"/*.flags; do names+=("$(basename "$file" .flags)"); done
fi
for name in "${names[@]}"; do
  if [ ! -f "$flags/$name.flags" ]; then
    echo "error: no miniature is called '$name';" \
      "available: $(cd "$flags" && echo *.flags | sed 's/\.flags//g')" >&2
    exit 2
  fi
done
failed=()
for name in "${names[@]}"; do
  echo "== $name"
  code=0
  "$PY" launch/miniature.py --flagfile="$flags/$name.flags" --jobs=2 \
    ${more[@]+"${more[@]}"} || code=$?
  case "$code" in
    0) ;;
    1) failed+=("$name") ;;
    *) exit "$code" ;;
  esac
done
if [[ " ${more[*]-} " != *" --dry_run "* ]]; then
  echo "== report"
  "$PY" launch/report.py --miniatures="$flags" --out="runs/$study"
fi
for name in ${failed[@]+"${failed[@]}"}; do
  "$PY" launch/miniature.py --flagfile="$flags/$name.flags" \
    ${more[@]+"${more[@]}"} --dry_run | grep -E ': (failed|refused)' >&2 || true
done
exit $((${#failed[@]} > 0))
