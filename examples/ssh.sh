#!/bin/bash
# One process on each host; the first host coordinates:   bash examples/ssh.sh node0 node1 node2 node3
# To stop, send SIGTERM to the process on any host: all save and end with code 75. The same command resumes.
set -u
hosts=("$@")
pids=()
for i in "${!hosts[@]}"; do
  ssh "${hosts[i]}" "exec flax-transformer train wmt14_en_de_big --workdir /shared/runs/big --data.root /shared/data --parallel.strategy mesh \
    --parallel.num-processes ${#hosts[@]} --parallel.coordinator ${hosts[0]}:9911 --parallel.process-id $i" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
  wait "$pid" || code=$?
done
exit "$code"
