# Sourced by the other scripts: makes .venv with wm in it, sets PY and cd's to
# the checkout. PYTHON=... chooses the interpreter, WM_EXTRAS=... the extras.
# WM_PYTHON=... is one that has all that wm needs: no .venv is made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -n "${WM_PYTHON:-}" ]; then
  PY="$WM_PYTHON"
  return
fi

# An interpreter counts if it starts, is new enough and can make environments.
works() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
    >/dev/null 2>&1
}

find_python() {
  local minor candidate
  for candidate in ${PYTHON:+"$PYTHON"} \
    python3.{15,14,13,12,11} python3 python; do
    if command -v "$candidate" >/dev/null && works "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  if command -v uv >/dev/null; then
    candidate=$(uv python find '>=3.11' 2>/dev/null) && echo "$candidate"
  fi
}

# Python compiles a module when it is first imported. To compile all of them here
# takes twenty seconds longer, and pays only where nothing compiled may be stored.
install() { # extras
  local target="." compile=--no-compile
  [ -n "$1" ] && target=".[$1]"
  [ -n "${PYTHONDONTWRITEBYTECODE:-}" ] && compile=--compile
  if command -v uv >/dev/null; then
    uv pip install -q --python "$PY" -e "$target"
  else
    "$PY" -m pip install -q --disable-pip-version-check "$compile" -e "$target"
  fi
}

# Takes the newest of some packages. What they need stays as it is where it fits,
# and without an index so do they.
upgrade() { # packages
  local newest=(install -q --upgrade)
  if command -v uv >/dev/null; then
    newest=(uv pip "${newest[@]}" --python "$PY")
  else
    newest=("$PY" -m pip "${newest[@]}" --disable-pip-version-check --retries 1)
  fi
  "${newest[@]}" "$@" >/dev/null 2>&1 ||
    echo "note: could not upgrade $*; what is installed stays" >&2
}

PY="$PWD/.venv/bin/python"
# Each set of extras leaves a copy of the setup.py that it was installed from.
stamp=".venv/installed.${WM_EXTRAS:-base}"
if ! { [ -x "$PY" ] && works "$PY" && cmp -s setup.py "$stamp"; }; then
  python=$(find_python)
  if [ -z "$python" ]; then
    echo "error: no working Python >= 3.11 found; set PYTHON=/path/to/python" >&2
    exit 2
  fi
  echo "Setting up .venv with $("$python" --version) ($python) ..."
  [ -x "$PY" ] && works "$PY" || {
    rm -rf .venv
    if command -v uv >/dev/null; then
      uv venv -q --python "$python" .venv
    else
      "$python" -m venv .venv
    fi
  }
  install "${WM_EXTRAS:-}"
  cp setup.py "$stamp"
fi
