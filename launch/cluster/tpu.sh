#!/usr/bin/env bash
# One training run on all machines of a TPU slice, by gcloud:
#
#   bash launch/cluster/tpu.sh NAME ZONE v5litepod-16 launch/flags/sizes/small.flags
#
# The slice is made if there is none of that name, wm is installed on each of its
# machines, and the same command is started on all. --out in the flagfile, or
# after it, holds the sampled data: a URL such as gs://BUCKET/RUN, or a folder that
# all machines share. Run again, it goes on; the last line deletes the slice:
#
#   gcloud compute tpus tpu-vm delete NAME --zone=ZONE
set -euo pipefail
usage='usage: tpu.sh NAME ZONE TYPE FLAGFILE [FLAGS]'
name=${1:?$usage} zone=${2:?$usage} type=${3:?$usage} flagfile=${4:?$usage}
shift 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tpu=(gcloud compute tpus tpu-vm)

"${tpu[@]}" describe "$name" --zone="$zone" >/dev/null 2>&1 ||
  "${tpu[@]}" create "$name" --zone="$zone" --accelerator-type="$type" \
    --version="${TPU_VERSION:-v2-alpha-tpuv5-lite}"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
git archive --format=tar.gz --prefix=wm/ --output="$folder/wm-tpu.tar.gz" HEAD
"${tpu[@]}" scp "$folder/wm-tpu.tar.gz" "$name": --zone="$zone" --worker=all
on_all() { # command
  "${tpu[@]}" ssh "$name" --zone="$zone" --worker=all --command="$1"
}
on_all 'tar xzf wm-tpu.tar.gz && cd wm && python3.11 -m venv .venv &&
  .venv/bin/pip install -q -e ".[tpu,cloud]"'
more=$(printf ' %q' --flagfile="$flagfile" --distributed=auto "$@")
on_all "cd wm && .venv/bin/python launch/train.py$more"
