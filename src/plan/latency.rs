//! Plan of a job that measures the latencies of a fabric.

use serde::{Deserialize, Serialize};

use latency::description;
use latency::fabric::Fabric;
use latency::planning::{self, Plan, Strategy, Wishes};
use latency::survey::Looking;

use super::linktest::Linktest;

/// Latencies of a fabric, from rounds of pairs that share no cable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Measurement of one pair: the ranks bounce messages and time each one separately.
    pub probe: Linktest,
    /// Description of the fabric, as text.
    pub fabric: String,
    /// Number of each node's host in the fabric, in the order of the nodes.
    pub hosts: Vec<u32>,
    /// Method of choosing pairs.
    pub strategy: Strategy,
    /// True if each direction of a cable between switches has its own value.
    pub directed: bool,
    /// Number of pairs divided by the number of unknowns.
    pub redundancy: f64,
    /// Seed of random choices.
    pub seed: u64,
    /// Pairs of host numbers, round by round, if planned in advance. Otherwise the run plans them for the hosts that take part.
    pub rounds: Option<Vec<Vec<(u32, u32)>>>,
    /// Number of extra pairs that only show how accurate predictions are.
    pub checks: usize,
    /// Values of cables in a healthy fabric.
    pub baseline: Option<Baseline>,
}

impl Latency {
    /// The given plan without the missing hosts, or a new plan for the present hosts; with the numbers of pairs left out and added.
    pub fn plan_for(&self, fabric: &Fabric, present: &[u32]) -> (Plan, (usize, usize)) {
        let looking = Looking {
            seed: self.seed,
            ..Looking::default()
        };
        let Some(rounds) = &self.rounds else {
            let wishes = Wishes {
                strategy: self.strategy,
                directed: self.directed,
                redundancy: self.redundancy,
                looking,
                ..Wishes::default()
            };
            return (planning::make(fabric, present, &wishes), (0, 0));
        };
        let all: Vec<u32> = (0_u32..).take(fabric.hosts.len()).collect();
        let mut plan = Plan {
            strategy: self.strategy,
            directed: self.directed,
            rounds: rounds.clone(),
            facts: planning::facts(fabric, self.directed, &all, looking),
        };
        let changed = planning::without_missing(fabric, &mut plan, present, looking);
        (plan, changed)
    }

    /// Number of rounds and pairs if all hosts are present; `None` if the fabric's description cannot be read.
    pub fn size(&self) -> Option<(usize, usize)> {
        let draft = description::read(&self.fabric).ok()?;
        let fabric = Fabric::new(&draft).ok()?;
        let mut present = self.hosts.clone();
        present.sort_unstable();
        let (plan, _) = self.plan_for(&fabric, &present);
        Some((plan.rounds.len(), plan.pairs().len()))
    }
}

/// Values of cables from an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Name of the run.
    pub run: String,
    /// Value of each column in seconds. A column that is not identified has one of many possible values.
    pub values_s: Vec<f64>,
    /// Standard error of each value, in seconds; `None` where unknown.
    pub errors_s: Vec<Option<f64>>,
}
