//! The part of a test's plan that one node receives.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{
    BLOCK_BYTES, Deadlines, LinkKind, PHASES, PatternError, RAILS, STREAMS, Test, Transport, lanes,
    size,
};

/// Longest deadline in milliseconds. It does not overflow in nanoseconds, nor when added to a clock.
const LONGEST_MS: u64 = 9_000_000_000_000;
/// Maximum number of processes on any Linux.
const MOST_PROCESSES: usize = 1 << 22;

/// One data port of a node, also called a rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPort {
    /// Address to listen on and to connect from.
    pub address: IpAddr,
    /// Interface with this address, if known.
    pub interface: Option<String>,
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
    /// Labels of all nodes.
    pub labels: Vec<String>,
    /// For each node, true if it is on this node's host.
    pub same_host: Vec<bool>,
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
        self.labels.len()
    }

    /// Number of the run's nodes on this host.
    pub fn nodes_on_host(&self) -> usize {
        self.same_host.iter().filter(|same| **same).count()
    }

    /// Checks that the numbers go together and that no deadline overflows. They come from another process.
    pub(super) fn check(&self) -> Result<(), AssignmentError> {
        let (node, nodes) = (self.node, self.nodes());
        if node >= nodes || self.same_host.len() != nodes || !self.same_host[node] {
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
            labels: vec!["n1".to_owned(), "n2".to_owned()],
            same_host: vec![false, true],
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
            refused(|all| all.run.labels.clear()),
            refused(|all| all.run.same_host.truncate(1)),
            refused(|all| all.run.same_host[1] = false),
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
            all.run.labels = vec![String::new(); 1 << 14];
            all.run.same_host = vec![true; 1 << 14];
            all.test.streams = 256;
        });
        assert!(
            many.starts_with("assignment of 16777220 processes"),
            "{many}"
        );
    }
}
