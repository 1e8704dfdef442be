#!/bin/sh
# SSH over the management network, data over another one.
#
#   examples/two-networks.sh HOSTS NETWORK [DIR]
#   examples/two-networks.sh 'n[01-16]' 10.1.0.0/16
#
# HOSTS are the names that SSH knows. On each host the address in NETWORK is the data port; a host without one is
# named, and the run does not start. Ports 5201 to 5210 are used, so that a packet filter can let them through: each
# node listens on one port per boundary.
set -eu

if [ $# -lt 2 ]; then
  echo "usage: $0 HOSTS NETWORK [DIR]" >&2
  exit 2
fi
hosts=$1
network=$2
out=${3:-results}

# A look first: processes, memory, links of each port. Contacts nobody.
pipebench --hosts "$hosts" --data-network "$network" --port-range 5201-5210 --phases 2 --dry-run

# Several links per pair, since paths may be chosen by hashing and one TCP connection may not fill a port.
pipebench --hosts "$hosts" --data-network "$network" --port-range 5201-5210 --phases 2 --streams 4 \
  --time "${TIME:-30s}" --folder "$out"
