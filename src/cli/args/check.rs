//! The words of `pipebench check`.

/// What the long help says.
pub(super) const LONG: &str = "Looks at hosts, ports and pairs before a run: reaches every host, links every pair of data ports, and lets one full packet pass on \
    each, so that a path with a smaller MTU is named; compares kernels, drivers, firmware, speeds, MTU, PCIe and settings, and marks the odd one out; \
    holds speed and MTU against what was ordered; and reads error counters before and after.\n\n\
    Takes the options of the plain command: `pipebench check --hostfile cluster.txt --link-speed 25G --mtu 9000`. Hosts that cannot be reached are \
    named, and the others are looked at.\n\n\
    Exit codes: 0 ready; 1 a port is not as ordered; 2 bad usage; 10 a host cannot be reached; the others are those of a run.";
