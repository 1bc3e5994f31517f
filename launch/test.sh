#!/usr/bin/env bash
# Sets up .venv, takes the newest JAX, then runs lint, the type checker (about
# two minutes, seconds where little has changed) and the whole default suite, a
# process for each core. Arguments go to pytest: `bash launch/test.sh -m slow`
# runs the long studies, `-n 0` all in one process.
export WM_EXTRAS="${WM_EXTRAS:-maps,test}"
source "$(dirname "$0")/env.sh"
upgrade jax jaxlib flax optax orbax-checkpoint
"$PY" -m ruff check .
"$PY" -m ruff format --check .
"$PY" -m mypy wm launch
exec "$PY" -m pytest -n auto --dist loadfile "$@"
