#!/usr/bin/env bash
# MANGO and CogEval: a language model of this machine beside known answers and, on
# the mazes of MANGO, a sequence model trained on walks there.
#
#   bash launch/local_model.sh 8180 qwen2.5-coder-1.5b  # in another shell
#   bash launch/flags/local/papers.sh
#
# MANGO's questions are about six generated mazes of eight places, whose whole
# walkthroughs are shown. `launch/examples/mango.py` puts all of them to sequence
# models. What was done before is not done again, nor is a prompt sent twice.
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
      url=(--model-base-url "http://127.0.0.1:$PORT/v1" --cache 1D)
    "$PY" -m inspect_ai eval "wm/$task" --model "$model" "${url[@]}" \
      --max-connections 1 --max-tokens "$tokens" --display none \
      --log-dir "$folder" "$@"
  done
}

learn() { # seed
  local on
  on="$(maze "$1")"
  "$PY" launch/study.py --out="$OUT/sequence/maze$1" --seed=0 --world="$on" \
    --row="transformer: transformer(layers=2, width=32) on $on" \
    --num=10000 --num_heldout=500 --steps=400 --batch=64 --optimizer=adamw \
    --lr=3e-3 --warmup=50 --eval_every=400 --save_every=400 \
    --metric='launch/examples/mango.py:Metric()'
}

for seed in $SEEDS; do
  [ -d "$OUT/games/maze$seed" ] || write "$seed"
done
# The prompt names the place after each step, and no more (-S).
mango=(-T "folder=$OUT/games" -T setting=simple -T num=2 -T tokenizer=estimate)
ask mango_destination 128 "${mango[@]}"
ask mango_route 128 "${mango[@]}"
# These two let the model reason before it answers.
ask cogeval 128 -T domains=ordRooms -T turns=one \
  -T conditions=1stepPath,rewardReval,transReval
for seed in $SEEDS; do learn "$seed"; done
"$PY" launch/report.py --out="$OUT/report" --runs="$OUT/logs/mango_destination" \
  --runs="$OUT/logs/mango_route" --runs="$OUT/logs/cogeval"

# One line for each quantity and model: value [95 % interval]. MANGO's are
# clustered by maze, and a reply that is no list of moves is wrong.
"$PY" - "$OUT" <<'END'
import pathlib
import sys

import pandas as pd

from wm.language import logs, pages

out = pathlib.Path(sys.argv[1])


def tell(quantity, model, values, clusters):
  mean = pages.cluster_mean(values.to_numpy(float), clusters)
  print(
    f'{quantity:18} {model:38} {mean.value:.2f} [{mean.low:.2f}, '
    f'{mean.high:.2f}], n={mean.n} in {mean.clusters}'
  )


for task, quantity in (
  ('mango_destination', 'exact'),
  ('mango_route', 'exact'),
  ('cogeval', 'correct'),
):
  for path in logs.paths(out / 'logs' / task):
    rows = pd.DataFrame(logs.rows(logs.read(path)))
    rows = rows[rows.quantity == quantity]
    by_game = rows['sample'].str.partition('/')[0]
    clusters = rows['sample'] if task == 'cogeval' else by_game
    tell(task, rows.model.iloc[0], rows.value, clusters)
for model in ('transformer', 'untrained'):
  tables = [
    pd.read_parquet(path).assign(maze=path.parts[-3])
    for path in sorted(out.glob(f'sequence/*/{model}/rows.parquet'))
  ]
  for kind, rows in pd.concat(tables).groupby('quantity') if tables else ():
    tell(f'mango_{kind}', model, rows.value, rows.maze)
END
