#!/bin/sh
# SSH over the management network, data over another one.
#
#   examples/two-networks.sh HOSTS NETWORK [DIR]
#   examples/two-networks.sh 'n[01-16]' 10.1.0.0/16
#
# HOSTS are the names that SSH uses. The address of a host in NETWORK selects its data port; if a host has no such
# address, pipebench names it and does not start. The run uses TCP ports 5201 to 5210, which a packet filter must allow:
# each node listens on one port per boundary.
set -eu

if [ $# -lt 2 ]; then
  echo "usage: $0 HOSTS NETWORK [DIR]" >&2
  exit 2
fi
hosts=$1
network=$2
out=${3:-results}

# First print processes, memory and links of each port. This contacts no host.
pipebench --hosts "$hosts" --data-network "$network" --port-range 5201-5210 --phases 2 --dry-run

# Several links per pair, because hashing may select paths and one TCP connection may not fill a port.
pipebench --hosts "$hosts" --data-network "$network" --port-range 5201-5210 --phases 2 --streams 4 \
  --time "${TIME:-30s}" --folder "$out"
