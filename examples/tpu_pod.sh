#!/bin/bash
# One process on each host of a TPU slice; the hosts find each other:   bash examples/tpu_pod.sh my-slice us-east5-a
# Every host sees /shared, with flax-transformer[tpu] in the environment /shared/venv. The same command resumes.
# To stop, saving once:   bash examples/tpu_pod.sh my-slice us-east5-a stop
set -eu
name=${1:?the name of the slice} zone=${2:?its zone}
command='
  export PATH=/shared/venv/bin:$PATH
  exec flax-transformer train wmt14_en_de_big --workdir /shared/runs/big --data.root /shared/data \
    --parallel.num-processes 0 --parallel.strategy mesh'
if [ "${3:-}" = stop ]; then
  command='pkill -TERM -f "[f]lax-transformer train wmt14_en_de_big"'
fi
gcloud compute tpus tpu-vm ssh "$name" --zone="$zone" --worker=all --command="$command"
