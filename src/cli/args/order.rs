//! The words for what was ordered, and what is enough of it.

use clap::{Args, ValueEnum};

/// What is asked of all ports at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FabricOrder {
    /// All ports at once carry what each of them can.
    NonBlocking,
}

/// What a run is judged by.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Criteria")]
pub(crate) struct Order {
    /// Speed of every data port as ordered, in bits per second
    ///
    /// A port that negotiated less is a FAIL before a byte flows. `speed=` in a host file goes before it. Without either,
    /// ports are judged by the speed they negotiated, and the summary says so; interfaces without hardware, whose speed is a
    /// word, are not judged. Example: --link-speed 25G
    #[arg(long, value_name = "RATE")]
    pub link_speed: Option<String>,

    /// MTU of every data port as ordered, in bytes
    ///
    /// A port with another one is a FAIL before a byte flows. `mtu=` in a host file goes before it. Default: what most of
    /// them have. Example: --mtu 9000
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,

    /// What tunnels add to each frame between hosts, in bytes
    ///
    /// It lowers the payload that a port can carry: 50 for VXLAN over IPv4. Default 0. Example: --overhead-bytes 50
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub overhead_bytes: u32,

    /// Share of the expected payload that every port direction must reach, in percent, or peers
    ///
    /// Expected is what max-min fair filling gives for speeds, uplinks and pattern, in payload. A port direction below it is
    /// measured by itself before anything is said. `peers` means 90, and besides 97 % of the median of the ports of its speed,
    /// if there are six or more. Default 90. Example: --floor 95
    #[arg(long, value_name = "PERCENT", default_value = "90")]
    pub floor: String,

    /// Payload that every port direction must reach, in bits per second, in place of --floor
    ///
    /// Judged where nothing but the port limits it, and refused where a port was ordered with less. Example: --min-rate 23.5G
    #[arg(long, value_name = "RATE", conflicts_with = "floor")]
    pub min_rate: Option<String>,

    /// Speed of the uplink of a group of ports, in each direction; repeat it or separate by commas
    ///
    /// Groups are those of `group=` in a host file. An uplink may be oversubscribed on purpose: ports behind it are then
    /// expected to carry less. It is judged by its sum. Example: --uplink leaf1=400G,leaf2=400G
    #[arg(long, value_name = "GROUP=RATE", value_delimiter = ',')]
    pub uplink: Vec<String>,

    /// What was ordered of the fabric: non-blocking, all ports at once carry what each of them can
    ///
    /// A single switch is sold as that, and `--profile acceptance` asks for it. Where several ports together carry less than
    /// they should and each of them is well alone, that is a FAIL then; without this, or declared uplinks, it is UNDECIDED.
    /// Example: --fabric non-blocking
    #[arg(long, value_enum, value_name = "ORDER")]
    pub fabric: Option<FabricOrder>,
}
