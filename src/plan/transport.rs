//! Transports: what the links of a run are made of. Another transport is a variant of both enums here, and one of `link::Endpoint`.

use serde::{Deserialize, Serialize};

/// Transport of a run's links, as the plan sets it for all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP between nodes, Unix-domain sockets within a node.
    #[default]
    Auto,
    /// TCP everywhere.
    Tcp,
    /// Unix-domain sockets everywhere: all nodes must be on one host.
    Unix,
    /// TCP between nodes, shared memory within a node. Only links between ranks can have it.
    Shm,
}

/// Kind of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// TCP.
    Tcp,
    /// A Unix-domain socket found by name.
    Unix,
    /// A pair of Unix-domain sockets made before the fork.
    Pair,
    /// Memory that both ends share.
    Memory,
}

impl Transport {
    /// Kind of the links within a node, or between two nodes.
    pub fn link(self, within_node: bool) -> LinkKind {
        match self {
            Self::Auto if within_node => LinkKind::Unix,
            Self::Shm if within_node => LinkKind::Memory,
            Self::Auto | Self::Shm | Self::Tcp => LinkKind::Tcp,
            Self::Unix => LinkKind::Unix,
        }
    }

    /// True if links can connect nodes of different hosts.
    pub fn crosses_hosts(self) -> bool {
        self.link(false).needs_port()
    }

    /// True if the links of `nodes` nodes need listeners on ports.
    pub fn needs_ports(self, nodes: usize) -> bool {
        self.link(true).needs_port() || (nodes > 1 && self.link(false).needs_port())
    }
}

impl LinkKind {
    /// True if the receiver listens on a port, which other hosts can reach.
    pub fn needs_port(self) -> bool {
        self == Self::Tcp
    }

    /// True if the kernel has TCP statistics of the link, and paces it and sizes its buffers.
    pub fn has_tcp_info(self) -> bool {
        self == Self::Tcp
    }

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Unix | Self::Pair => "Unix-domain sockets",
            Self::Memory => "shared memory",
        }
    }
}
