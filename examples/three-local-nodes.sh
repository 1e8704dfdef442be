#!/bin/sh
# Three nodes on this machine, without SSH: the quickest look at what pipebench does and prints.
#
#   examples/three-local-nodes.sh [DIR]
#
# Keeps the record, the table and the summary in a folder below DIR (default: results). TIME=1s measures shorter.
# The figures are those of this machine's cores and memory; there is no switch between the nodes.
set -eu

out=${1:-results}
time=${TIME:-5s}

# Two phases, source to sink: the least work per byte.
pipebench --hosts local:3 --phases 2 --time "$time" --folder "$out"

# Three phases: the middle one passes every block on, as a relay would.
pipebench --hosts local:3 --phases 3 --time "$time" --folder "$out"

# A known volume instead of a time: 200 blocks of 256 KiB on every link.
pipebench --hosts local:3 --phases 3 --buffers 200 --folder "$out"
