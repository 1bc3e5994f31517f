#!/usr/bin/env bash
# Sets up .venv, then runs lint and the whole default test suite, a process for
# each core. Arguments go to pytest: `bash launch/test.sh -m slow` runs the long
# studies, `-n 0` all in one process.
export WM_EXTRAS="${WM_EXTRAS:-maps,test}"
source "$(dirname "$0")/env.sh"
"$PY" -m ruff check .
"$PY" -m ruff format --check .
exec "$PY" -m pytest -n auto --dist loadfile "$@"
