//! The part of a test's plan that one node receives.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{
    BLOCK_BYTES, Datapath, Deadlines, LinkKind, PHASES, PatternError, RAILS, STREAMS, Test,
    Transport, lanes, size,
};

/// Longest deadline in milliseconds. It does not overflow in nanoseconds, nor when added to a clock.
const LONGEST_MS: u64 = 9_000_000_000_000;
/// Maximum number of processes on any Linux.
const MOST_PROCESSES: usize = 1 << 22;
/// Allowed number of nodes of a run.
const NODES: RangeInclusive<usize> = 1..=1 << 14;

/// One data port of a node, also called a rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPort {
    /// Address to listen on and to connect from.
    pub address: IpAddr,
    /// Interface with this address, if known.
    pub interface: Option<String>,
}

/// The nodes of a run as far as one of them knows them. With a thousand nodes the labels of all of them in each assignment are megabytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peers {
    /// Number of nodes of the run.
    pub nodes: usize,
    /// Number of those on this node's host.
    pub on_host: usize,
    /// Indices and labels of this node and of those that it sends to or receives from, in ascending order.
    pub labels: Vec<(usize, String)>,
    /// Indices of those of them that are on this node's host, in ascending order.
    pub same_host: Vec<usize>,
}

impl Peers {
    fn place(&self, node: usize) -> Option<usize> {
        let known = self.labels.binary_search_by_key(&node, |(peer, _)| *peer);
        known.ok()
    }

    /// Label of a node; empty if it is no peer.
    pub fn label(&self, node: usize) -> &str {
        let place = self.place(node);
        place.map_or("", |place| self.labels[place].1.as_str())
    }

    /// True if a peer is on this node's host.
    pub fn shares_host(&self, node: usize) -> bool {
        self.same_host.binary_search(&node).is_ok()
    }

    /// True if all nodes of the run are on one host.
    pub fn is_one_host(&self) -> bool {
        self.on_host == self.nodes
    }

    /// True if the numbers fit each other and node `node`. They come from another process.
    pub(crate) fn are_sound(&self, node: usize) -> bool {
        let known = |node: &usize| self.place(*node).is_some();
        let last = self.labels.last();
        NODES.contains(&self.nodes)
            && self.labels.is_sorted_by(|a, b| a.0 < b.0)
            && last.is_some_and(|(last, _)| *last < self.nodes)
            && self.same_host.is_sorted_by(|a, b| a < b)
            && self.same_host.iter().all(known)
            && self.shares_host(node)
            && (self.same_host.len()..=self.nodes).contains(&self.on_host)
    }
}

/// A node's membership of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Membership {
    /// Random name of the run; not secret.
    pub token: String,
    /// Secret that every link of the run sends first. A link without it is a stranger. Only nodes receive it; no file and no name contains it.
    pub secret: String,
    /// Random digits in the names of this test's Unix sockets, so that no other user can take a name first.
    pub names: String,
    /// User who started the run, as `user@host`.
    pub by: String,
    /// Start of the run by the launching side's clock, in milliseconds since 1970.
    pub started_ms: u64,
    /// Index of this node.
    pub node: usize,
    /// Number of nodes of the run on its host that come before it.
    pub place_on_host: usize,
    /// The nodes that it knows.
    pub peers: Peers,
    /// Time limit of each stage.
    pub deadlines: Deadlines,
}

/// The part of a test's plan that one node receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The run, and this node's place in it.
    #[serde(flatten)]
    pub run: Membership,
    /// Data ports on which this node listens and from which it connects, by rail.
    pub rails: Vec<DataPort>,
    /// The test.
    pub test: Test,
    /// Seed of the payload.
    pub seed: u64,
    /// Addresses of other hosts, by rail. The node reports which hardware addresses answer for them.
    #[serde(default)]
    pub neighbours: Vec<Vec<IpAddr>>,
    /// True if only the links to lost nodes end, and all other links continue.
    #[serde(default)]
    pub keep_going: bool,
    /// True if the node reports each second of every link, not only sums.
    #[serde(default)]
    pub samples: bool,
}

/// Reason why a node cannot follow an assignment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// Node indices that contradict the number of nodes.
    #[error("assignment of node {0} of {1}: there is no such node")]
    Nodes(usize, usize),
    /// A number outside of its allowed range.
    #[error("assignment with {number} {what}: from {} to {} are possible", limits.start(), limits.end())]
    Number {
        /// Name of the number.
        what: &'static str,
        /// Its value.
        number: usize,
        /// Allowed range.
        limits: RangeInclusive<usize>,
    },
    /// More processes than a host can have.
    #[error(
        "assignment of {0} processes: a host has {MOST_PROCESSES} at most (fewer --streams or --phases)"
    )]
    Processes(usize),
    /// A pattern that cannot run.
    #[error("assignment: {0}")]
    Pattern(#[from] PatternError),
    /// A transport that only ranks have.
    #[error("assignment with shared memory as transport: the pipeline's links are sockets")]
    Transport,
    /// A deadline that overflows a clock.
    #[error("assignment with a deadline of {0} ms: {LONGEST_MS} ms at most (--deadline)")]
    Deadline(u64),
}

impl Membership {
    /// Number of nodes of the run.
    pub fn nodes(&self) -> usize {
        self.peers.nodes
    }

    /// Number of the run's nodes on this host.
    pub fn nodes_on_host(&self) -> usize {
        self.peers.on_host
    }

    /// Label of this node.
    pub fn label(&self) -> &str {
        self.peers.label(self.node)
    }

    /// Checks that the numbers go together and that no deadline overflows. They come from another process.
    pub(super) fn check(&self) -> Result<(), AssignmentError> {
        let (node, nodes) = (self.node, self.nodes());
        check_numbers([("nodes", nodes, NODES)])?;
        if !self.peers.are_sound(node) || self.place_on_host >= self.nodes_on_host() {
            return Err(AssignmentError::Nodes(node, nodes));
        }
        match self.deadlines.longest_ms() {
            ms if ms > LONGEST_MS => Err(AssignmentError::Deadline(ms)),
            _ => Ok(()),
        }
    }
}

impl Assignment {
    /// Checks that a node can follow this assignment. It comes from another process, and everything that is calculated from it relies on
    /// these checks.
    pub fn check(&self) -> Result<(), AssignmentError> {
        self.run.check()?;
        let (nodes, test) = (self.run.nodes(), &self.test);
        check_numbers([
            ("phases", test.phases, PHASES),
            ("streams", test.streams, STREAMS),
            ("block bytes", test.block_bytes, BLOCK_BYTES),
        ])?;
        test.pattern.check(nodes, test.phases)?;
        if test.transport == Transport::Shm {
            return Err(AssignmentError::Transport);
        }
        if self.rails.len() != test.rails || !RAILS.contains(&test.rails) {
            return Err(AssignmentError::Number {
                what: "rails",
                number: test.rails,
                limits: RAILS,
            });
        }
        let processes = size::processes_per_node(test, nodes);
        if processes > MOST_PROCESSES {
            return Err(AssignmentError::Processes(processes));
        }
        Ok(())
    }

    /// True if the senders of a phase let others run first: those that make what they send, and could fill all queues. The others take what was
    /// sent while it is in the cache. Pages are not in the cache anyway. Senders to other hosts never wait for more than their link: on a busy
    /// host, ports would carry less than they can.
    pub fn gives_way(&self, phase: usize) -> bool {
        phase == 0
            && self.test.senders_are_sources()
            && self.test.datapath == Datapath::Copy
            && self.run.peers.is_one_host()
    }

    /// Data port of a lane's link.
    pub fn rail(&self, lane: &lanes::Lane) -> &DataPort {
        &self.rails[self.test.rail_of(lane.stream)]
    }

    /// Kind of the link of a lane of this node.
    pub fn kind_of(&self, lane: &lanes::Lane) -> LinkKind {
        kind_of(self.test.transport, lane)
    }
}

/// Checks that each number is within its limits.
pub(super) fn check_numbers(
    numbers: impl IntoIterator<Item = (&'static str, usize, RangeInclusive<usize>)>,
) -> Result<(), AssignmentError> {
    let mut numbers = numbers.into_iter();
    match numbers.find(|(_, number, limits)| !limits.contains(number)) {
        None => Ok(()),
        Some((what, number, limits)) => Err(AssignmentError::Number {
            what,
            number,
            limits,
        }),
    }
}

/// Kind of the link of a lane. Within a node sockets are made as pairs, before the fork.
pub fn kind_of(transport: Transport, lane: &lanes::Lane) -> LinkKind {
    let within_node = lane.from == lane.to;
    match transport.link(within_node) {
        LinkKind::Unix if within_node => LinkKind::Pair,
        kind => kind,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::lanes::tests::test_of;
    use super::*;

    pub(crate) fn membership() -> Membership {
        Membership {
            token: "t".to_owned(),
            secret: "s".to_owned(),
            names: "n".to_owned(),
            by: String::new(),
            started_ms: 0,
            node: 1,
            place_on_host: 0,
            peers: Peers {
                nodes: 2,
                on_host: 1,
                labels: vec![(0, "n1".to_owned()), (1, "n2".to_owned())],
                same_host: vec![1],
            },
            deadlines: Deadlines::default(),
        }
    }

    pub(crate) fn assignment() -> Assignment {
        Assignment {
            run: membership(),
            keep_going: false,
            samples: false,
            neighbours: Vec::new(),
            rails: vec![DataPort {
                address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
                interface: None,
            }],
            test: test_of(3, 1),
            seed: 1,
        }
    }

    #[test]
    fn an_assignment_that_makes_no_sense_is_refused_before_anything_is_made() {
        let refused = |change: fn(&mut Assignment)| {
            let mut changed = assignment();
            change(&mut changed);
            changed.check().unwrap_err().to_string()
        };
        assert_eq!(assignment().check(), Ok(()));
        let all = [
            refused(|all| all.run.node = 2),
            refused(|all| all.run.peers.labels.clear()),
            refused(|all| all.run.peers.same_host.clear()),
            refused(|all| all.run.place_on_host = 1),
            refused(|all| all.test.phases = 0),
            refused(|all| all.test.streams = usize::MAX),
            refused(|all| all.test.block_bytes = 0),
            refused(|all| all.run.deadlines.volume_ms = u64::MAX),
            refused(|all| all.rails.clear()),
            refused(|all| all.test.transport = Transport::Shm),
        ];
        assert_eq!(all[0], "assignment of node 2 of 2: there is no such node");
        assert_eq!(
            all[4],
            "assignment with 0 phases: from 2 to 32 are possible"
        );
        let many = refused(|all| {
            all.run.peers.nodes = 1 << 14;
            all.test.streams = 256;
        });
        assert!(
            many.starts_with("assignment of 16777220 processes"),
            "{many}"
        );
        // The number is all that a message needs to claim so many nodes.
        let text = "assignment with 1000000 nodes: from 1 to 16384 are possible";
        assert_eq!(refused(|all| all.run.peers.nodes = 1_000_000), text);
        assert!(refused(|all| all.run.peers.on_host = 3).contains("there is no such node"));
        assert!(refused(|all| all.run.peers.labels.swap(0, 1)).contains("no such node"));
    }

    #[test]
    fn a_node_knows_the_labels_of_its_peers_and_of_no_others() {
        let peers = Peers {
            nodes: 1000,
            on_host: 1,
            labels: vec![(6, "n7".to_owned()), (998, "n999".to_owned())],
            same_host: vec![6],
        };
        assert_eq!(
            [6, 7, 998, 1000].map(|node| peers.label(node)),
            ["n7", "", "n999", ""]
        );
        assert_eq!(
            [6, 7, 998].map(|node| peers.shares_host(node)),
            [true, false, false]
        );
        assert!(peers.are_sound(6) && !peers.are_sound(998));
    }

    /// Symptom: a busy host shared a backplane unevenly, because its sources waited for their turns while their links were idle.
    #[test]
    fn only_sources_of_copies_on_one_host_give_way() {
        let mut all = assignment();
        let peers = &mut all.run.peers;
        peers.on_host = peers.nodes;
        assert!(all.gives_way(0) && !all.gives_way(1));
        all.run.peers.on_host -= 1;
        assert!(!all.gives_way(0));
        all.run.peers.on_host += 1;
        all.test.datapath = Datapath::Zerocopy;
        assert!(!all.gives_way(0));
    }
}
