#!/usr/bin/env bash
# Sets up .venv, then runs lint and the whole default test suite. Arguments go
# to pytest: `bash launch/test.sh -m slow` runs the long studies.
export WM_EXTRAS="${WM_EXTRAS:-maps,test}"
source "$(dirname "$0")/env.sh"
"$PY" -m ruff check .
"$PY" -m ruff format --check .
exec "$PY" -m pytest "$@"
