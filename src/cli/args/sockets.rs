//! The words for data ports and sockets: the same for every command that moves data.

use clap::Args;

/// What is asked of data ports and sockets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sockets")]
pub(crate) struct Sockets {
    /// Network that bears the data, chosen on each host; several are rails
    ///
    /// Use it when SSH runs over another network than the data. Each network is a rail, with links, ports and rows of its
    /// own. Default: the address at which SSH arrives. Example: --data-network 10.1.0.0/16,10.2.0.0/16
    #[arg(
        long,
        value_name = "CIDR",
        value_delimiter = ',',
        conflicts_with = "interface"
    )]
    pub data_network: Vec<String>,

    /// Interface that bears the data, on each host; several are rails
    ///
    /// As --data-network, by the interface's name. No default. Example: --interface ib0,ib1
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub interface: Vec<String>,

    /// Ports to listen on, P-1 per node, or one per rank
    ///
    /// Use it behind a packet filter. Default: any free port. Example: --port-range 5201-5210
    #[arg(long, value_name = "FIRST-LAST")]
    pub port_range: Option<String>,

    /// IPv4 only
    ///
    /// For names and data addresses. Default: either. Example: -4
    #[arg(short = '4', long = "ipv4", conflicts_with = "ipv6")]
    pub ipv4: bool,

    /// IPv6 only
    ///
    /// For names and data addresses. Default: either. Example: -6
    #[arg(short = '6', long = "ipv6")]
    pub ipv6: bool,

    /// Send buffer of every data socket, in bytes
    ///
    /// Default: the system's, except Unix sockets (256K) and hosts with more than 4096 links (64K). Example: --sndbuf 1M
    #[arg(long, value_name = "SIZE")]
    pub sndbuf: Option<String>,

    /// Receive buffer of every data socket, in bytes
    ///
    /// Setting it switches TCP's autotuning off. Default: the system's. Example: --rcvbuf 4M
    #[arg(long, value_name = "SIZE")]
    pub rcvbuf: Option<String>,

    /// Largest TCP segment, in bytes
    ///
    /// Use it to test with smaller packets. Default: what the path gives. Example: --mss 1400
    #[arg(long, value_name = "BYTES")]
    pub mss: Option<u32>,

    /// Congestion control of every data socket
    ///
    /// Default: the system's; reno where that of a host is bbr, which may leave sound ports unfilled and costs 2 to 4 times the CPU where
    /// nothing is lost. Example: --congestion reno
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,

    /// Differentiated services code point, 0 to 63
    ///
    /// Use it to test a traffic class of the switch. Default: 0. Example: --dscp 26
    #[arg(long, value_name = "N")]
    pub dscp: Option<u8>,

    /// Greatest rate of each link, in bits per second
    ///
    /// Paced by the kernel on TCP, by the sender on Unix sockets; blocks become so small that 16 pass each second. Default: none. Example: --rate 1G
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
}
