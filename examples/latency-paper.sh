#!/bin/sh
# The tables of the paper on minimal and parallel latency measurement again: fat trees (its table 2), links and pairs that are found as they
# were set (tables 3 and 4), and how many rounds are needed (figure 4). Measures nothing: random latencies without noise.
#
#     sh examples/latency-paper.sh [FOLDER]
set -eu
folder=${1:-latency-paper}
mkdir -p "$folder"

for tree in ${TREES:-4x2 8x2 4x3 8x3 12x3}; do
    ports=${tree%x*} levels=${tree#*x}
    fabric="$folder/fat-tree-$ports-$levels.toml"
    pipebench latency generate fat-tree --ports "$ports" --levels "$levels" --output "$fabric"
    # Table 2 and figure 4: hosts, cables, pairs one by one, pairs of a basis, rounds of the paper's way, and rounds found here.
    for strategy in paper rounds; do
        pipebench latency plan "$fabric" --redundancy 1 --strategy "$strategy" --output "$folder/plan-$strategy-$ports-$levels.toml" | grep -E '^(fabric|plan)'
    done
    # Tables 3 and 4: every pair and every cable as it was set and as it was calculated, in two files.
    pipebench latency simulate "$fabric" --redundancy 1 --pings 1 --spread 100 --noise 0 --spikes 0 --trials 3 \
        --pairs "$folder/pairs-$ports-$levels.csv" --cables "$folder/cables-$ports-$levels.csv"
done
