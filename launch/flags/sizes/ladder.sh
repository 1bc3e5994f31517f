#!/usr/bin/env bash
# How much training real streets take: districts of Manhattan within so many metres
# of one place, and the training until 96 % of held-out routes arrive.
#
#   bash launch/flags/sizes/ladder.sh 600 830 1200
#   bash launch/flags/sizes/ladder.sh --fit
#
# A rung is a 2 x 128 transformer of ladder.flags for each traversal; checkpoints
# of training are scored with the same 500 routes. --fit prints the rungs and the
# law. The map is in maps/manhattan, as for vafa2024/manhattan_shortest.flags. A run
# that was stopped goes on.
source "$(dirname "$0")/../../env.sh"

OUT="${OUT:-runs/sizes/ladder}"
# Metres -> most moves of a route, steps, steps between checkpoints.
declare -A MOVES=([600]=20 [830]=32 [1200]=44 [1650]=52)
declare -A STEPS=([600]=5000 [830]=12000 [1200]=30000 [1650]=60000)
declare -A EVERY=([600]=250 [830]=500 [1200]=1000 [1650]=2000)
fit() { "$PY" launch/flags/sizes/ladder.py "$OUT"; }
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
    flags=(--flagfile=launch/flags/sizes/ladder.flags --world="maps($world)"
      --out="$OUT/${traversal}_$radius" --steps="${STEPS[$radius]}"
      --keep="every:${EVERY[$radius]}")
    "$PY" launch/sample.py "${flags[@]}"
    "$PY" launch/train.py "${flags[@]}"
    "$PY" launch/score.py "${flags[@]}" --checkpoint=all
  done
done
fit
