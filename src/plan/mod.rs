//! The run plan: what is to be done, validated, pure data, versioned.
//!
//! A plan is a list of tests; a plain command is a list of one. Words become a plan in `cli/`; after that
//! nothing is checked again. Read next: [`lanes`] for who sends to whom and through which slot, [`size`] for
//! how many processes and how much memory that takes.

mod assignment;
pub mod collective;
mod criteria;
mod deadlines;
pub mod fit;
pub mod imb;
pub mod job;
pub mod lanes;
mod pattern;
pub mod placement;
pub mod seal;
pub mod size;
mod test;

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

pub use assignment::{Assignment, AssignmentError, DataPort, LinkKind, kind_of};
pub use criteria::{Criteria, Uplink};
pub use deadlines::{DRAINS, Deadlines};
pub use pattern::{Pattern, PatternError};
pub use test::{
    Bound, Coupling, DataNetwork, Datapath, Family, Pace, Purpose, Relay, SAMPLE, Sink, Source,
    Test, Transport, Verify, Workers, file_name,
};

#[cfg(test)]
pub(crate) use assignment::tests;

/// Stages that a pipeline may have: source and sink at least.
pub const PHASES: RangeInclusive<usize> = 2..=32;
/// Data ports that a host may have.
pub const RAILS: RangeInclusive<usize> = 1..=64;
/// Links that a pair of nodes may have at a boundary, over all rails.
pub const STREAMS: RangeInclusive<usize> = 1..=256;
/// Payload that a block may have.
pub const BLOCK_BYTES: RangeInclusive<usize> = 64..=1 << 30;
/// Version of the run plan; a reader refuses another one by naming both.
pub const PLAN_VERSION: u32 = 1;

/// Everything a run needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// [`PLAN_VERSION`] of the writer.
    pub version: u32,
    /// The nodes, in the order in which they were named.
    pub nodes: Vec<NodeSpec>,
    /// The tests, one after the other.
    pub tests: Vec<Test>,
    /// Jobs of ranks, behind the tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<job::Job>,
    /// How thorough it is.
    #[serde(default)]
    pub profile: Profile,
    /// Its tests are shorter than its profile asks for.
    #[serde(default)]
    pub shortened: bool,
    /// What it is judged by.
    #[serde(default)]
    pub criteria: Criteria,
    /// How long each stage may take.
    pub deadlines: Deadlines,
    /// Seed of the payload.
    pub seed: u64,
    /// Hosts that cannot be reached or are lost cost their rows, the others run.
    #[serde(default)]
    pub keep_going: bool,
    /// Every link is told of each second, not only sums.
    #[serde(default)]
    pub samples: bool,
    /// Name of the run whose faults are measured again.
    #[serde(default)]
    pub repeats: Option<String>,
    /// What was tested, where and for whom, as a plan file says.
    #[serde(default)]
    pub site: Option<Site>,
}

impl RunPlan {
    /// Whether its tests can be run by its nodes: a plan that was read may say anything.
    pub fn check(&self) -> Result<(), PatternError> {
        let mut tests = self.tests.iter();
        tests.try_for_each(|test| test.pattern.check(self.nodes.len(), test.phases))
    }

    /// Takes nodes out, before anything was measured; tests that cannot do without them go.
    pub fn leave_out(&mut self, labels: &[&str]) {
        let is_gone = |node: &NodeSpec| labels.contains(&node.label.as_str());
        let all = self.nodes.len();
        let gone: Vec<usize> = (0..all)
            .filter(|node| is_gone(&self.nodes[*node]))
            .collect();
        self.nodes.retain(|node| !is_gone(node));
        for job in &mut self.jobs {
            if let job::Job::Latency(latency) = job {
                let mut node = 0;
                latency.hosts.retain(|_| {
                    node += 1;
                    !gone.contains(&(node - 1))
                });
            }
        }
        for test in std::mem::take(&mut self.tests) {
            let Some(pattern) = test.pattern.without(&gone, all) else {
                continue;
            };
            let here = |pace: &Pace| !gone.contains(&pace.from) && !gone.contains(&pace.to);
            let moved = |pace: Pace| Pace {
                from: pattern::renumbered(pace.from, &gone),
                to: pattern::renumbered(pace.to, &gone),
                ..pace
            };
            let paces = test.paces.iter().copied().filter(here).map(moved).collect();
            self.tests.push(Test {
                pattern,
                paces,
                ..test
            });
        }
    }
}

/// What was tested, where and for whom: printed on the sheet, and nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Model of the switch.
    pub switch: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Where it is.
    pub location: Option<String>,
    /// Who tests.
    pub operator: Option<String>,
    /// Who signs.
    pub customer: Option<String>,
    /// What else should be known.
    pub remarks: Option<String>,
    /// Ports that the switch has.
    pub ports: Option<usize>,
}

impl Site {
    /// What was said, with its name.
    pub fn said(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("switch", &self.switch),
            ("serial number", &self.serial),
            ("location", &self.location),
            ("operator", &self.operator),
            ("customer", &self.customer),
            ("remarks", &self.remarks),
        ];
        let said = all
            .into_iter()
            .filter_map(|(name, text)| Some((name, text.as_deref()?)));
        said.collect()
    }
}

/// How thorough a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// One test of any shape: a screening.
    #[default]
    Quick,
    /// What a switch is signed for on: all permutations, losses, and the mesh repeatedly.
    Acceptance,
    /// The mesh for a day.
    Soak,
}

/// One participant of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Label in every report; unique within a run.
    pub label: String,
    /// Name of the host as it was given.
    pub host: String,
    /// Started here without a remote shell.
    pub local: bool,
    /// Data addresses, one per rail, where they were given.
    #[serde(default)]
    pub data: Vec<IpAddr>,
    /// Expected speed of the port in bits per second, where one was given.
    pub speed_bits_per_s: Option<u64>,
    /// MTU of its data ports in bytes, where one was given for this host.
    #[serde(default)]
    pub mtu_bytes: Option<u32>,
    /// Switch the host is plugged into, where one was given.
    pub switch: Option<String>,
    /// Port of that switch.
    pub switch_port: Option<String>,
    /// Group for uplinks.
    pub group: Option<String>,
}
