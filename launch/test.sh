#!/usr/bin/env bash
# Sets up .venv, takes the newest JAX, then runs lint, the type checker (about
# two minutes, seconds where little has changed) and the default suite, a process
# for each core. Arguments go to pytest:
#
#   bash launch/test.sh --quick      an answer in a minute: whether worlds and
#                                    metrics keep their contracts, and metrics
#                                    computed by hand; no lint, no types
#   bash launch/test.sh -m process   tests that start processes
#   bash launch/test.sh -m slow      the long studies; real data: WM_TESTDATA=DIR
#   bash launch/test.sh -n 0         all in one process
export WM_EXTRAS="${WM_EXTRAS:-maps,test}"
source "$(dirname "$0")/env.sh"
if [ "${1:-}" = --quick ]; then
  shift
  exec "$PY" -m pytest -n auto --dist loadfile -q tests/worlds_test.py \
    tests/metrics_test.py::test_the_world_is_perfect tests/core \
    tests/metrics/{compression,distinction,next_token,probe,detour}_test.py "$@"
fi
upgrade jax jaxlib flax optax orbax-checkpoint
"$PY" -m ruff check .
"$PY" -m ruff format --check .
"$PY" -m mypy wm launch
exec "$PY" -m pytest -n auto --dist loadfile "$@"
