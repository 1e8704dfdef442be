//! What a run measures: exactly one kind of work.

use serde::{Deserialize, Serialize};

use super::acceptance::Acceptance;
use super::imb::Imb;
use super::job::Job;
use super::latency::Latency;
use super::linktest::Linktest;
use super::ranks::Ranks;

/// The work of a run. `record::Outcome` has the same kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Pipeline tests of a switch.
    Acceptance(Acceptance),
    /// Every pair of ranks, as LinkTest measures them.
    Linktest(Linktest),
    /// Round trips of planned pairs, and the latencies of cables that follow from them.
    Latency(Latency),
    /// Patterns of the Intel MPI Benchmarks.
    Imb(Imb),
}

impl Work {
    /// The ranks that do the work; `None` for pipelines.
    pub fn ranks(&self) -> Option<&Ranks> {
        match self {
            Self::Acceptance(_) => None,
            Self::Linktest(linktest) => Some(&linktest.ranks),
            Self::Latency(latency) => Some(&latency.probe.ranks),
            Self::Imb(imb) => Some(&imb.ranks),
        }
    }

    /// The part of the work that ranks need; `None` for pipelines.
    pub fn job(&self) -> Option<Job> {
        match self {
            Self::Acceptance(_) => None,
            Self::Linktest(linktest) => Some(Job::Linktest(linktest.clone())),
            Self::Latency(latency) => Some(Job::Linktest(latency.probe.clone())),
            Self::Imb(imb) => Some(Job::Imb(imb.clone())),
        }
    }
}
