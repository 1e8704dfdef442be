//! The record: what came of a run, test by test. Pure data, versioned; every report is made from it alone.

mod imb;
mod latency;
mod linktest;
mod live;
mod node;
mod sheet;
mod sighting;
mod trouble;

pub use imb::{
    FileTimes, GroupTimes, ImbRecord, LineRecord, LineSpread, Overlap, RankLine, TableRecord,
};
pub use latency::{CableLatency, LatencyRecord, PairLatency, Planned, SlowCable, Together};
pub use linktest::{
    Effort, LinktestRecord, PairTime, RankRecord, RankWord, RetestRecord, RoundProgress,
    RoundRecord, TimeSpread,
};
pub use live::{LIVE_VERSION, Live, LiveTest, MOST_IN_MATRIX};
pub use node::{Activity, Edge, EndCount, EndReport, EndRole, NodeReport, RoleCpu};
pub use sheet::{
    Basis, Contention, Culprit, DirectionSheet, Evidence, FaultKind, FaultSheet, PortSheet, Sheet,
    SignedFigure, Step, StretchSheet, UplinkSheet, Verdict, VerdictWord,
};
pub use sighting::{Asked, Card, ClosedSegment, SeenEnd, SeenNode, SeenState, Sighting};
pub use trouble::{ENDED_FROM_OUTSIDE, Trouble, TroubleKind, rank};

#[cfg(test)]
pub(crate) use sighting::tests::seen;

use serde::{Deserialize, Serialize};

use crate::plan::lanes::Lane;
use crate::plan::{DataPort, LinkKind, RunPlan};
use crate::sys::counters::InterfaceCounters;
use crate::sys::facts::{HostFacts, Interface};
use crate::sys::socket::TcpInfo;
use crate::units::gbit_per_s;

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
    /// Commit that it was built of, with its date; or why that is not known.
    #[serde(default)]
    pub tool_commit: String,
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
    /// What ranks measured, job by job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<LinktestRecord>,
    /// What came of plans of latencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<LatencyRecord>,
    /// What the Intel MPI Benchmarks' patterns took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<ImbRecord>,
    /// Hosts that cost their rows and not the run, with `keep_going`.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// What failed, first cause first.
    pub troubles: Vec<Trouble>,
    /// What was noticed on the way.
    pub notices: Vec<String>,
    /// Verdict.
    pub verdict: Verdict,
    /// What the judge says, port by port.
    #[serde(default)]
    pub sheet: Sheet,
    /// Exit code of the run.
    pub exit_code: u8,
    /// What was settled before the start (`plan::seal`); its digest was printed then.
    #[serde(default)]
    pub seal: Option<String>,
    /// Run from which the first tests were taken over, if this one went on with it.
    #[serde(default)]
    pub resumed: Option<String>,
    /// How the run is called, where that was settled before its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Record {
    /// How the run is called: as was settled before, else by its start and the beginning of its token, as its folder is.
    pub fn name(&self) -> String {
        let own = || crate::units::run_name(self.started_ms, &self.token);
        self.name.clone().unwrap_or_else(own)
    }
}

/// What is taken over from a run that broke off.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    /// Its name.
    pub run: String,
    /// Its whole tests, the first ones of the plan.
    pub tests: Vec<TestRecord>,
}

/// A node that was named and is not accounted for, in a run that went on without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its label.
    pub node: String,
    /// Index in the plan of the test in which it was lost, or before which.
    #[serde(default)]
    pub test: usize,
    /// When it was last heard of, in nanoseconds since the start of that test; none if it took no part in it.
    pub at_ns: Option<u64>,
    /// What failed there.
    pub kind: TroubleKind,
    /// What was tried, and why it failed.
    pub what: String,
}

/// One node and its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Label of the node.
    pub node: String,
    /// How the session went: `ssh2`, `openssh`, `rsh` or `local`.
    pub transport: String,
    /// Its data ports, by rail; none before they were chosen.
    pub rails: Vec<DataPort>,
    /// Index of the first node on the same host; its own index if it is the first.
    pub host_index: usize,
    /// What the host is.
    pub facts: HostFacts,
}

impl HostRecord {
    /// What is known of the interface that bears a rail.
    pub fn interface_of(&self, rail: &DataPort) -> Option<&Interface> {
        let name = rail.interface.as_ref()?;
        self.facts.interfaces.iter().find(|one| one.name == *name)
    }
}

/// Name of a port in every report: that of its host, or of its only node; with the interface where there are several rails.
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

/// What one test measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestRecord {
    /// Index in the plan.
    pub test: usize,
    /// Every node came to its end and reported.
    pub complete: bool,
    /// From the first connection to a host, or for a later test from its being given out, to the moment from which data
    /// may flow, in nanoseconds; none if that did not come.
    #[serde(default)]
    pub set_up_ns: Option<u64>,
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
    /// Where the counters of interfaces contradict the payload.
    #[serde(default)]
    pub wires: Vec<WireFinding>,
    /// Seconds after the start from which on five one-second sums of every port stayed within 2 % without a trend.
    #[serde(default)]
    pub steady_from_s: Option<u64>,
    /// Seconds that each entry of `seconds` stands for: one, or a power of two in a long run.
    #[serde(default = "one")]
    pub stretch_s: u64,
    /// Sums of each stretch.
    pub seconds: Vec<Second>,
    /// Series of the worst links between hosts, at most 64.
    #[serde(default)]
    pub worst_links: Vec<LinkSeries>,
    /// Clocks of the nodes against that of the launching side.
    #[serde(default)]
    pub clocks: Vec<ClockRecord>,
}

fn one() -> u64 {
    1
}

impl Record {
    /// Tests of the plan as they count: where one was repeated and the repeat counts, that one.
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

/// What a link received, stretch by stretch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSeries {
    /// Its place.
    pub lane: Lane,
    /// Seconds that each figure stands for.
    pub stretch_s: u64,
    /// Payload in bytes.
    pub bytes: Vec<u64>,
}

/// A node's monotonic clock less that of the launching side, measured from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// Before the start, in nanoseconds.
    pub before_ns: i64,
    /// At the end.
    pub after_ns: i64,
    /// At most this far off, each of them.
    pub uncertainty_ns: u64,
    /// From the first measurement to the last, in nanoseconds.
    pub span_ns: u64,
    /// How often it was measured.
    pub measured: u64,
}

impl ClockRecord {
    /// Drift against the launching side in parts per million; none if less than what is not known.
    pub fn drift_ppm(&self) -> Option<f64> {
        let moved = self.after_ns.abs_diff(self.before_ns);
        let known = moved > 2 * self.uncertainty_ns && self.span_ns > 0;
        known.then(|| moved as f64 / self.span_ns as f64 * 1e6)
    }
}

/// Sums over one second of the live picture; over a longer stretch in the record of a long run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, nanoseconds since the start.
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
    /// Time in which processes that serve links were ready to run and did not, all of them together, in nanoseconds.
    #[serde(default)]
    pub run_delay_ns: u64,
    /// Share of the busiest core, 0 to 1.
    pub busiest_core: Option<f64>,
    /// The busiest of the cores that served links: its share, 0 to 1, and the part of that which went to interrupts and packets.
    #[serde(default)]
    pub serving_core: Option<(f64, f64)>,
    /// Counters of the host's interfaces over the whole run, from before the first block to behind the last.
    pub interfaces: Vec<(String, InterfaceCounters)>,
    /// Packets that the host's processors dropped over the whole run because their backlog was full.
    #[serde(default)]
    pub backlog_drops: u64,
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
    /// Payload sent again over the whole run.
    #[serde(default)]
    pub retransmitted_bytes: u64,
}

impl TestRecord {
    /// Payload rate of a link in Gbit/s. In a timed run each link is divided by its receiver's own interval; in a volume
    /// run all of them by the time of the last finish, since rates of different times are never added.
    pub fn rate_of(&self, link: &LinkRecord) -> f64 {
        match (self.window_ns, self.span_ns) {
            (Some(_), _) | (None, None) => gbit_per_s(link.interval_bytes, link.interval_ns),
            (None, Some(span)) => gbit_per_s(link.received_bytes, span),
        }
    }
}

impl LinkRecord {
    /// Segments sent again in the interval.
    pub fn retransmits(&self) -> u64 {
        self.tcp.map_or(0, |(first, last)| {
            last.retransmits.saturating_sub(first.retransmits)
        })
    }
}

/// What the counters of a host's interfaces say against the payload of a rail, over the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFinding {
    /// Label of the host's first node.
    pub node: String,
    /// Interface that bears the rail's address.
    pub interface: String,
    /// Payload of the rail in that direction, in bytes.
    pub payload_bytes: u64,
    /// What the interface counted in that direction, in bytes with headers.
    pub counted_bytes: u64,
    /// What it is.
    pub kind: WireKind,
}

/// Kinds of contradiction between payload and interface counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireKind {
    /// Payload left by another interface, if one of them shows it.
    WrongRoute {
        /// The interface that carried it.
        by: Option<String>,
    },
    /// Payload arrived at another interface, if one of them shows it: the host answers there for this address.
    ArpFlux {
        /// The interface that took it.
        by: Option<String>,
    },
    /// More than one per cent of what was sent was not the run's own.
    ForeignSent {
        /// Bytes that were not the run's.
        bytes: u64,
    },
    /// More than one per cent of what was received was not the run's own.
    ForeignReceived {
        /// Bytes that were not the run's.
        bytes: u64,
    },
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
    /// Links to or from a node that was lost.
    #[serde(default)]
    pub unchecked: usize,
    /// All links.
    pub links: usize,
    /// Where they do not.
    pub faults: Vec<String>,
}
