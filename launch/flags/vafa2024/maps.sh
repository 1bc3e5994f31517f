#!/usr/bin/env bash
# The twelve maps of maps.flags: three models under four pairs of limits, most
# edges out of an intersection and miles of the longest new edge; then their
# counts.
#
#   bash launch/flags/vafa2024/maps.sh
source "$(dirname "$0")/../../env.sh"

CITY=maps/manhattan
OUT="${OUT:-runs/vafa2024/maps}"
draw() { # name, folder of its samples, folder of its edges, traversal
  local world="nodes='$CITY/nodes.csv', edges='$CITY/$3/edges.csv'"
  for limits in '4 0.5' '8 0.5' '4 1' '8 1'; do
    read -r degree miles <<<"$limits"
    "$PY" launch/reconstruct.py --flagfile=launch/flags/vafa2024/maps.flags \
      --world="maps($world, traversal='$4')" --samples="$CITY/$2/samples.txt" \
      --name="$1" --max_degree="$degree" --max_miles="$miles" \
      --out="$OUT/${degree}_${miles}mi/$1"
  done
}
draw shortest_paths shortest shortest shortest
draw noisy_shortest_paths traffic random noisy
draw random_walks random random random
# Routes that no map could be fitted to: of order 0, and over all orders.
"$PY" - "$OUT" <<'END'
import json
import pathlib
import sys

for path in sorted(pathlib.Path(sys.argv[1]).glob('*/*/summary.json')):
  summary = json.loads(path.read_text())
  over = summary['orders']['failed']
  print(
    f'{path.parent.name:22}{path.parts[-3]:8}{summary["failed"]:6,}'
    f'{over["mean"]:8,.0f} [{over["least"]:,}, {over["most"]:,}]'
  )
END
