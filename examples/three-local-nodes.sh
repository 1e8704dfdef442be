#!/bin/sh
# Three nodes on this machine, without SSH: the quickest way to see what pipebench does and prints.
#
#   examples/three-local-nodes.sh [DIR]
#
# Writes record, table and summary to a folder in DIR (default: results). TIME=1s shortens the measurement.
# The rates depend on the cores and memory of this machine; there is no switch between the nodes.
set -eu

out=${1:-results}
time=${TIME:-5s}

# Two phases, source to sink: the least work per byte.
pipebench --hosts local:3 --phases 2 --time "$time" --folder "$out"

# Three phases: the middle one relays every block.
pipebench --hosts local:3 --phases 3 --time "$time" --folder "$out"

# A known volume instead of a time: 200 blocks of 256 KiB on every link.
pipebench --hosts local:3 --phases 3 --buffers 200 --folder "$out"
