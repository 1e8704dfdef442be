//! The messages between the launching side and a node.
//!
//! ```text
//!  launching side                              node status process
//!                                      <---  magic word, Hello (version, digest, facts)
//!  Estimate                            --->  moves data over loopback, where ports are fast
//!                                      <---  Cost
//!  Prepare (assignment)                --->  memory, listeners, fork
//!                                      <---  Prepared (its listeners)
//!  Connect (listeners of its targets)  --->  senders connect
//!                                      <---  Ready (all links are connected)
//!  Ping ... Pong                       <-->  clock offset
//!  Go (start time, window)             --->  rings phase 0
//!                                      <---  Progress, each second
//!                                      <---  Finished (report)
//!  Series                              <-->  of the worst links
//!  Ping ... Pong, End                  <-->
//!  Alive                               <-->  each second; silence ends either side
//!  Ping ... Pong, Window               <-->  each minute: clocks drift
//!  Lost (a node)                       --->  with --keep-going: its links end, the others continue
//!  Stop                                --->  gives up: Finished with what was measured
//!                                      <---  Trouble (failures, first cause first)
//! ```
//!
//! A job of ranks:
//!
//! ```text
//!  PrepareRanks (assignment)           --->  listeners, forks the ranks
//!                                      <---  RanksListen (addresses of its ranks)
//!  RankBook (addresses of all ranks)   --->  buffers are made
//!                                      <---  Ready
//!  Round (what to measure)             --->  ranks measure, make links when they need them
//!                                      <---  Rank (times), ... Rank (done), from each rank
//!  Round ... End                       --->
//! ```
//!
//! A visitor looks at the runs of others and sends no Prepare:
//!
//! ```text
//!                                      <---  magic word, Hello
//!  Look, repeatedly                    --->  reads status segments
//!                                      <---  Seen
//!  EndRun (token)                      --->  SIGINT to its node status processes
//!                                      <---  Asked
//! ```

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::plan::job::{RankAssignment, Round};
use crate::plan::{Assignment, DataPort};
use crate::record::{
    Asked, HostCost, HostFacts, NodeReport, PairTime, RankLine, Sighting, Trouble,
};

/// Version of the messages. Both sides are the same build, so a difference is an error and is not negotiated.
pub const WIRE_VERSION: u32 = 5;

/// A message from the launching side to a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToNode {
    /// Estimate what a gigabyte costs the host.
    Estimate,
    /// Make memory, listeners and processes for a test.
    Prepare(Box<Assignment>),
    /// Connect to these listeners.
    Connect(AddressBook),
    /// Send the node's clock.
    Ping {
        /// The sender's clock, returned unchanged.
        sent_ns: u64,
    },
    /// Start at a given time.
    Go(Go),
    /// Heartbeat.
    Alive,
    /// Continue the run without this node.
    Lost {
        /// Index of the node.
        node: usize,
    },
    /// End the window at another instant of the node's clock than planned: clocks drift.
    Window {
        /// New end, in nanoseconds.
        end_ns: u64,
    },
    /// Send the series of these links into this node, given by boundary and slot.
    Series(Vec<(usize, usize)>),
    /// Make listeners and ranks for a job.
    PrepareRanks(Box<RankAssignment>),
    /// Addresses of all ranks of the job, by rank; `None` for a rank without TCP links.
    RankBook(Vec<Option<SocketAddr>>),
    /// Measure one round.
    Round(Box<Round>),
    /// Give up, and report what was measured.
    Stop,
    /// The test is over; leave.
    End,
    /// List the runs of all users on this host. Sent only to a node that takes no part in a run.
    Look {
        /// Include every link end.
        ends: bool,
    },
    /// Ask the node status processes of the run with this token to end.
    EndRun(String),
}

/// Start time and interval to measure, on the node's own monotonic clock in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {
    /// Ring phase 0 at this time.
    pub at_ns: u64,
    /// Start and end of the window of a timed run.
    pub window_ns: Option<(u64, u64)>,
    /// Number of blocks on every link, for a run that is bounded by blocks.
    pub blocks: Option<u64>,
}

/// A message from a node to the launching side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromNode {
    /// Identity of the node.
    Hello(Box<Hello>),
    /// The estimate, if there is one.
    Cost(Option<HostCost>),
    /// Memory, listeners and processes are ready.
    Prepared {
        /// Listeners of this node, by boundary.
        listeners: Vec<Listener>,
        /// Length of the node's source file in bytes, if it has one.
        source_bytes: Option<u64>,
        /// Requested addresses, each with the hardware address that answers for it.
        neighbours: Vec<(IpAddr, String)>,
    },
    /// Addresses of this node's ranks, lowest rank first.
    RanksListen(Vec<Option<SocketAddr>>),
    /// Report of a rank.
    Rank {
        /// Number of the rank.
        rank: usize,
        /// The report.
        word: RankWord,
    },
    /// All links of this node are connected, or all its ranks know each other's addresses.
    Ready,
    /// Answer to a ping.
    Pong {
        /// The ping's value, unchanged.
        sent_ns: u64,
        /// The node's clock in nanoseconds.
        node_ns: u64,
    },
    /// Progress of the test.
    Progress(Progress),
    /// Heartbeat.
    Alive,
    /// Failures; `Finished` follows.
    Trouble(Vec<Trouble>),
    /// All runs on this host.
    Seen(Box<Sighting>),
    /// Processes that were asked to end.
    Asked(Vec<Asked>),
    /// Results of the node.
    Finished(Box<NodeReport>),
    /// Payload of the requested links over time.
    Series {
        /// Seconds that each figure covers.
        stretch_s: u64,
        /// Payload in bytes, in the order of the request.
        bytes: Vec<Vec<u64>>,
    },
}

/// Report of a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankWord {
    /// The rank has its buffers and knows the addresses of the others.
    Ready,
    /// Times of links that the rank started, each with the nanoseconds from the begin of the round to the end of its measurement.
    Times(Vec<(PairTime, u64)>),
    /// A line of a table that the rank has measured.
    Line(Box<RankLine>),
    /// The rank has finished its part of a round.
    Done {
        /// Its time for a round from all to all, in seconds.
        all_to_all_s: Option<f64>,
        /// Processor on which it runs.
        processor: usize,
        /// Total number of connections that it has closed as strangers.
        strangers: u64,
    },
}

/// A message from a node status process to one of its ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToRank {
    /// Addresses of all ranks, by rank.
    Book(Vec<Option<SocketAddr>>),
    /// Measure one round.
    Round(Box<Round>),
}

/// A message from a rank to its node status process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromRank {
    /// Report for the launching side.
    Word(RankWord),
    /// The rank cannot continue.
    Trouble(Trouble),
}

/// First message of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The node's [`WIRE_VERSION`].
    pub wire_version: u32,
    /// Version of the executable.
    pub version: String,
    /// SHA-256 of the executable.
    pub digest: String,
    /// Path of the executable on its host.
    pub executable: String,
    /// Process id of the node status process.
    pub pid: i32,
    /// Facts about the host.
    pub facts: HostFacts,
}

/// Listener of one boundary of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listener {
    /// TCP addresses, by rail.
    Tcp(Vec<SocketAddr>),
    /// Abstract Unix name.
    Unix(String),
    /// No listener: all its links are socket pairs made before the fork.
    None,
}

impl Listener {
    /// The same ports at the node's own addresses, by rail: a host must not direct the links of others to a third one.
    pub(crate) fn at(mut self, rails: &[DataPort]) -> Self {
        if let Self::Tcp(addresses) = &mut self {
            for (address, rail) in addresses.iter_mut().zip(rails) {
                address.set_ip(rail.address);
            }
        }
        self
    }
}

/// Listeners of the nodes that a node sends to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressBook {
    /// Index of each of these nodes, and its listeners by boundary.
    pub listeners: Vec<(usize, Vec<Listener>)>,
}

/// Sums of a node since the start, for the live display.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The node's clock in nanoseconds.
    pub at_ns: u64,
    /// Payload sent to other hosts, by rail.
    pub sent_bytes: Vec<u64>,
    /// Payload received from other hosts, by rail.
    pub received_bytes: Vec<u64>,
    /// Payload received from other nodes of its host.
    pub same_host_bytes: u64,
    /// Payload that the node received from itself.
    pub own_bytes: u64,
    /// Sender of the slowest link into this node, and the bytes received over that link.
    pub slowest: Option<(usize, u64)>,
    /// Number of link ends that have not finished.
    pub open_links: usize,
    /// Payload received over each link into this node, by boundary and slot; empty unless samples are requested.
    #[serde(default)]
    pub links: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_tells_ports_and_no_addresses() {
        let address = |text: &str| text.parse().unwrap();
        let told = Listener::Tcp(vec![address("10.9.9.9:7"), address("10.9.9.9:8")]);
        let rails = ["10.0.0.1", "10.1.0.1"].map(|own| DataPort {
            address: own.parse().unwrap(),
            interface: None,
        });
        let own = vec![address("10.0.0.1:7"), address("10.1.0.1:8")];
        assert_eq!(told.at(&rails), Listener::Tcp(own));
    }

    #[test]
    fn messages_are_json_that_one_can_read() {
        let text = serde_json::to_string(&ToNode::Go(Go {
            at_ns: 5,
            window_ns: Some((6, 7)),
            blocks: None,
        }))
        .unwrap();
        assert_eq!(
            text,
            r#"{"go":{"at_ns":5,"window_ns":[6,7],"blocks":null}}"#
        );
        let back: ToNode = serde_json::from_str(&text).unwrap();
        assert_eq!(
            back,
            ToNode::Go(Go {
                at_ns: 5,
                window_ns: Some((6, 7)),
                blocks: None,
            })
        );
        assert!(serde_json::from_str::<ToNode>(r#"{"dance":1}"#).is_err());
    }
}
