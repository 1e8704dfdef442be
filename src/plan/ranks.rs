//! Ranks, that is processes that pass messages, and the connections between them.

use serde::{Deserialize, Serialize};

use super::{DataNetwork, SocketOptions, Transport};

/// The ranks of a job and the connections between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// Number of ranks on each node.
    pub per_node: usize,
    /// Assignment of ranks to nodes.
    pub order: RankOrder,
    /// True if each rank is pinned to its own processor, where enough processors exist.
    pub pinned: bool,
    /// Behaviour of a rank while nothing moves.
    #[serde(default)]
    pub wait: Wait,
    /// Kind of the links between ranks.
    pub transport: Transport,
    /// Options of the ranks' sockets.
    pub sockets: SocketOptions,
    /// First and last port for listeners; any port if absent.
    pub ports: Option<(u16, u16)>,
    /// Selection of the data addresses on each host.
    pub network: DataNetwork,
}

/// Behaviour of a rank while nothing moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Spins while processors are free, otherwise yields. Sleeps after a long time without progress.
    #[default]
    Auto,
    /// Spins first, even if other processes want the processor.
    Spin,
    /// Yields the processor to other processes first.
    Yield,
    /// Sleeps at once: each half of a round trip takes 30 to 50 us longer, and no processor is kept busy.
    Sleep,
}

impl Wait {
    /// All variants with their names.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("spin", Self::Spin),
        ("yield", Self::Yield),
        ("sleep", Self::Sleep),
    ];
}

/// Assignment of ranks to nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankOrder {
    /// The first ranks on the first node, the next ones on the second.
    #[default]
    Block,
    /// One rank on each node in turn, then again from the first node.
    RoundRobin,
}

impl Ranks {
    /// Total number of ranks.
    pub fn count(&self, nodes: usize) -> usize {
        self.per_node.saturating_mul(nodes)
    }

    /// Node of a rank.
    pub fn node_of(&self, rank: usize, nodes: usize) -> usize {
        match self.order {
            RankOrder::Block => rank / self.per_node.max(1),
            RankOrder::RoundRobin => rank % nodes.max(1),
        }
    }

    /// Ranks of a node, lowest first.
    pub fn of_node(&self, node: usize, nodes: usize) -> Vec<usize> {
        let all = 0..self.count(nodes);
        all.filter(|rank| self.node_of(*rank, nodes) == node)
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ranks(per_node: usize, order: RankOrder) -> Ranks {
        Ranks {
            per_node,
            order,
            wait: Wait::Auto,
            pinned: false,
            transport: Transport::Auto,
            sockets: SocketOptions::default(),
            ports: None,
            network: DataNetwork::default(),
        }
    }

    #[test]
    fn ranks_are_placed_by_block_or_in_turn() {
        let nodes = 3;
        let blocks = ranks(2, RankOrder::Block);
        let all: Vec<usize> = (0..6).map(|rank| blocks.node_of(rank, nodes)).collect();
        assert_eq!(all, [0, 0, 1, 1, 2, 2]);
        let turns = ranks(2, RankOrder::RoundRobin);
        let all: Vec<usize> = (0..6).map(|rank| turns.node_of(rank, nodes)).collect();
        assert_eq!(all, [0, 1, 2, 0, 1, 2]);
        assert_eq!(turns.of_node(1, nodes), [1, 4]);
        assert_eq!(blocks.of_node(1, nodes), [2, 3]);
    }
}
