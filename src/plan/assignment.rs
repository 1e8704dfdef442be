//! What one node is told of a test.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{
    BLOCK_BYTES, Deadlines, PHASES, PatternError, RAILS, STREAMS, Test, Transport, lanes, size,
};

/// The longest deadline: in nanoseconds, and on a clock, it is still a number.
const LONGEST_MS: u64 = 9_000_000_000_000;
/// No Linux has more processes.
const MOST_PROCESSES: usize = 1 << 22;

/// One data port of a node: a rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPort {
    /// Address to listen on and to connect from.
    pub address: IpAddr,
    /// Interface that bears it, where known.
    pub interface: Option<String>,
}

/// What one node is told of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Random name of the run, which anybody may read.
    pub token: String,
    /// What every link of the run says first; links without it are strangers. It is told to nodes alone, and stands in no file or name.
    pub secret: String,
    /// Random digits in the names of the Unix sockets of this test, so that no other user can take a name first.
    pub names: String,
    /// Who started the run, as `user@host`.
    pub by: String,
    /// When, in milliseconds since 1970, by the launching side's clock.
    pub started_ms: u64,
    /// Index of this node.
    pub node: usize,
    /// Labels of all nodes.
    pub labels: Vec<String>,
    /// For each node, whether it lives on this node's host.
    pub same_host: Vec<bool>,
    /// Where this node listens and from where it connects, by rail.
    pub rails: Vec<DataPort>,
    /// What to do.
    pub test: Test,
    /// How long each stage may take.
    pub deadlines: Deadlines,
    /// Seed of the payload.
    pub seed: u64,
    /// How many nodes of this run share the host.
    pub nodes_on_host: usize,
    /// Addresses of other hosts, by rail, of which it is to say who answers for them.
    #[serde(default)]
    pub neighbours: Vec<Vec<IpAddr>>,
    /// Links to nodes that are lost end, and the others go on.
    #[serde(default)]
    pub keep_going: bool,
    /// Every link is told of each second, not only sums.
    #[serde(default)]
    pub samples: bool,
}

/// Why an assignment cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// It names nodes that are not there.
    #[error(
        "assignment of node {node} of {nodes}, {on_host} of them on this host: they do not go together"
    )]
    Nodes {
        /// Index of the node.
        node: usize,
        /// Labels.
        nodes: usize,
        /// Nodes of the host.
        on_host: usize,
    },
    /// A number that no plan has.
    #[error("assignment with {number} {what}: from {} to {} are possible", limits.start(), limits.end())]
    Number {
        /// Of what.
        what: &'static str,
        /// As it stands there.
        number: usize,
        /// As it may be.
        limits: RangeInclusive<usize>,
    },
    /// More processes than a host has.
    #[error(
        "assignment of {0} processes: a host has {MOST_PROCESSES} at most (fewer --streams or --phases)"
    )]
    Processes(usize),
    /// Links that cannot be.
    #[error("assignment: {0}")]
    Pattern(#[from] PatternError),
    /// Too late for any clock.
    #[error("assignment with a deadline of {0} ms: {LONGEST_MS} ms at most (--deadline)")]
    Deadline(u64),
}

impl Assignment {
    /// Number of nodes of the run.
    pub fn nodes(&self) -> usize {
        self.labels.len()
    }

    /// Whether a node may follow this assignment: it comes from another process, and all that is computed from it
    /// relies on what is checked here.
    pub fn check(&self) -> Result<(), AssignmentError> {
        let (node, nodes, test) = (self.node, self.nodes(), &self.test);
        let on_host = self.nodes_on_host;
        if node >= nodes || self.same_host.len() != nodes || !(1..=nodes).contains(&on_host) {
            return Err(AssignmentError::Nodes {
                node,
                nodes,
                on_host,
            });
        }
        let within = [
            ("phases", test.phases, PHASES),
            ("streams", test.streams, STREAMS),
            ("block bytes", test.block_bytes, BLOCK_BYTES),
        ];
        for (what, number, limits) in within {
            if !limits.contains(&number) {
                return Err(AssignmentError::Number {
                    what,
                    number,
                    limits,
                });
            }
        }
        test.pattern.check(nodes, test.phases)?;
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
        match self.deadlines.longest_ms() {
            ms if ms > LONGEST_MS => Err(AssignmentError::Deadline(ms)),
            _ => Ok(()),
        }
    }

    /// The data port that bears a lane's link.
    pub fn rail(&self, lane: &lanes::Lane) -> &DataPort {
        &self.rails[self.test.rail_of(lane.stream)]
    }

    /// What the link of a lane of this node is made of.
    pub fn kind_of(&self, lane: &lanes::Lane) -> LinkKind {
        kind_of(self.test.transport, lane)
    }
}

/// What the link of a lane is made of.
pub fn kind_of(transport: Transport, lane: &lanes::Lane) -> LinkKind {
    match transport {
        Transport::Auto if lane.from == lane.to => LinkKind::Pair,
        Transport::Auto | Transport::Tcp => LinkKind::Tcp,
        Transport::Unix if lane.from == lane.to => LinkKind::Pair,
        Transport::Unix => LinkKind::Unix,
    }
}

/// What a link is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// TCP.
    Tcp,
    /// A Unix-domain socket found by name.
    Unix,
    /// A pair of Unix-domain sockets made before the fork.
    Pair,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::lanes::tests::test_of;
    use super::*;

    pub(crate) fn assignment() -> Assignment {
        Assignment {
            token: "t".to_owned(),
            secret: "s".to_owned(),
            names: "n".to_owned(),
            node: 1,
            labels: vec!["n1".to_owned(), "n2".to_owned()],
            same_host: vec![false, true],
            by: String::new(),
            started_ms: 0,
            keep_going: false,
            samples: false,
            neighbours: Vec::new(),
            rails: vec![DataPort {
                address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
                interface: None,
            }],
            test: test_of(3, 1),
            deadlines: Deadlines::default(),
            seed: 1,
            nodes_on_host: 1,
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
            refused(|all| all.node = 2),
            refused(|all| all.labels.clear()),
            refused(|all| all.same_host.truncate(1)),
            refused(|all| all.nodes_on_host = usize::MAX),
            refused(|all| all.test.phases = 0),
            refused(|all| all.test.streams = usize::MAX),
            refused(|all| all.test.block_bytes = 0),
            refused(|all| all.deadlines.volume_ms = u64::MAX),
            refused(|all| all.rails.clear()),
        ];
        assert_eq!(
            all[0],
            "assignment of node 2 of 2, 1 of them on this host: they do not go together"
        );
        assert_eq!(
            all[4],
            "assignment with 0 phases: from 2 to 32 are possible"
        );
        let many = refused(|all| {
            all.labels = vec![String::new(); 1 << 14];
            all.same_host = vec![false; 1 << 14];
            all.test.streams = 256;
        });
        assert!(
            many.starts_with("assignment of 16777220 processes"),
            "{many}"
        );
    }
}
