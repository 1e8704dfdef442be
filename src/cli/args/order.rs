//! The words of the acceptance criteria.

use clap::{Args, ValueEnum};

/// Acceptance criterion for all ports at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FabricOrder {
    /// All ports reach their ceiling at the same time.
    NonBlocking,
}

/// What a run is judged by.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Criteria")]
pub(crate) struct Order {
    /// Specified speed of every data port, in bits per second
    ///
    /// A port that negotiated less fails immediately. `speed=` in a host file overrides it. Without either, pipebench
    /// judges ports by the speed that they negotiated, and the summary says so; it does not judge virtual interfaces,
    /// whose speed is only nominal. Example: --link-speed 25G
    #[arg(long, value_name = "RATE")]
    pub link_speed: Option<String>,

    /// MTU that every data port must have, in bytes (9000: jumbo frames); checked, never set
    ///
    /// A port with another MTU fails immediately. `mtu=` in a host file overrides it. Default: the MTU of most ports.
    /// Example: --mtu 9000
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,

    /// Bytes that tunnels add to each frame between hosts
    ///
    /// They lower the ceiling of a port: 50 for VXLAN over IPv4. Example: --overhead-bytes 50
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0,
        hide_short_help = true
    )]
    pub overhead_bytes: u32,

    /// Share of the expected payload that every port direction must reach, in percent, or peers
    ///
    /// The expected payload is the max-min fair rate for speeds, uplinks and pattern. pipebench retests a port
    /// direction below the floor in isolation before it reports a fault. `peers` means 90 percent, and also 97 % of
    /// the median of the ports of the same speed, if there are six or more. Example: --floor 95
    #[arg(long, value_name = "PERCENT", default_value = "90")]
    pub floor: String,

    /// Payload that every port direction must reach, in bits per second, instead of --floor
    ///
    /// It applies where only the port limits the rate. pipebench refuses a value above the ceiling of a port's
    /// specified speed, and needs --link-speed where a port's speed is unknown. Example: --min-rate 23.5G
    #[arg(
        long,
        value_name = "RATE",
        conflicts_with = "floor",
        hide_short_help = true
    )]
    pub min_rate: Option<String>,

    /// Speed of the uplink of a group of ports, in each direction; repeat it or separate by commas
    ///
    /// Groups are those of `group=` in a host file. An uplink may be oversubscribed on purpose: pipebench then
    /// expects less from the ports of the group. It judges the total rate of an uplink. Example: --uplink
    /// leaf1=400G,leaf2=400G
    #[arg(
        long,
        value_name = "GROUP=RATE",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub uplink: Vec<String>,

    /// Specification of the fabric: non-blocking, all ports reach their ceiling at the same time
    ///
    /// A single switch is sold as non-blocking, and `--profile acceptance` assumes it. If several ports together carry less
    /// than expected and each is healthy in isolation, the verdict is then FAIL; with neither this option nor declared
    /// uplinks it is UNDECIDED. Example: --fabric non-blocking
    #[arg(long, value_enum, value_name = "ORDER", hide_short_help = true)]
    pub fabric: Option<FabricOrder>,
}
