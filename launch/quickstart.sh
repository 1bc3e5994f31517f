#!/usr/bin/env bash
# Sets up .venv, then trains two small transformers on a generated city,
# scores the world models they learned and writes runs/quickstart/report.
# Started again after an interruption, it goes on where it was.
source "$(dirname "$0")/env.sh"
exec "$PY" launch/study.py --flagfile=launch/flags/quickstart.flags "$@"
