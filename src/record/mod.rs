//! The record: all results of a run, test by test. Pure, versioned data. Every report is made from the record alone.

mod acceptance;
mod counters;
mod facts;
mod imb;
mod latency;
mod linktest;
mod live;
mod node;
mod outcome;
mod sheet;
mod sighting;
mod tcp;
mod trouble;
pub mod version_1;

pub use acceptance::{
    AcceptanceRecord, ClockRecord, Conservation, HeldBy, LinkRecord, LinkSeries, NodeRecord,
    Second, TestRecord, Waits, WireFinding, WireKind,
};
pub use counters::InterfaceCounters;
pub use facts::{HostFacts, Interface, Pcie, SwitchPort};
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
pub use outcome::{Measured, Outcome};
pub use sheet::{
    Basis, Contention, Culprit, DirectionSheet, Evidence, FaultKind, FaultSheet, LimitedSheet,
    PortSheet, Sheet, SignedFigure, Step, StretchSheet, UplinkSheet, Verdict, VerdictWord,
};
pub use sighting::{Asked, Card, ClosedSegment, SeenEnd, SeenNode, SeenState, Sighting};
pub use tcp::TcpInfo;
pub use trouble::{ENDED_FROM_OUTSIDE, Trouble, TroubleKind, rank};

#[cfg(test)]
pub(crate) use sighting::tests::seen;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::{DataPort, RunPlan};

/// Version of the record. docs/record.md describes the format.
pub const RECORD_VERSION: u32 = 2;

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
    /// Results, of the same kind as the plan's work.
    pub outcome: Outcome,
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
    pub seal: Option<String>,
    /// Name of the run from which the first tests were taken, if this run resumed it.
    pub resumed: Option<String>,
    /// Name of the run, if it was settled before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Path of the run's folder or record as this process writes or reads it, for commands that name the run. It is not stored.
    #[serde(skip)]
    pub place: Option<PathBuf>,
}

impl Record {
    /// Name of the run: the one settled before the start, otherwise its start and the beginning of its token, as in the name of its folder.
    pub fn name(&self) -> String {
        let own = || crate::units::run_name(self.started_ms, &self.token);
        self.name.clone().unwrap_or_else(own)
    }

    /// Plan and results of the work.
    pub fn measured(&self) -> Measured<'_> {
        Measured::of(&self.plan.work, &self.outcome)
    }

    /// Results of the pipeline tests of an acceptance; no other kind has any.
    pub fn tests(&self) -> &[TestRecord] {
        self.outcome.tests()
    }

    /// The same, to change them.
    #[cfg(feature = "internals")]
    pub fn tests_mut(&mut self) -> &mut [TestRecord] {
        match self.outcome.acceptance_mut() {
            Some(acceptance) => &mut acceptance.tests,
            None => &mut [],
        }
    }

    /// Planned tests as they count for the verdict: a repeat replaces its test if the sheet says so.
    pub fn counted(&self) -> Vec<&TestRecord> {
        let planned = self.tests().iter().filter(|test| {
            let plan = self.plan.tests().get(test.test);
            plan.is_some_and(|plan| plan.purpose != crate::plan::Purpose::Isolated)
        });
        let counts = |test: &'_ TestRecord| {
            let mut instead = self.sheet.instead.iter();
            let repeat = instead.find(|(first, _)| *first == test.test)?.1;
            self.tests().iter().find(|other| other.test == repeat)
        };
        planned.map(|test| counts(test).unwrap_or(test)).collect()
    }
}

/// Data taken from an aborted run.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    /// Name of that run.
    pub run: String,
    /// Its whole parts, which are the first ones of the plan.
    pub outcome: Outcome,
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

/// The first node of each host, with its index.
pub(crate) fn first_nodes(hosts: &[HostRecord]) -> impl Iterator<Item = (usize, &HostRecord)> {
    let nodes = hosts.iter().enumerate();
    nodes.filter(|(node, host)| host.host_index == *node)
}

/// Name of a port in every report: the name of its host, or of its only node. With several rails, the interface is added.
pub fn port_label(plan: &RunPlan, hosts: &[HostRecord], nodes: &[usize], rail: usize) -> String {
    let first = nodes.first().copied().unwrap_or_default();
    let node = &plan.nodes[first];
    let name = match nodes {
        [_] => &node.label,
        _ => &node.host,
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
