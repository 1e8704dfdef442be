//! Plan of a job that measures the latencies of a fabric.

use serde::{Deserialize, Serialize};

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
    /// Name of the strategy that chooses pairs.
    pub strategy: String,
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
