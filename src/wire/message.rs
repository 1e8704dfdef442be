//! The messages between the launching side and a node.
//!
//! ```text
//!  launching side                              node status process
//!                                      <---  magic word, Hello (version, digest, facts)
//!  Prepare (assignment)                --->  memory, listeners, fork
//!                                      <---  Prepared (where it listens)
//!  Connect (address book)              --->  senders connect
//!                                      <---  Ready (all links stand)
//!  Ping ... Pong                       <-->  clock offset
//!  Go (when, window)                   --->  rings phase 0
//!                                      <---  Progress, each second
//!                                      <---  Finished (report)
//!  Series                              <-->  of the worst links
//!  Ping ... Pong, End                  <-->
//!  Alive                               <-->  each second; silence ends either side
//!  Ping ... Pong, Window               <-->  each minute: clocks drift
//!  Lost (a node)                       --->  with --keep-going: its links end, the others go on
//!  Stop                                --->  gives up: Finished with what there is
//!                                      <---  Trouble (what failed, first cause first)
//! ```
//!
//! A job of ranks:
//!
//! ```text
//!  PrepareRanks (assignment)           --->  listeners, forks the ranks
//!                                      <---  RanksListen (where each of them does)
//!  RankBook (all of them)              --->  buffers are made
//!                                      <---  Ready
//!  Round (who measures with whom)      --->  ranks measure, make links when they need them
//!                                      <---  Rank (times), ... Rank (done), from each of them
//!  Round ... End                       --->
//! ```
//!
//! A visitor, who looks at the runs of others, sends no Prepare:
//!
//! ```text
//!                                      <---  magic word, Hello
//!  Look, again and again               --->  reads status segments
//!                                      <---  Seen
//!  EndRun (token)                      --->  SIGINT to its node status processes
//!                                      <---  Asked
//! ```

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::plan::Assignment;
use crate::plan::job::{RankAssignment, Round};
use crate::record::{Asked, NodeReport, RankWord, Sighting, Trouble};
use crate::sys::facts::HostFacts;

/// Version of the messages; both sides are the same build, so a difference is an error and no negotiation.
pub const WIRE_VERSION: u32 = 3;

/// From the launching side to a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToNode {
    /// Make memory, listeners and processes for a test.
    Prepare(Box<Assignment>),
    /// Where every boundary of every node listens.
    Connect(AddressBook),
    /// Asks for the node's clock.
    Ping {
        /// Returned as it is.
        sent_ns: u64,
    },
    /// Start.
    Go(Go),
    /// Still there.
    Alive,
    /// The run goes on without that node.
    Lost {
        /// Index of the node.
        node: usize,
    },
    /// The window ends at another instant of the node's clock than was thought: clocks drift.
    Window {
        /// New end, in nanoseconds.
        end_ns: u64,
    },
    /// Asks for the series of links into this node, by boundary and slot.
    Series(Vec<(usize, usize)>),
    /// Make listeners and ranks for a job.
    PrepareRanks(Box<RankAssignment>),
    /// Where every rank of the job listens, by rank; none where all its links are Unix sockets.
    RankBook(Vec<Option<SocketAddr>>),
    /// Measure.
    Round(Box<Round>),
    /// Give up, and report what was measured.
    Stop,
    /// The test is over; leave.
    End,
    /// What runs on this host, of whomever? Asked of a node that takes no part in a run.
    Look {
        /// With every link end.
        ends: bool,
    },
    /// Ask the node status processes of the run with this token to end.
    EndRun(String),
}

/// When to start and what to count, on the node's own monotonic clock in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {
    /// Ring phase 0 at this time.
    pub at_ns: u64,
    /// First and last instant of the window of a timed run.
    pub window_ns: Option<(u64, u64)>,
    /// Blocks on every link of a run that is bounded by them.
    pub blocks: Option<u64>,
}

/// From a node to the launching side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromNode {
    /// Who is there.
    Hello(Box<Hello>),
    /// Memory, listeners and processes stand.
    Prepared {
        /// For each boundary, where this node listens for it.
        listeners: Vec<Listener>,
        /// Length of its source file in bytes, if it has one.
        source_bytes: Option<u64>,
        /// Who answers for the addresses that it was to ask for: each with a hardware address.
        neighbours: Vec<(IpAddr, String)>,
    },
    /// Where the ranks of this node listen, lowest rank first.
    RanksListen(Vec<Option<SocketAddr>>),
    /// What a rank tells.
    Rank {
        /// Its number.
        rank: usize,
        /// What it tells.
        word: RankWord,
    },
    /// All links of this node stand, or all its ranks know of each other.
    Ready,
    /// Answer to a ping.
    Pong {
        /// As it was sent.
        sent_ns: u64,
        /// The node's clock.
        node_ns: u64,
    },
    /// How it goes.
    Progress(Progress),
    /// Still there.
    Alive,
    /// Something failed; `Finished` follows.
    Trouble(Vec<Trouble>),
    /// What runs on this host.
    Seen(Box<Sighting>),
    /// Who was asked to end.
    Asked(Vec<Asked>),
    /// What was measured.
    Finished(Box<NodeReport>),
    /// Seconds per figure, and the payload of each link that was asked for.
    Series {
        /// Seconds that each figure stands for.
        stretch_s: u64,
        /// Payload in bytes, in the order of the question.
        bytes: Vec<Vec<u64>>,
    },
}

/// From a node status process to one of its ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToRank {
    /// Where every rank listens.
    Book(Vec<Option<SocketAddr>>),
    /// Measure.
    Round(Box<Round>),
}

/// From a rank to its node status process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromRank {
    /// For the launching side.
    Word(RankWord),
    /// It cannot go on.
    Trouble(Trouble),
}

/// First message of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`WIRE_VERSION`].
    pub wire_version: u32,
    /// Version of the executable.
    pub version: String,
    /// SHA-256 of the executable.
    pub digest: String,
    /// Where the executable lies on its host.
    pub executable: String,
    /// Process id of the node status process.
    pub pid: i32,
    /// What the host is.
    pub facts: HostFacts,
}

/// Where a boundary of a node listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listener {
    /// TCP, by rail.
    Tcp(Vec<SocketAddr>),
    /// An abstract Unix name.
    Unix(String),
    /// Nowhere: all its links are pairs made before the fork.
    None,
}

/// Listeners by boundary and node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressBook {
    /// `listeners[boundary][node]`.
    pub listeners: Vec<Vec<Listener>>,
}

/// Sums of a node since the start, for the live picture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The node's clock.
    pub at_ns: u64,
    /// Payload sent to other hosts, by rail.
    pub sent_bytes: Vec<u64>,
    /// Payload received from other hosts, by rail.
    pub received_bytes: Vec<u64>,
    /// Payload received from other nodes of its host.
    pub same_host_bytes: u64,
    /// Payload received from itself.
    pub own_bytes: u64,
    /// Node, bytes received from it over its slowest link.
    pub slowest: Option<(usize, u64)>,
    /// Links that have not ended.
    pub open_links: usize,
    /// Payload received over each link into this node, boundary by boundary and slot by slot, if samples are wanted.
    #[serde(default)]
    pub links: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
