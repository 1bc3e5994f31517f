#!/usr/bin/env bash
# MANGO, CogEval and the seating puzzle: a language model of this machine beside
# known answers and, on the mazes of MANGO, sequence models trained on walks there.
#
#   bash launch/local_model.sh 8180 qwen2.5-coder-1.5b  # in another shell
#   bash launch/flags/local/papers.sh
#
# MANGO's questions are about six generated mazes of eight places, whose whole
# walkthroughs are shown. `launch/examples/mango.py` puts all of them to sequence
# models. What was done before is not done again.
export WM_EXTRAS="${WM_EXTRAS:-language}" LOCAL_API_KEY=none
source "$(dirname "$0")/../../env.sh"

OUT=runs/local/papers
LOCAL=openai-api/local/qwen2.5-coder-1.5b
PORT=8180
SEEDS='0 1 2 3 4 5'
maze() { # seed
  echo "mazes(places=8, loops=2, one_way=0, doors=0, levels=1, named=0," \
    "confusable=0, dark=0, seed=$1)"
}

write() { # seed
  "$PY" - "$OUT/games" "maze$1" "$(maze "$1")" <<'END'
import sys

import wm
from wm.worlds.text_game import readers

folder, game, spec = sys.argv[1:]
readers.write(wm.make('world', spec).maze, folder, game)
END
}

# The local model first, then known answers.
ask() { # task, tokens of an answer, options
  local task=$1 tokens=$2 folder="$OUT/logs/$1"
  shift 2
  [ -d "$folder" ] && return
  for model in "$LOCAL" wm/random wm/yes wm/solver; do
    local url=()
    [ "$model" = "$LOCAL" ] &&
      url=(--model-base-url "http://127.0.0.1:$PORT/v1")
    "$PY" -m inspect_ai eval "wm/$task" --model "$model" "${url[@]}" \
      --max-connections 1 --max-tokens "$tokens" --display none \
      --log-dir "$folder" "$@"
  done
}

for seed in $SEEDS; do
  [ -d "$OUT/games/maze$seed" ] || write "$seed"
done
# The prompt names the place after each step, and no more (-S).
mango=(-T "folder=$OUT/games" -T setting=simple -T num=3 -T tokenizer=estimate)
ask mango_destination 160 "${mango[@]}"
ask mango_route 160 "${mango[@]}"
ask cogeval 48 -T domains=ordRooms \
  -T conditions=valuePath,1stepPath,2stepPath,rewardReval,transReval
ask seating 48 -T puzzles=10 -T trials=5 -T samples=2
for seed in $SEEDS; do
  on="$(maze "$seed")"
  "$PY" launch/study.py --out="$OUT/sequence/maze$seed" --seed=0 --world="$on" \
    --row="transformer: transformer(layers=2, width=32) on $on" \
    --row="lstm: lstm(layers=1, width=32) on $on" \
    --num=10000 --num_heldout=500 --steps=400 --batch=64 --optimizer=adamw \
    --lr=3e-3 --warmup=50 --eval_every=400 --save_every=400 \
    --metric='launch/examples/mango.py:Metric()'
done
"$PY" launch/report.py --out="$OUT/report" --runs="$OUT/logs/mango_destination" \
  --runs="$OUT/logs/mango_route" --runs="$OUT/logs/cogeval" \
  --runs="$OUT/logs/seating"
