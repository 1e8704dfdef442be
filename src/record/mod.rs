//! The record: all results of a run, test by test. Pure, versioned data. Every report is made from the record alone.

mod counters;
mod facts;
mod imb;
mod latency;
mod linktest;
mod live;
mod node;
mod sheet;
mod sighting;
mod tcp;
mod trouble;

pub use counters::InterfaceCounters;
pub use facts::{HostFacts, Interface, Pcie};
pub use imb::{
    FileTimes, GroupTimes, ImbRecord, LineRecord, LineSpread, Overlap, RankLine, TableRecord,
};
pub use latency::{CableLatency, LatencyRecord, PairLatency, Planned, SlowCable, Together};
pub use linktest::{
    Effort, LinktestRecord, PairTime, RankRecord, RetestRecord, RoundProgress, RoundRecord,
    TimeSpread,
};
pub use live::{LIVE_VERSION, Live, LiveTest, MOST_IN_MATRIX};
pub use node::{Activity, Edge, EndCount, EndReport, EndRole, NodeReport, RoleCpu};
pub use sheet::{
    Basis, Contention, Culprit, DirectionSheet, Evidence, FaultKind, FaultSheet, PortSheet, Sheet,
    SignedFigure, Step, StretchSheet, UplinkSheet, Verdict, VerdictWord,
};
pub use sighting::{Asked, Card, ClosedSegment, SeenEnd, SeenNode, SeenState, Sighting};
pub use tcp::TcpInfo;
pub use trouble::{ENDED_FROM_OUTSIDE, Trouble, TroubleKind, rank};

#[cfg(test)]
pub(crate) use sighting::tests::seen;

use serde::{Deserialize, Serialize};

use crate::plan::lanes::Lane;
use crate::plan::{DataPort, LinkKind, RunPlan};
use crate::units::gbit_per_s;

/// Version of the record. docs/record.md describes the format.
pub const RECORD_VERSION: u32 = 1;

/// All results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_VERSION`] of the writer.
    pub version: u32,
    /// Random name of the run.
    pub token: String,
    /// Version of pipebench.
    pub tool_version: String,
    /// SHA-256 of the executable that ran on every host.
    pub tool_digest: String,
    /// Commit from which the executable was built, with its date, or the reason why it is unknown.
    #[serde(default)]
    pub tool_commit: String,
    /// Arguments as the user gave them.
    pub command: Vec<String>,
    /// Start of the run, in milliseconds since 1970.
    pub started_ms: u64,
    /// Options in effect, as names and values.
    pub options: Vec<(String, String)>,
    /// Plan of the run.
    pub plan: RunPlan,
    /// Nodes that took part, and their hosts.
    pub hosts: Vec<HostRecord>,
    /// Results, test by test.
    pub tests: Vec<TestRecord>,
    /// Results of link tests, job by job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<LinktestRecord>,
    /// Results of latency plans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<LatencyRecord>,
    /// Results of the Intel MPI Benchmarks' patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<ImbRecord>,
    /// Nodes without which a run with `keep_going` continued. Their rows are missing.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// Failures, first cause first.
    pub troubles: Vec<Trouble>,
    /// Notices that the run printed.
    pub notices: Vec<String>,
    /// Verdict.
    pub verdict: Verdict,
    /// Findings of the judge, port by port.
    #[serde(default)]
    pub sheet: Sheet,
    /// Exit code of the run.
    pub exit_code: u8,
    /// Text of everything that was settled before the start (`plan::seal`). Its digest was printed then.
    #[serde(default)]
    pub seal: Option<String>,
    /// Name of the run from which the first tests were taken, if this run resumed it.
    #[serde(default)]
    pub resumed: Option<String>,
    /// Name of the run, if it was settled before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Record {
    /// Name of the run: the one settled before the start, otherwise its start and the beginning of its token, as in the name of its folder.
    pub fn name(&self) -> String {
        let own = || crate::units::run_name(self.started_ms, &self.token);
        self.name.clone().unwrap_or_else(own)
    }
}

/// Data taken from a run that broke off.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    /// Name of that run.
    pub run: String,
    /// Its complete tests, which are the first ones of the plan.
    pub tests: Vec<TestRecord>,
}

/// A node without which the run continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Label of the node.
    pub node: String,
    /// Index in the plan of the test in which the node was lost, or before which.
    #[serde(default)]
    pub test: usize,
    /// Time of its last message, in nanoseconds since the start of that test; `None` if it took no part in the test.
    pub at_ns: Option<u64>,
    /// Kind of the failure.
    pub kind: TroubleKind,
    /// Attempted action, and the reason why it failed.
    pub what: String,
}

/// One node and its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Label of the node.
    pub node: String,
    /// Transport of the session: `ssh2`, `openssh`, `rsh` or `local`.
    pub transport: String,
    /// Data ports of the node, by rail; empty until they are chosen.
    pub rails: Vec<DataPort>,
    /// Index of the first node on the same host. Equals the node's own index if it is the first.
    pub host_index: usize,
    /// Properties of the host.
    pub facts: HostFacts,
}

impl HostRecord {
    /// Properties of the interface of a rail, if known.
    pub fn interface_of(&self, rail: &DataPort) -> Option<&Interface> {
        let name = rail.interface.as_ref()?;
        self.facts.interfaces.iter().find(|one| one.name == *name)
    }
}

/// Name of a port in every report: the name of its host, or of its only node. With several rails, the interface is added.
pub fn port_label(plan: &RunPlan, hosts: &[HostRecord], nodes: &[usize], rail: usize) -> String {
    let first = nodes.first().copied().unwrap_or_default();
    let node = &plan.nodes[first];
    let name = if nodes.len() == 1 {
        &node.label
    } else {
        &node.host
    };
    let rails = hosts.get(first).map(|host| &host.rails);
    match rails.filter(|rails| rails.len() > 1) {
        None => name.clone(),
        Some(rails) => match rails.get(rail).and_then(|port| port.interface.as_ref()) {
            Some(interface) => format!("{name} {interface}"),
            None => format!("{name} rail {rail}"),
        },
    }
}

/// Results of one test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestRecord {
    /// Index in the plan.
    pub test: usize,
    /// True if every node finished and reported. Lost nodes do not count.
    pub complete: bool,
    /// Time until data may flow, in nanoseconds: from the first connection to a host, or, for a later test, from its distribution to the nodes.
    /// `None` if the test did not get that far.
    #[serde(default)]
    pub set_up_ns: Option<u64>,
    /// Planned length of the window of a timed run, in nanoseconds.
    pub window_ns: Option<u64>,
    /// Maximum offset between the nodes' windows, in nanoseconds, with the uncertainty of the clocks.
    pub skew_ns: Option<u64>,
    /// Time from the first node's start to the last node's end, in nanoseconds.
    pub span_ns: Option<u64>,
    /// Results of each node, in the plan's order; `None` if a node did not report.
    pub nodes: Vec<Option<NodeRecord>>,
    /// Results of every link.
    pub links: Vec<LinkRecord>,
    /// Result of the check that sent, received and relayed bytes agree.
    pub conservation: Conservation,
    /// Contradictions between the counters of interfaces and the payload.
    #[serde(default)]
    pub wires: Vec<WireFinding>,
    /// Seconds from the start until the run became steady: then five one-second sums of every port stayed within 2 % without a trend.
    #[serde(default)]
    pub steady_from_s: Option<u64>,
    /// Seconds that each entry of `seconds` covers: 1, or a power of two in a long run.
    #[serde(default = "one")]
    pub stretch_s: u64,
    /// Sums of each stretch.
    pub seconds: Vec<Second>,
    /// Series of the slowest links between hosts, or between nodes if all are on one host. At most 64.
    #[serde(default)]
    pub worst_links: Vec<LinkSeries>,
    /// Clock of each node compared with that of the launching side.
    #[serde(default)]
    pub clocks: Vec<ClockRecord>,
}

fn one() -> u64 {
    1
}

impl Record {
    /// Planned tests as they count for the verdict: a repeat replaces its test if the sheet says so.
    pub fn counted(&self) -> Vec<&TestRecord> {
        let planned = self.tests.iter().filter(|test| {
            let plan = self.plan.tests.get(test.test);
            plan.is_some_and(|plan| plan.purpose != crate::plan::Purpose::Isolated)
        });
        let counts = |test: &'_ TestRecord| {
            let mut instead = self.sheet.instead.iter();
            let repeat = instead.find(|(first, _)| *first == test.test)?.1;
            self.tests.iter().find(|other| other.test == repeat)
        };
        planned.map(|test| counts(test).unwrap_or(test)).collect()
    }
}

/// Received payload of a link, stretch by stretch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSeries {
    /// Lane of the link.
    pub lane: Lane,
    /// Seconds that each figure covers.
    pub stretch_s: u64,
    /// Payload in bytes.
    pub bytes: Vec<u64>,
}

/// A node's monotonic clock minus that of the launching side, measured from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// Difference before the start, in nanoseconds.
    pub before_ns: i64,
    /// Difference at the end, in nanoseconds.
    pub after_ns: i64,
    /// Maximum error of each difference, in nanoseconds.
    pub uncertainty_ns: u64,
    /// Time from the first measurement to the last, in nanoseconds.
    pub span_ns: u64,
    /// Number of measurements.
    pub measured: u64,
}

impl ClockRecord {
    /// Size of the drift against the launching side, in parts per million. `None` if it is within the uncertainty.
    pub fn drift_ppm(&self) -> Option<f64> {
        let moved = self.after_ns.abs_diff(self.before_ns);
        let known = moved > self.uncertainty_ns.saturating_mul(2) && self.span_ns > 0;
        known.then(|| moved as f64 / self.span_ns as f64 * 1e6)
    }
}

/// Sums over one second of the live display, or over a longer stretch in the record of a long run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, in nanoseconds since the start.
    pub at_ns: u64,
    /// Bytes received from other hosts, per port: node by node, rail by rail.
    pub received_bytes: Vec<u64>,
    /// Bytes sent to other hosts, per port.
    #[serde(default)]
    pub sent_bytes: Vec<u64>,
    /// Bytes received from other nodes of the same host, per node.
    pub same_host_bytes: Vec<u64>,
    /// Bytes received from the node itself, per node.
    pub own_bytes: Vec<u64>,
}

/// Results of one node. Rates are payload divided by the node's own interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Time from ringing phase 0 to the ring of the last phase, in nanoseconds.
    pub ring_to_ring_ns: Option<u64>,
    /// Length in nanoseconds of the interval that the figures below cover: the window, or the whole volume run.
    pub interval_ns: u64,
    /// Payload sent to other hosts, in bytes.
    pub sent_bytes: u64,
    /// Payload received from other hosts, in bytes.
    pub received_bytes: u64,
    /// Payload that stayed on the host, in bytes.
    pub same_host_bytes: u64,
    /// Segments retransmitted in the interval, on links to other hosts.
    pub retransmits: u64,
    /// CPU time by role in the interval.
    pub cpu: RoleCpu,
    /// Time in which processes that serve links were ready but did not run, summed over all of them, in nanoseconds.
    #[serde(default)]
    pub run_delay_ns: u64,
    /// Load of the busiest core, 0 to 1.
    pub busiest_core: Option<f64>,
    /// The busiest of the cores that served links: its load, 0 to 1, and the fraction of that load which went to interrupts and packets.
    #[serde(default)]
    pub serving_core: Option<(f64, f64)>,
    /// Counters of the host's interfaces over the whole run, from before the first block to after the last.
    pub interfaces: Vec<(String, InterfaceCounters)>,
    /// Packets that the host's processors dropped over the whole run because their backlog was full.
    #[serde(default)]
    pub backlog_drops: u64,
    /// Connections closed because they were no links of this run.
    pub strangers: u64,
}

/// Results of one link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Lane of the link.
    pub lane: Lane,
    /// Kind of the link.
    pub kind: LinkKind,
    /// True if the link connects two hosts.
    pub crosses_switch: bool,
    /// Payload sent over the whole run, in bytes.
    pub sent_bytes: u64,
    /// Payload received over the whole run, in bytes.
    pub received_bytes: u64,
    /// Payload received in the interval, in bytes.
    pub interval_bytes: u64,
    /// The receiver's interval in nanoseconds, the divisor of bytes and of the receiver's waits.
    pub interval_ns: u64,
    /// The sender's interval in nanoseconds, the divisor of its waits.
    pub sender_interval_ns: u64,
    /// Blocks sent over the whole run.
    pub blocks: u64,
    /// Use of the time in the interval.
    pub waits: Waits,
    /// Cause that limited the link's rate.
    pub held_by: HeldBy,
    /// TCP counters of the kernel on the sender's side, at the start and the end of the interval.
    pub tcp: Option<(TcpInfo, TcpInfo)>,
    /// Payload retransmitted over the whole run, in bytes.
    #[serde(default)]
    pub retransmitted_bytes: u64,
}

impl TestRecord {
    /// Payload rate of a link in Gbit/s. In a timed run the divisor is the receiver's own interval. In a volume run it is the time until the last
    /// link finished, the same for all links, since rates over different times must not be added.
    pub fn rate_of(&self, link: &LinkRecord) -> f64 {
        match (self.window_ns, self.span_ns) {
            (Some(_), _) | (None, None) => gbit_per_s(link.interval_bytes, link.interval_ns),
            (None, Some(span)) => gbit_per_s(link.received_bytes, span),
        }
    }
}

impl LinkRecord {
    /// Segments retransmitted in the interval.
    pub fn retransmits(&self) -> u64 {
        self.tcp.map_or(0, |(first, last)| {
            last.retransmits.saturating_sub(first.retransmits)
        })
    }
}

/// Contradiction between the counters of a host's interface and the payload of a rail, over the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFinding {
    /// Label of the host's first node.
    pub node: String,
    /// Interface that has the rail's address.
    pub interface: String,
    /// Payload of the rail in that direction, in bytes.
    pub payload_bytes: u64,
    /// Bytes that the interface counted in that direction, headers included.
    pub counted_bytes: u64,
    /// Kind of the contradiction.
    pub kind: WireKind,
}

/// Kind of contradiction between payload and interface counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireKind {
    /// Payload left by another interface.
    WrongRoute {
        /// The interface that carried it, if its counters show it.
        by: Option<String>,
    },
    /// Payload arrived at another interface: the host answers ARP for this address there.
    ArpFlux {
        /// The interface that received it, if its counters show it.
        by: Option<String>,
    },
    /// More than one percent and more than 2 MiB of the sent bytes did not belong to the run.
    ForeignSent {
        /// Bytes that did not belong to the run.
        bytes: u64,
    },
    /// More than one percent and more than 2 MiB of the received bytes did not belong to the run.
    ForeignReceived {
        /// Bytes that did not belong to the run.
        bytes: u64,
    },
}

/// Use of a link's time within the interval, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Sender: waiting for a block to send.
    pub waiting_for_block_ns: u64,
    /// Sender: in write.
    pub in_write_ns: u64,
    /// Sender: pausing on purpose (rate limit, same-node chain).
    pub pacing_ns: u64,
    /// Receiver: in read.
    pub in_read_ns: u64,
    /// Receiver: waiting for a free slot.
    pub waiting_for_slot_ns: u64,
}

/// Cause that limited the rate of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// The path: the sender was in write, and the receiver was ready.
    Limiting,
    /// Its sender had nothing to send.
    Starved,
    /// Its receiver had no room.
    HeldBack,
    /// A rate limit of the plan.
    Paced,
    /// No single cause; usually a busy host.
    Mixed,
    /// No measurement.
    Unknown,
}

/// Check that sent, received and relayed bytes agree, over the whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conservation {
    /// Number of links whose sent, received and relayed bytes agree.
    pub agreeing: usize,
    /// Number of links to or from a lost node.
    #[serde(default)]
    pub unchecked: usize,
    /// Number of all links.
    pub links: usize,
    /// Links whose bytes disagree, one sentence each, at most 20.
    pub faults: Vec<String>,
}
