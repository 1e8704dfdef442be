//! Report of a node: raw counters, nothing divided yet.

use serde::{Deserialize, Serialize};

use crate::record::InterfaceCounters;
use crate::record::TcpInfo;

/// Role of a link end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndRole {
    /// Empties a slot into the link.
    Sender,
    /// Fills a slot from the link.
    Receiver,
}

/// Activity of a sender or receiver. Its time is divided among these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Before the start and after the end.
    Idle = 0,
    /// Waiting for its other half: a sender for a block, a receiver for a free slot.
    Waiting = 1,
    /// In the system call: a sender in write, a receiver in read.
    Moving = 2,
    /// Pausing on purpose.
    Pacing = 3,
}

/// A node's report of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// True if the last phase rang back, and all links of the node ended in order or were lost.
    pub complete: bool,
    /// Time at which phase 0 was rung, by the node's clock in nanoseconds.
    pub rung_ns: Option<u64>,
    /// Time at which the last phase rang back, by the same clock.
    pub done_ns: Option<u64>,
    /// Readings of all counters: at the window's start and end, or at the start and end of a volume run.
    pub edges: Vec<Edge>,
    /// State of every link end at the end of the run.
    pub ends: Vec<EndReport>,
    /// In place of `ends` and of their counts in `edges`, in a test with too many links for these: the sending ends, by boundary and slot.
    #[serde(default)]
    pub senders: Vec<SenderSum>,
    /// The receiving ends, likewise.
    #[serde(default)]
    pub receivers: Vec<EndSum>,
    /// Connections closed because they were no links of this run.
    pub strangers: u64,
    /// Counters of the host's interfaces before the first block and after the last one.
    #[serde(default)]
    pub interfaces: [Vec<(String, InterfaceCounters)>; 2],
    /// Packets that the host's processors had dropped at these two moments because their backlog was full.
    #[serde(default)]
    pub backlog_drops: [u64; 2],
}

/// One reading of all counters of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Clock before the first counter was read, in nanoseconds.
    pub before_ns: u64,
    /// Clock after the last counter was read, in nanoseconds.
    pub after_ns: u64,
    /// Counters of every end, in the order of [`NodeReport::ends`].
    pub ends: Vec<EndCount>,
    /// Busy and total ticks of every core.
    pub cores: Vec<(u64, u64)>,
    /// Ticks for interrupts and packets among the busy ticks of every core.
    #[serde(default)]
    pub packet_ticks: Vec<u64>,
    /// Cores on which processes of links last ran, each once, as positions in [`Edge::cores`].
    #[serde(default)]
    pub link_cores: Vec<usize>,
    /// CPU time of the phases so far, in nanoseconds.
    pub phases_cpu_ns: u64,
    /// CPU time of the node status process so far, in nanoseconds.
    pub node_cpu_ns: u64,
}

impl Edge {
    /// Instant of the reading, in nanoseconds: the middle between its two clocks.
    pub fn at_ns(&self) -> u64 {
        let length = self.after_ns.saturating_sub(self.before_ns);
        self.before_ns + length / 2
    }
}

/// Counters of a link end at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndCount {
    /// Clock when this end was read, in nanoseconds: reading all ends can take a while on a busy host.
    pub at_ns: u64,
    /// Moved payload in bytes.
    pub bytes: u64,
    /// Time in each [`Activity`] in nanoseconds, the current one included.
    pub activity_ns: [u64; 4],
    /// CPU time so far, in nanoseconds.
    pub cpu_ns: u64,
    /// Time so far in which the process was ready but did not run, in nanoseconds. Waits that have not ended are missing.
    #[serde(default)]
    pub run_delay_ns: u64,
    /// Number of times that the process got a processor so far.
    #[serde(default)]
    pub turns: u64,
    /// True if the process ran, or was ready to run.
    #[serde(default)]
    pub is_ready: bool,
}

/// A link end at the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// Role of the end.
    pub role: EndRole,
    /// Boundary.
    pub boundary: usize,
    /// Slot that it empties or fills.
    pub slot: usize,
    /// True if it ended in order.
    pub finished: bool,
    /// True if its peer's host was lost and the run continued without that host.
    #[serde(default)]
    pub lost: bool,
    /// Moved payload in bytes.
    pub bytes: u64,
    /// Moved blocks.
    pub blocks: u64,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// TCP counters of the kernel at the start and end of the window, and, for senders, at the end of the run.
    pub tcp: [Option<TcpInfo>; 3],
}

/// A link end reduced to sums. The control channel carries it as a list of numbers: a node among a thousand has thousands of ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 8]", into = "[u64; 8]")]
pub struct EndSum {
    /// Payload moved over the whole run, in bytes.
    pub bytes: u64,
    /// Blocks moved over the whole run.
    pub blocks: u64,
    /// Length of the end's interval in nanoseconds, which the figures below cover.
    pub interval_ns: u64,
    /// Payload moved in the interval, in bytes.
    pub interval_bytes: u64,
    /// Time in [`Activity::Waiting`], in nanoseconds.
    pub waiting_ns: u64,
    /// Time in [`Activity::Moving`], in nanoseconds.
    pub moving_ns: u64,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Time in which the process was ready but did not run, in nanoseconds.
    pub run_delay_ns: u64,
}

impl From<[u64; 8]> for EndSum {
    fn from(numbers: [u64; 8]) -> Self {
        let [
            bytes,
            blocks,
            interval_ns,
            interval_bytes,
            waiting_ns,
            moving_ns,
            cpu_ns,
            run_delay_ns,
        ] = numbers;
        Self {
            bytes,
            blocks,
            interval_ns,
            interval_bytes,
            waiting_ns,
            moving_ns,
            cpu_ns,
            run_delay_ns,
        }
    }
}

impl From<EndSum> for [u64; 8] {
    fn from(end: EndSum) -> Self {
        [
            end.bytes,
            end.blocks,
            end.interval_ns,
            end.interval_bytes,
            end.waiting_ns,
            end.moving_ns,
            end.cpu_ns,
            end.run_delay_ns,
        ]
    }
}

/// A [`SenderSum`] as the control channel carries it.
type SenderNumbers = (EndSum, u64, u64, Option<[u64; TcpInfo::COUNT]>);

/// The sending end of a link reduced to sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SenderNumbers", into = "SenderNumbers")]
pub struct SenderSum {
    /// What both kinds of ends have.
    pub end: EndSum,
    /// Time in [`Activity::Pacing`] in the interval, in nanoseconds.
    pub pacing_ns: u64,
    /// Payload retransmitted over the whole run, in bytes.
    pub retransmitted_bytes: u64,
    /// The kernel's account of the interval.
    pub tcp: Option<TcpInfo>,
}

impl From<SenderNumbers> for SenderSum {
    fn from((end, pacing_ns, retransmitted_bytes, tcp): SenderNumbers) -> Self {
        Self {
            end,
            pacing_ns,
            retransmitted_bytes,
            tcp: tcp.map(TcpInfo::from_values),
        }
    }
}

impl From<SenderSum> for SenderNumbers {
    fn from(sender: SenderSum) -> Self {
        let tcp = sender.tcp.map(|info| info.values());
        (
            sender.end,
            sender.pacing_ns,
            sender.retransmitted_bytes,
            tcp,
        )
    }
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
    fn an_end_reduced_to_sums_is_a_list_of_numbers() {
        let sender = SenderSum {
            end: EndSum::from([1, 2, 3, 4, 5, 6, 7, 8]),
            pacing_ns: 9,
            retransmitted_bytes: 10,
            tcp: Some(TcpInfo::from_values([11; TcpInfo::COUNT])),
        };
        let text = serde_json::to_string(&sender).unwrap();
        assert!(
            text.starts_with("[[1,2,3,4,5,6,7,8],9,10,[11,11,"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<SenderSum>(&text).unwrap(), sender);
    }

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
