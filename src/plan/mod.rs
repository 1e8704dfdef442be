//! The run plan: all work of a run as validated, versioned, pure data.
//!
//! A plan is one kind of [`Work`] on some nodes. `cli/` turns arguments into a plan and validates them; later stages of
//! the launching side rely on that. Read next: [`lanes`] for sender, receiver and slots of each link, [`size`] for processes and memory.

mod acceptance;
mod assignment;
pub mod collective;
mod criteria;
mod deadlines;
pub mod fit;
pub mod imb;
pub mod job;
pub mod lanes;
pub mod latency;
pub mod linktest;
mod pattern;
pub mod placement;
pub mod ranks;
pub mod sample;
pub mod seal;
pub mod size;
mod sockets;
mod switch_port;
mod test;
mod transport;
mod work;

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

pub use acceptance::{Acceptance, Profile};
pub use assignment::{Assignment, AssignmentError, DataPort, Membership, Peers, kind_of};
pub use criteria::{Criteria, Uplink};
pub use deadlines::{DRAINS, Deadlines};
pub use pattern::{Pattern, PatternError};
pub use sockets::SocketOptions;
pub use switch_port::{moved, with_places};
pub use test::{
    Bound, Coupling, DataNetwork, Datapath, Family, MOST_PIECES, Pace, Pin, Purpose, Relay, Sink,
    Source, Test, Unasked, Verify, Workers, file_name,
};
pub use transport::{LinkKind, Transport};
pub use work::Work;

#[cfg(test)]
pub(crate) use assignment::tests;

/// Allowed number of pipeline stages: at least source and sink.
pub const PHASES: RangeInclusive<usize> = 2..=32;
/// Allowed number of data ports per host.
pub const RAILS: RangeInclusive<usize> = 1..=64;
/// Allowed number of links per pair of nodes and boundary, over all rails.
pub const STREAMS: RangeInclusive<usize> = 1..=256;
/// Allowed payload of a block, in bytes.
pub const BLOCK_BYTES: RangeInclusive<usize> = 64..=1 << 30;
/// Version of the run plan. A reader refuses another version with a message that names both.
pub const PLAN_VERSION: u32 = 2;

/// Reason why nodes cannot do the work of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The pattern of a test does not suit the nodes.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A number of a job of ranks is outside of its limits.
    #[error(transparent)]
    Job(#[from] AssignmentError),
    /// The links of a test are to be shared memory, which only ranks have.
    #[error("links of a pipeline cannot be shared memory")]
    SharedMemory,
}

/// All parameters of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// [`PLAN_VERSION`] of the writer.
    pub version: u32,
    /// The nodes, in the order in which the user named them.
    pub nodes: Vec<NodeSpec>,
    /// What the run measures.
    pub work: Work,
    /// Criteria for the verdict.
    #[serde(default)]
    pub criteria: Criteria,
    /// Time limit of each stage.
    pub deadlines: Deadlines,
    /// Seed of the payload.
    pub seed: u64,
    /// True if the run continues without hosts that are unreachable or lost. Their rows are then missing.
    #[serde(default)]
    pub keep_going: bool,
    /// Most nodes that it continues without; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_missing: Option<usize>,
    /// Tested switch, place and people, from a plan file.
    #[serde(default)]
    pub site: Option<Site>,
}

impl RunPlan {
    /// A plan without criteria.
    pub fn of(nodes: Vec<NodeSpec>, work: Work, deadlines: Deadlines) -> Self {
        Self {
            version: PLAN_VERSION,
            nodes,
            work,
            criteria: Criteria::default(),
            deadlines,
            seed: 0,
            keep_going: false,
            most_missing: None,
            site: None,
        }
    }

    /// The pipeline tests of an acceptance; no other kind has any.
    pub fn tests(&self) -> &[Test] {
        self.acceptance()
            .map_or(&[], |acceptance| &acceptance.tests)
    }

    /// The plan of an acceptance.
    pub fn acceptance(&self) -> Option<&Acceptance> {
        match &self.work {
            Work::Acceptance(acceptance) => Some(acceptance),
            Work::Linktest(_) | Work::Latency(_) | Work::Imb(_) => None,
        }
    }

    /// The same, to change it.
    pub fn acceptance_mut(&mut self) -> Option<&mut Acceptance> {
        match &mut self.work {
            Work::Acceptance(acceptance) => Some(acceptance),
            Work::Linktest(_) | Work::Latency(_) | Work::Imb(_) => None,
        }
    }

    /// Its tests, to change them; no other kind has any.
    pub fn tests_mut(&mut self) -> &mut [Test] {
        match self.acceptance_mut() {
            Some(acceptance) => &mut acceptance.tests,
            None => &mut [],
        }
    }

    /// True if the run reports each second of every link, not only sums.
    pub fn samples(&self) -> bool {
        self.acceptance()
            .is_some_and(|acceptance| acceptance.samples)
    }

    /// Checks that the nodes can do the work. A plan that was read from a file can contain anything.
    pub fn check(&self) -> Result<(), PlanError> {
        let nodes = self.nodes.len();
        for test in self.tests() {
            test.pattern.check(nodes, test.phases)?;
            if test.transport == Transport::Shm {
                return Err(PlanError::SharedMemory);
            }
        }
        if let Some(job) = self.work.job() {
            job.check(nodes)?;
        }
        Ok(())
    }

    /// Removes nodes before the first measurement. Also removes tests that cannot run without them. Returns false if no work is left.
    pub fn leave_out(&mut self, labels: &[&str]) -> bool {
        let is_gone = |node: &NodeSpec| labels.contains(&node.label.as_str());
        let all = self.nodes.len();
        let gone: Vec<usize> = (0..all)
            .filter(|node| is_gone(&self.nodes[*node]))
            .collect();
        self.nodes.retain(|node| !is_gone(node));
        match &mut self.work {
            Work::Acceptance(acceptance) => {
                let tests = std::mem::take(&mut acceptance.tests).into_iter();
                acceptance.tests = tests.filter_map(|test| without(test, &gone, all)).collect();
                !acceptance.tests.is_empty()
            }
            Work::Latency(latency) => {
                let mut nodes = 0..all;
                let mut is_here = || nodes.next().is_none_or(|node| !gone.contains(&node));
                latency.hosts.retain(|_| is_here());
                true
            }
            Work::Linktest(_) | Work::Imb(_) => true,
        }
    }
}

/// A test without the nodes that are gone, of `all` nodes. `None` if it cannot run without them.
fn without(test: Test, gone: &[usize], all: usize) -> Option<Test> {
    let pattern = test.pattern.without(gone, all)?;
    let here = |pace: &Pace| !gone.contains(&pace.from) && !gone.contains(&pace.to);
    let moved = |pace: Pace| Pace {
        from: pattern::renumbered(pace.from, gone),
        to: pattern::renumbered(pace.to, gone),
        ..pace
    };
    let paces = test.paces.iter().copied().filter(here).map(moved).collect();
    Some(Test {
        pattern,
        paces,
        ..test
    })
}

/// Tested switch, place and people. Reports print this and use it for nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Model of the switch.
    pub switch: Option<String>,
    /// Serial number of the switch.
    pub serial: Option<String>,
    /// Location of the switch.
    pub location: Option<String>,
    /// Person who tests.
    pub operator: Option<String>,
    /// Person who signs.
    pub customer: Option<String>,
    /// Further remarks.
    pub remarks: Option<String>,
    /// Number of ports of the switch.
    pub ports: Option<usize>,
}

impl Site {
    /// All texts that the user gave, each with its name.
    pub fn said(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("switch", &self.switch),
            ("serial number", &self.serial),
            ("location", &self.location),
            ("operator", &self.operator),
            ("customer", &self.customer),
            ("remarks", &self.remarks),
        ];
        all.into_iter()
            .filter_map(|(name, text)| Some((name, text.as_deref()?)))
            .collect()
    }
}

/// One node of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Label in every report; unique within a run.
    pub label: String,
    /// Name of the host as the user gave it.
    pub host: String,
    /// True if the node starts on this host, without a remote shell.
    pub local: bool,
    /// Data addresses, one per rail; empty if the user gave none.
    #[serde(default)]
    pub data: Vec<IpAddr>,
    /// Expected speed of the port in bits per second, if the user gave one.
    pub speed_bits_per_s: Option<u64>,
    /// MTU of the data ports in bytes, if the user gave one for this host.
    #[serde(default)]
    pub mtu_bytes: Option<u32>,
    /// Switch that the host is connected to, if the user gave one or LLDP names it.
    pub switch: Option<String>,
    /// Port of that switch.
    pub switch_port: Option<String>,
    /// Group of ports that shares an uplink.
    pub group: Option<String>,
}
