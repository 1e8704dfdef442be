//! The words for data ports and sockets: the same for every command that moves data.

use clap::Args;

/// How data ports and sockets are set up.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sockets")]
pub(crate) struct Sockets {
    /// Network used for data, chosen on each host; several are rails
    ///
    /// Use it when SSH runs over another network than the data. Each network is a rail, with its own links, ports and
    /// rows. Default: the address at which SSH arrives. Example: --data-network 10.1.0.0/16,10.2.0.0/16
    #[arg(
        long,
        value_name = "CIDR",
        value_delimiter = ',',
        conflicts_with = "interface"
    )]
    pub data_network: Vec<String>,

    /// Interface used for data, on each host; several are rails
    ///
    /// Like --data-network, by the name of the interface. Example: --interface ib0,ib1
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub interface: Vec<String>,

    /// TCP ports to listen on, P-1 per node, or one per rank
    ///
    /// Use it behind a packet filter. Default: any free port. Example: --port-range 5201-5210
    #[arg(long, value_name = "FIRST-LAST")]
    pub port_range: Option<String>,

    /// IPv4 only
    ///
    /// For names and data addresses. Default: either. Example: -4
    #[arg(
        short = '4',
        long = "ipv4",
        conflicts_with = "ipv6",
        hide_short_help = true
    )]
    pub ipv4: bool,

    /// IPv6 only
    ///
    /// For names and data addresses. Default: either. Example: -6
    #[arg(short = '6', long = "ipv6", hide_short_help = true)]
    pub ipv6: bool,

    /// Send buffer of every data socket, in bytes
    ///
    /// Default: the system's, except for Unix sockets (256K) and hosts with more than 4096 links (64K). Example:
    /// --sndbuf 1M
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub sndbuf: Option<String>,

    /// Receive buffer of every data socket, in bytes
    ///
    /// A value disables TCP's autotuning. Default: the system's. Example: --rcvbuf 4M
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub rcvbuf: Option<String>,

    /// Largest TCP segment, in bytes
    ///
    /// Use it to test with smaller packets. Default: the value of the path. Example: --mss 1400
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub mss: Option<u32>,

    /// Congestion control of every data socket
    ///
    /// Default: the system's; reno if a host has bbr, which may not fill healthy ports and needs 2 to 4 times the CPU
    /// time where nothing is lost. Example: --congestion reno
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub congestion: Option<String>,

    /// Differentiated services code point, 0 to 63
    ///
    /// Use it to test a traffic class of the switch. Default: 0. Example: --dscp 26
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub dscp: Option<u8>,

    /// Highest rate of each link, in bits per second
    ///
    /// The kernel paces TCP links, the sender paces Unix sockets; blocks are made small enough that 16 pass each
    /// second. Default: no limit. Example: --rate 1G
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    pub rate: Option<String>,
}
