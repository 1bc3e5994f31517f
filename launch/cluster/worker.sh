#!/usr/bin/env bash
# A Dask worker that is started again when it, or its scheduler, was lost:
#
#   bash launch/cluster/worker.sh tls://HOST:8786 [more flags of `dask worker`]
#
# It runs one task at a time, as wm asks; --nworkers=N starts N of them. Without
# a scheduler it waits. It ends by SIGTERM.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
address=${1:?usage: worker.sh ADDRESS}
shift
trap 'kill -TERM "$worker" 2>/dev/null; wait "$worker"; exit 0' TERM INT
while true; do
  PYTHONPATH=$PWD "${WM_PYTHON:-.venv/bin/python}" -m dask worker "$address" \
    --nthreads=1 --no-dashboard --local-directory="${TMPDIR:-/tmp}" "$@" &
  worker=$!
  wait "$worker"
  sleep 2 &
  wait $!
done
