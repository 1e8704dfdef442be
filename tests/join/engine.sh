#!/bin/sh
# Stands in for clush and srun: `engine.sh HOSTS COMMAND...` starts the command once for each host, under the name that a
# batch system would give the host, with the same standard input for all, and waits for all of them.
set -eu
hosts=$1
shift
input=$(cat)
for host in $(echo "$hosts" | tr , ' '); do
  echo "$input" | SLURMD_NODENAME=$host "$@" &
done
wait
