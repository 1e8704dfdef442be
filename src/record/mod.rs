//! The record: what came of a run, test by test. Pure data, versioned; every report is made from it alone.

mod node;
mod sighting;
mod trouble;

pub use node::{Activity, Edge, EndCount, EndReport, EndRole, NodeReport, RoleCpu};
pub use sighting::{Asked, Card, ClosedSegment, SeenEnd, SeenNode, SeenState, Sighting};
pub use trouble::{Trouble, TroubleKind, rank};

#[cfg(test)]
pub(crate) use sighting::tests::seen;

use serde::{Deserialize, Serialize};

use crate::plan::lanes::Lane;
use crate::plan::{LinkKind, RunPlan};
use crate::sys::facts::HostFacts;
use crate::sys::socket::TcpInfo;
use crate::sys::usage::InterfaceCounters;

/// Version of the record; docs/record.md describes it.
pub const RECORD_VERSION: u32 = 1;

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_VERSION`] of the writer.
    pub version: u32,
    /// Name of the run, and what its links say to each other.
    pub token: String,
    /// Version of pipebench.
    pub tool_version: String,
    /// SHA-256 of the executable that ran everywhere.
    pub tool_digest: String,
    /// Arguments as they were given.
    pub command: Vec<String>,
    /// Start of the run, milliseconds since 1970.
    pub started_ms: u64,
    /// Options in effect, name and value.
    pub options: Vec<(String, String)>,
    /// What was to be done.
    pub plan: RunPlan,
    /// Who took part.
    pub hosts: Vec<HostRecord>,
    /// What was measured, test by test.
    pub tests: Vec<TestRecord>,
    /// What failed, first cause first.
    pub troubles: Vec<Trouble>,
    /// What was noticed on the way.
    pub notices: Vec<String>,
    /// Verdict.
    pub verdict: Verdict,
    /// Exit code of the run.
    pub exit_code: u8,
}

/// What may be said of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The word.
    pub word: VerdictWord,
    /// The sentence why.
    pub reason: String,
}

/// The word of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerdictWord {
    /// No criteria were given.
    #[serde(rename = "NOT JUDGED")]
    NotJudged,
    /// Nothing to judge: the run did not come to its end, or its bytes do not add up.
    #[serde(rename = "INVALID")]
    Invalid,
}

impl std::fmt::Display for VerdictWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotJudged => "NOT JUDGED",
            Self::Invalid => "INVALID",
        })
    }
}

/// One node and its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Label of the node.
    pub node: String,
    /// How the session went: `ssh2`, `openssh`, `rsh` or `local`.
    pub transport: String,
    /// Address of the data port.
    pub data_address: Option<std::net::IpAddr>,
    /// Interface that bears it.
    pub interface: Option<String>,
    /// Index of the first node on the same host; its own index if it is the first.
    pub host_index: usize,
    /// What the host is.
    pub facts: HostFacts,
}

/// What one test measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestRecord {
    /// Index in the plan.
    pub test: usize,
    /// Every node came to its end and reported.
    pub complete: bool,
    /// Length of the window that was ordered, for a timed run, in nanoseconds.
    pub window_ns: Option<u64>,
    /// How far the nodes' windows lie apart at most, in nanoseconds, with the uncertainty of the clocks.
    pub skew_ns: Option<u64>,
    /// From the first node's start to the last node's end, in nanoseconds.
    pub span_ns: Option<u64>,
    /// Per node, in the plan's order; none where a node did not report.
    pub nodes: Vec<Option<NodeRecord>>,
    /// Every link.
    pub links: Vec<LinkRecord>,
    /// Whether bytes add up.
    pub conservation: Conservation,
    /// Sums of each second, for a first look at steadiness.
    pub seconds: Vec<Second>,
}

/// Sums over one second of the live picture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, nanoseconds since the start.
    pub at_ns: u64,
    /// Bytes received from other hosts, per node.
    pub received_bytes: Vec<u64>,
    /// Bytes received from other nodes of the same host, per node.
    pub same_host_bytes: Vec<u64>,
    /// Bytes received from the node itself, per node.
    pub own_bytes: Vec<u64>,
}

/// What one node measured. Rates are payload over the node's own interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// From ringing phase 0 to the ring of the last phase, in nanoseconds.
    pub ring_to_ring_ns: Option<u64>,
    /// The interval the figures below count: the window, or the whole volume run.
    pub interval_ns: u64,
    /// Payload sent to other hosts.
    pub sent_bytes: u64,
    /// Payload received from other hosts.
    pub received_bytes: u64,
    /// Payload that stayed on the host.
    pub same_host_bytes: u64,
    /// Segments sent again in the interval.
    pub retransmits: u64,
    /// CPU time by role over the interval, in nanoseconds.
    pub cpu: RoleCpu,
    /// Share of the busiest core, 0 to 1.
    pub busiest_core: Option<f64>,
    /// Interface counters over the interval.
    pub interface: Option<InterfaceCounters>,
    /// Connections closed because they were no links of this run.
    pub strangers: u64,
}

/// What one link measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Its place.
    pub lane: Lane,
    /// What it is made of.
    pub kind: LinkKind,
    /// Whether it goes from host to host.
    pub crosses_switch: bool,
    /// Payload sent over the whole run.
    pub sent_bytes: u64,
    /// Payload received over the whole run.
    pub received_bytes: u64,
    /// Payload received in the interval.
    pub interval_bytes: u64,
    /// The receiver's interval in nanoseconds, by which bytes and the receiver's waits are divided.
    pub interval_ns: u64,
    /// The sender's interval in nanoseconds, by which its waits are divided.
    pub sender_interval_ns: u64,
    /// Blocks sent over the whole run.
    pub blocks: u64,
    /// Where the time of the interval went.
    pub waits: Waits,
    /// What held the link's rate.
    pub held_by: HeldBy,
    /// The kernel's account at the start and the end of the interval.
    pub tcp: Option<(TcpInfo, TcpInfo)>,
}

/// Where the time of a link went within the interval, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Sender: waiting for a block to send.
    pub waiting_for_block_ns: u64,
    /// Sender: in write.
    pub in_write_ns: u64,
    /// Sender: holding back on purpose (rate limit, same-node chain).
    pub pacing_ns: u64,
    /// Receiver: in read.
    pub in_read_ns: u64,
    /// Receiver: waiting for a free slot.
    pub waiting_for_slot_ns: u64,
}

/// What held the rate of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// The way itself: the sender was in write and the reader ready.
    Limiting,
    /// Its sender had nothing to send.
    Starved,
    /// Its reader had no room.
    HeldBack,
    /// A rate limit of the plan.
    Paced,
    /// No single cause: usually a busy host.
    Mixed,
    /// Nothing was measured.
    Unknown,
}

/// Whether bytes add up, over the whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conservation {
    /// Links whose bytes sent, received and relayed agree.
    pub agreeing: usize,
    /// All links.
    pub links: usize,
    /// Where they do not.
    pub faults: Vec<String>,
}
