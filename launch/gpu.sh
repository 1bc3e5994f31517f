#!/usr/bin/env bash
# What one GPU shows in an hour or less: tests of its kernels, its speed, and the
# paper's 89 M transformer on the shortest paths of Manhattan, trained as long as
# there is time, scored and mapped.
#
#   bash launch/gpu.sh --minutes=25
#
# A call works for at most --slice minutes, then exits with 75: give the same
# command again until it exits with 0. A call that was killed goes on, too.
#
#   --minutes=25        of all calls together; training has what the rest leaves
#   --slice=9           minutes of one call
#   --out=runs/gpu      all state; what to keep is in OUT/results, eight files
#   --map=maps/manhattan  folder of nodes.csv and edges.csv
#   --wheels=FOLDER     wheels of jax[cuda12] and of what wm needs, to install
#                       from; else WM_PYTHON, or python3, has them. Nothing is
#                       fetched.
#   --tiny              a generated city and a small model on any machine, to try
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=25 slice=9 out=runs/gpu map=maps/manhattan wheels='' tiny=''
for argument in "$@"; do
  case "$argument" in
    --minutes=*) minutes="${argument#*=}" ;;
    --slice=*) slice="${argument#*=}" ;;
    --out=*) out="${argument#*=}" ;;
    --map=*) map="${argument#*=}" ;;
    --wheels=*) wheels="${argument#*=}" ;;
    --tiny) tiny=1 ;;
    -h | --help)
      sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      echo "error: $argument; see bash launch/gpu.sh --help" >&2
      exit 2
      ;;
  esac
done
for number in "$minutes" "$slice"; do
  if ! [[ "$number" =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
    echo "error: '$number'; expected a number of minutes" >&2
    exit 2
  fi
  if ! awk -v n="$number" 'BEGIN { exit n < 0.2 }'; then # It would do nothing.
    echo "error: '$number'; expected 0.2 minutes or more" >&2
    exit 2
  fi
done
if [ -z "$tiny" ] && ! [ -f "$map/nodes.csv" -a -f "$map/edges.csv" ]; then
  echo "error: --map=$map; expected a folder of nodes.csv and edges.csv" >&2
  exit 2
fi

mkdir -p "$out/done" "$out/results"
PY="${WM_PYTHON:-python3}"
if [ -n "$wheels" ]; then
  PY="$out/env/bin/python"
  if ! [ -f "$out/done/install" ]; then
    python3 -m venv "$out/env"
    "$PY" -m pip install -q --no-index --find-links="$wheels" 'jax[cuda12]' -e .
    touch "$out/done/install"
  fi
fi
device=$("$PY" -c 'import jax; print(jax.devices()[0].platform)')
if [ "$device" != gpu ] && [ -z "$tiny" ]; then
  echo "error: JAX sees no GPU, but $device; install jax[cuda12], or --tiny" >&2
  exit 2
fi

# Seconds of all calls before this one are in OUT/spent, of this one in SECONDS.
seconds() { awk -v m="$1" -v share="${2:-1}" 'BEGIN { printf "%d", 60 * m * share }'; }
before=$(cat "$out/spent" 2>/dev/null || echo 0)
total=$(seconds "$minutes") call=$(seconds "$slice")
count() { echo $((before + SECONDS)) >"$out/spent"; }
trap count EXIT
log() { echo "[$((before + SECONDS)) s] $*" | tee -a "$out/results/log.txt"; }

again() {
  log 'this call has had its time: give the same command again'
  exit 75
}

# Runs a stage unless it is done, for what is left of this call and of all calls
# up to a share of them. A stage whose share is used up is done. What follows
# training takes as long as it needs.
stage() { # name, share of all time by its end, file of what it prints, command...
  local name="$1" end code=0 left
  end=$(seconds "$minutes" "$2")
  local prints="$3"
  shift 3
  [ -f "$out/done/$name" ] && return
  left=$((end - before - SECONDS))
  if [ "$left" -gt 0 ]; then
    [ $((call - SECONDS)) -gt 5 ] || again
    [ $((call - SECONDS)) -lt "$left" ] && left=$((call - SECONDS))
    log "$name"
    count # A call that is killed has taken time, too.
    timeout --foreground --signal=TERM --kill-after=20 "$left" "$@" >>"$prints" 2>&1 || code=$?
  else
    code=late
  fi
  if [ "$code" = 0 ] || [ $((before + SECONDS)) -ge "$end" ]; then
    echo "$code" >"$out/done/$name"
    log "$name: ended with $code"
  elif [ "$code" = 124 ] || [ "$code" = 75 ] || [ "$code" = 137 ]; then
    again
  elif [ "$name" = tests ] || [ "$name" = bench ]; then
    echo "$code" >"$out/done/$name" # What fails is in its file.
    log "$name: ended with $code"
  else
    log "$name: failed with $code, see $prints"
    exit 1
  fi
}

if [ -n "$tiny" ]; then
  flags=(--flagfile=launch/flags/laptop.flags --num=2000 --num_heldout=50
    '--model=transformer(layers=1, width=32)' --steps=1000000 --save_every=50
    --eval_every=200 '--metric_overrides=trials=10, num=10' --num_samples=20)
else
  flags=(--flagfile=launch/flags/vafa2024/manhattan_shortest.flags
    "--world=maps(nodes='$map/nodes.csv', edges='$map/edges.csv', traversal='shortest')"
    --batching=buckets --eval_every=1000 --save_every=500)
fi
flags+=(--out="$out/run")
# On a GPU, the tests of kernels and of the loop of metrics run on it as well.
suites=(tests/gpu_test.py)
[ -n "$tiny" ] || suites+=(tests/kernels/attention_test.py tests/kernels/scan
  tests/evaluation/device_test.py)
kept="$out/results" file="$out/run.txt"

# Values of float32 are compared with those of a processor, so products are in
# float32 there, not in TF32.
export JAX_DEFAULT_MATMUL_PRECISION=highest
stage tests 0.16 "$kept/tests.txt" "$PY" -m pytest -q -m 'not slow and not process' \
  "${suites[@]}"
unset JAX_DEFAULT_MATMUL_PRECISION
stage bench 0.26 "$kept/bench.txt" "$PY" -m tests.bench gpu
stage sample 0.36 "$file" "$PY" launch/sample.py "${flags[@]}" --jobs="$(nproc)"
stage train 0.66 "$file" "$PY" launch/train.py "${flags[@]}"
stage score 99 "$file" "$PY" launch/score.py "${flags[@]}"
stage reconstruct 99 "$file" "$PY" launch/reconstruct.py "${flags[@]}"
stage report 99 "$file" "$PY" launch/report.py "${flags[@]}" --single_file

for name in train.run.json metrics.jsonl scores.json summary.json report/report.html; do
  [ -f "$out/run/$name" ] && cp "$out/run/$name" "$kept/"
done
log 'done'
