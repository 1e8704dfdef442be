#!/bin/sh
# Reproduces the tables of the paper on minimal and parallel latency measurement: fat trees (table 2), calculated and set latencies of links
# and pairs (tables 3 and 4), and the number of rounds (figure 4). It simulates random latencies without noise, and measures nothing.
#
#     sh examples/latency-paper.sh [FOLDER]
set -eu
folder=${1:-latency-paper}
mkdir -p "$folder"

for tree in ${TREES:-4x2 8x2 4x3 8x3 12x3}; do
    ports=${tree%x*} levels=${tree#*x}
    fabric="$folder/fat-tree-$ports-$levels.toml"
    pipebench latency generate fat-tree --ports "$ports" --levels "$levels" --output "$fabric"
    # Table 2 and figure 4: hosts, cables, all pairs, pairs of a basis, rounds by the paper's method, and rounds by pipebench.
    for strategy in paper rounds; do
        pipebench latency plan "$fabric" --redundancy 1 --strategy "$strategy" --output "$folder/plan-$strategy-$ports-$levels.toml" | grep -E '^(fabric|plan)'
    done
    # Tables 3 and 4: set and calculated latencies of every pair and every cable, in two files.
    pipebench latency simulate "$fabric" --redundancy 1 --pings 1 --spread 100 --noise 0 --spikes 0 --trials 3 \
        --pairs "$folder/pairs-$ports-$levels.csv" --cables "$folder/cables-$ports-$levels.csv"
done
