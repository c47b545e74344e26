#!/bin/bash
# One process on each host of a TPU slice; the hosts find each other:   bash examples/tpu_pod.sh my-slice us-east5-a
# Every host has flax-transformer[tpu] and sees /shared. The same command resumes.
set -eu
name=${1:?the name of the slice} zone=${2:?its zone}
gcloud compute tpus tpu-vm ssh "$name" --zone="$zone" --worker=all --command='
  exec flax-transformer train wmt14_en_de_big --workdir /shared/runs/big --data.root /shared/data \
    --parallel.num-processes 0 --parallel.strategy mesh'
