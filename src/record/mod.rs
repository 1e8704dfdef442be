//! The record: all results of a run, test by test. Pure, versioned data. Every report is made from the record alone.

mod acceptance;
mod counters;
mod facts;
mod imb;
mod latency;
mod link;
mod linktest;
mod live;
mod node;
mod outcome;
mod sheet;
mod sighting;
mod sums;
mod tcp;
mod trouble;
pub mod version_1;

pub use acceptance::{
    AcceptanceRecord, ClockRecord, Conservation, LinkSeries, NodeRecord, Second, TestRecord,
    WireFinding, WireKind,
};
pub use counters::InterfaceCounters;
pub use facts::{Coalescing, HostCost, HostFacts, Interface, Pcie, Room, SwitchPort, Tuning};
pub use imb::{
    FileTimes, GroupTimes, ImbRecord, LineRecord, LineSpread, Overlap, RankLine, TableRecord,
};
pub use latency::{CableLatency, LatencyRecord, PairLatency, Planned, SlowCable, Together};
pub use link::{HeldBy, LinkRecord, Waits};
pub use linktest::{
    Effort, LinktestRecord, PairTime, RankRecord, RetestRecord, RoundProgress, RoundRecord,
    TimeSpread,
};
pub use live::{LIVE_VERSION, Live, LiveEvent, LiveTest, MEAN_S, MOST_IN_MATRIX};
pub use node::{
    Activity, Edge, EndCount, EndReport, EndRole, EndSum, NodeReport, RoleCpu, SenderSum,
};
pub use outcome::{Measured, Outcome};
pub use sheet::{
    Basis, Contention, Culprit, DirectionSheet, Evidence, FaultKind, FaultSheet, LimitedSheet,
    PortSheet, Sheet, SignedFigure, Step, StretchSheet, UplinkSheet, Verdict, VerdictWord,
};
pub use sighting::{Asked, Card, ClosedSegment, SeenEnd, SeenNode, SeenState, Sighting};
pub use sums::{LinkRates, LinkSums};
pub use tcp::TcpInfo;
pub use trouble::{ENDED_FROM_OUTSIDE, Trouble, TroubleKind, rank};

#[cfg(test)]
pub(crate) use sighting::tests::seen;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::{DataPort, NodeSpec, RunPlan};

/// Version of the record. docs/record.md describes the format. A record of version 2 is read as it is: it has no sums over links.
pub const RECORD_VERSION: u32 = 3;

/// All results of a run. docs/record.md describes the parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
pub struct Record {
    /// Version of the record.
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
    #[cfg_attr(feature = "web", schema(value_type = Object))]
    pub plan: RunPlan,
    /// Nodes that took part, and their hosts.
    #[cfg_attr(feature = "web", schema(value_type = Vec<Object>))]
    pub hosts: Vec<HostRecord>,
    /// Results, of the same kind as the plan's work. Records of version 1 have them elsewhere.
    #[cfg_attr(feature = "web", schema(value_type = Object, required = false))]
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
    #[cfg_attr(feature = "web", schema(value_type = Object))]
    pub sheet: Sheet,
    /// Exit code of the run.
    pub exit_code: u8,
    /// Text of everything that was settled before the start. Its digest was printed then.
    pub seal: Option<String>,
    /// Name of the run from which the first tests were taken, if this run resumed it.
    pub resumed: Option<String>,
    /// Name of the run, if it was settled before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "web", schema(value_type = String))]
    pub name: Option<String>,
    /// Path of the run's folder or record as this process writes or reads it, for commands that name the run. It is not stored.
    #[serde(skip)]
    pub place: Option<PathBuf>,
}

/// End of the name of a record whose names were replaced.
pub(crate) const ANONYMOUS: &str = "-anonymous";

impl Record {
    /// True if the names of hosts were replaced, so that its commands reach no host. Such a record has no seal.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.seal.is_none() && self.name().ends_with(ANONYMOUS)
    }

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
    /// Its nodes, with the switch ports at which they were.
    pub nodes: Vec<NodeSpec>,
}

/// A node without which the run continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
pub struct Missing {
    /// Label of the node.
    pub node: String,
    /// Index in the plan of the test in which the node was lost, or before which.
    #[serde(default)]
    pub test: usize,
    /// Time of its last message, in nanoseconds since the start of that test; `null` if it took no part in the test.
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

    /// The switch port that each rail hears.
    pub fn heard(&self) -> impl Iterator<Item = Option<&SwitchPort>> {
        let rails = self.rails.iter();
        rails.map(move |rail| self.interface_of(rail)?.switch_port.as_ref())
    }
}

/// The switch port of each node on each rail, as its host hears it. `None` where that is a guess: hosts that forward, for containers or guests,
/// announce themselves as switches do, and where a simple switch passes on what others announce, several cables hear one port.
pub(crate) fn switch_ports(hosts: &[HostRecord]) -> Vec<Vec<Option<&SwitchPort>>> {
    let short = |name: &str| {
        let host = name.split('.').next().unwrap_or_default();
        host.to_ascii_lowercase()
    };
    let names = hosts.iter().flat_map(|host| {
        let interfaces = host.facts.interfaces.iter();
        let addresses = interfaces.filter_map(|one| one.hardware.as_deref());
        addresses.chain([host.facts.hostname.as_str()])
    });
    let names: HashSet<String> = names.map(short).collect();
    let mut by: HashMap<&SwitchPort, BTreeSet<(usize, usize)>> = HashMap::new();
    for host in hosts {
        for (rail, port) in host.heard().enumerate() {
            if let Some(port) = port {
                by.entry(port).or_default().insert((host.host_index, rail));
            }
        }
    }
    let is_own = |port: &&SwitchPort| by[*port].len() == 1 && !names.contains(&short(&port.switch));
    let hosts = hosts.iter();
    let ports = hosts.map(|host| host.heard().map(|port| port.filter(is_own)).collect());
    ports.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A host whose data port hears a port of a switch.
    fn hears(host_index: usize, hostname: &str, (switch, port): (&str, &str)) -> HostRecord {
        let data = Interface {
            name: "eth0".to_owned(),
            hardware: Some(format!("02:00:00:00:00:A{host_index}")),
            switch_port: Some(SwitchPort {
                switch: switch.to_owned(),
                port: port.to_owned(),
            }),
            ..Interface::default()
        };
        HostRecord {
            node: hostname.to_owned(),
            transport: "ssh2".to_owned(),
            rails: vec![DataPort {
                address: std::net::IpAddr::from([10, 0, 0, 1]),
                interface: Some("eth0".to_owned()),
            }],
            host_index,
            facts: HostFacts {
                hostname: hostname.to_owned(),
                interfaces: vec![data],
                ..HostFacts::default()
            },
        }
    }

    fn switches(hosts: &[HostRecord]) -> Vec<Option<&str>> {
        let ports = switch_ports(hosts).into_iter().flatten();
        ports
            .map(|port| port.map(|port| port.switch.as_str()))
            .collect()
    }

    /// Symptom: two hosts with containers at a switch without LLDP heard each other, and the sheet blamed "switch port n2 eth0".
    #[test]
    fn a_host_of_the_run_is_no_switch() {
        let hosts = [
            hears(0, "n1", ("N2.cluster.example", "eth0")),
            hears(1, "n2.cluster.example", ("02:00:00:00:00:a0", "eth0")),
            hears(2, "n3", ("leaf1", "Eth1/3")),
        ];
        assert_eq!(switches(&hosts), [None, None, Some("leaf1")]);
    }

    /// Symptom: a host with several rails had no switch port.
    #[test]
    fn each_rail_of_a_host_has_its_own_switch_port() {
        let mut host = hears(0, "n1", ("leaf1", "Eth1/1"));
        let mut data = host.facts.interfaces[0].clone();
        data.name = "eth1".to_owned();
        data.switch_port.as_mut().unwrap().switch = "leaf2".to_owned();
        host.facts.interfaces.push(data);
        let mut rail = host.rails[0].clone();
        rail.interface = Some("eth1".to_owned());
        host.rails.push(rail);
        let mut hosts = [host];
        assert_eq!(switches(&hosts), [Some("leaf1"), Some("leaf2")]);
        // One port of a switch has one cable.
        hosts[0].facts.interfaces[1].switch_port = hosts[0].facts.interfaces[0].switch_port.clone();
        assert_eq!(switches(&hosts), [None, None]);
    }

    /// Symptom: hosts at one simple switch heard the leaf above it, and the next step was to move each cable from the one port of the leaf.
    #[test]
    fn a_port_that_two_hosts_hear_is_the_port_of_neither() {
        let at = |host_index, port| hears(host_index, "n", ("leaf1", port));
        let mut hosts = [at(0, "Eth1/3"), at(1, "Eth1/3"), at(2, "Eth1/4")];
        assert_eq!(switches(&hosts), [None, None, Some("leaf1")]);
        // Two nodes of one host have one cable.
        hosts[1].host_index = 0;
        assert_eq!(switches(&hosts), [Some("leaf1"); 3]);
    }
}
