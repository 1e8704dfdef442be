//! What a node reports: counters as they stood, nothing divided yet.

use serde::{Deserialize, Serialize};

use crate::sys::counters::InterfaceCounters;
use crate::sys::socket::TcpInfo;

/// Which end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndRole {
    /// Empties a slot into the link.
    Sender,
    /// Fills a slot from the link.
    Receiver,
}

/// What a sender or receiver does; its time is divided among these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Before the start and after the end.
    Idle = 0,
    /// Waiting for its other half: a sender for a block, a receiver for a free slot.
    Waiting = 1,
    /// In the system call: a sender in write, a receiver in read.
    Moving = 2,
    /// Holding back on purpose.
    Pacing = 3,
}

/// Everything a node knows of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// All links of the node ended in order.
    pub complete: bool,
    /// Clock when phase 0 was rung.
    pub rung_ns: Option<u64>,
    /// Clock when the last phase rang back.
    pub done_ns: Option<u64>,
    /// Readings of all counters: at the window's start and end, or at the start and end of a volume run.
    pub edges: Vec<Edge>,
    /// Every link end at the end of the run.
    pub ends: Vec<EndReport>,
    /// Connections closed because they were no links of this run.
    pub strangers: u64,
    /// Counters of the host's interfaces before the first block and behind the last one.
    #[serde(default)]
    pub interfaces: [Vec<(String, InterfaceCounters)>; 2],
    /// Packets that the host's processors had dropped by then because their backlog was full.
    #[serde(default)]
    pub backlog_drops: [u64; 2],
}

/// One reading of all counters of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Clock before the first counter was read.
    pub before_ns: u64,
    /// Clock after the last one.
    pub after_ns: u64,
    /// Counters of every end, in the order of [`NodeReport::ends`].
    pub ends: Vec<EndCount>,
    /// Busy and total ticks of every core.
    pub cores: Vec<(u64, u64)>,
    /// Of the busy ticks of every core those for interrupts and packets.
    #[serde(default)]
    pub packet_ticks: Vec<u64>,
    /// Cores on which processes of links ran last, each once, by their places in [`Edge::cores`].
    #[serde(default)]
    pub link_cores: Vec<usize>,
    /// CPU time of the phases and of the node status process until now, in nanoseconds.
    pub phases_cpu_ns: u64,
    /// CPU time of the node status process.
    pub node_cpu_ns: u64,
}

impl Edge {
    /// The instant the reading stands for.
    pub fn at_ns(&self) -> u64 {
        let length = self.after_ns.saturating_sub(self.before_ns);
        self.before_ns + length / 2
    }
}

/// Counters of a link end at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndCount {
    /// Clock when this end was read: reading all of them may take a while on a busy host.
    pub at_ns: u64,
    /// Payload moved.
    pub bytes: u64,
    /// Time in each [`Activity`], the current one included.
    pub activity_ns: [u64; 4],
    /// CPU time until now.
    pub cpu_ns: u64,
    /// Time until now in which the process was ready to run and did not, as far as such waits have ended.
    #[serde(default)]
    pub run_delay_ns: u64,
    /// How often the process was given a processor until now.
    #[serde(default)]
    pub turns: u64,
    /// The process ran, or was ready to.
    #[serde(default)]
    pub is_ready: bool,
}

/// A link end at the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// Which end.
    pub role: EndRole,
    /// Boundary.
    pub boundary: usize,
    /// Slot it empties or fills.
    pub slot: usize,
    /// It ended in order.
    pub finished: bool,
    /// Its peer's host was lost and the run went on without it.
    #[serde(default)]
    pub lost: bool,
    /// Payload moved.
    pub bytes: u64,
    /// Blocks moved.
    pub blocks: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// The kernel's account on TCP at the start and end of the window and, of senders, at the end of the run.
    pub tcp: [Option<TcpInfo>; 3],
}

/// CPU time by role, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleCpu {
    /// All senders.
    pub senders_ns: u64,
    /// All receivers.
    pub receivers_ns: u64,
    /// All phases.
    pub phases_ns: u64,
    /// The node status process.
    pub node_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_ends_before_it_begins_has_an_instant() {
        let edge = |before_ns, after_ns| Edge {
            before_ns,
            after_ns,
            ..Edge::default()
        };
        assert_eq!(edge(100, 200).at_ns(), 150);
        assert_eq!(edge(200, 100).at_ns(), 200);
        assert_eq!(edge(u64::MAX, 0).at_ns(), u64::MAX);
    }
}
