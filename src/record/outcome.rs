//! Results of the work of a run, of one kind.

use serde::{Deserialize, Serialize};

use crate::plan::imb::Imb;
use crate::plan::latency::Latency;
use crate::plan::linktest::Linktest;
use crate::plan::{Acceptance, Work};

use super::{AcceptanceRecord, ImbRecord, LatencyRecord, LinktestRecord, RankRecord, TestRecord};

/// Results of a run. The kinds are those of `plan::Work`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Pipeline tests of a switch.
    Acceptance(AcceptanceRecord),
    /// Every pair of ranks, as LinkTest measures them.
    Linktest(LinktestRecord),
    /// Round trips of planned pairs, and the latencies of cables that follow from them.
    Latency(Box<LatencyRecord>),
    /// Patterns of the Intel MPI Benchmarks.
    Imb(ImbRecord),
}

/// Plan and results of one kind of work.
#[derive(Debug, Clone, Copy)]
pub enum Measured<'a> {
    /// Pipeline tests of a switch.
    Acceptance(&'a Acceptance, &'a AcceptanceRecord),
    /// Every pair of ranks.
    Linktest(&'a Linktest, &'a LinktestRecord),
    /// Latencies of a fabric.
    Latency(&'a Latency, &'a LatencyRecord),
    /// Patterns of the Intel MPI Benchmarks.
    Imb(&'a Imb, &'a ImbRecord),
}

impl<'a> Measured<'a> {
    /// Pairs plan and results, which are of the same kind: the launching side makes them so, and a record that is read is checked.
    pub fn of(work: &'a Work, outcome: &'a Outcome) -> Self {
        match (work, outcome) {
            (Work::Acceptance(plan), Outcome::Acceptance(record)) => {
                Measured::Acceptance(plan, record)
            }
            (Work::Linktest(plan), Outcome::Linktest(record)) => Measured::Linktest(plan, record),
            (Work::Latency(plan), Outcome::Latency(record)) => Measured::Latency(plan, record),
            (Work::Imb(plan), Outcome::Imb(record)) => Measured::Imb(plan, record),
            (
                Work::Acceptance(_) | Work::Linktest(_) | Work::Latency(_) | Work::Imb(_),
                Outcome::Acceptance(_)
                | Outcome::Linktest(_)
                | Outcome::Latency(_)
                | Outcome::Imb(_),
            ) => unreachable!("results of another kind of work than the plan's"),
        }
    }
}

impl Outcome {
    /// Results of work that has not begun.
    pub fn open(work: &Work) -> Self {
        match work {
            Work::Acceptance(_) => Self::Acceptance(AcceptanceRecord::default()),
            Work::Linktest(_) => Self::Linktest(LinktestRecord::default()),
            Work::Latency(_) => Self::Latency(Box::default()),
            Work::Imb(_) => Self::Imb(ImbRecord::default()),
        }
    }

    /// Results of the pipeline tests of an acceptance; no other kind has any.
    pub fn tests(&self) -> &[TestRecord] {
        match self {
            Self::Acceptance(acceptance) => &acceptance.tests,
            Self::Linktest(_) | Self::Latency(_) | Self::Imb(_) => &[],
        }
    }

    /// Results of an acceptance, to change them, if that was the work.
    pub fn acceptance_mut(&mut self) -> Option<&mut AcceptanceRecord> {
        match self {
            Self::Acceptance(acceptance) => Some(acceptance),
            Self::Linktest(_) | Self::Latency(_) | Self::Imb(_) => None,
        }
    }

    /// Results of a link test, if that was the work.
    #[cfg(feature = "internals")]
    pub fn linktest(&self) -> Option<&LinktestRecord> {
        match self {
            Self::Linktest(linktest) => Some(linktest),
            Self::Acceptance(_) | Self::Latency(_) | Self::Imb(_) => None,
        }
    }

    /// Results of a latency measurement, if that was the work.
    #[cfg(feature = "internals")]
    pub fn latency(&self) -> Option<&LatencyRecord> {
        match self {
            Self::Latency(latency) => Some(latency),
            Self::Acceptance(_) | Self::Linktest(_) | Self::Imb(_) => None,
        }
    }

    /// Results of patterns, if that was the work.
    #[cfg(feature = "internals")]
    pub fn imb(&self) -> Option<&ImbRecord> {
        match self {
            Self::Imb(imb) => Some(imb),
            Self::Acceptance(_) | Self::Linktest(_) | Self::Latency(_) => None,
        }
    }

    /// The ranks that did the work; pipelines have none.
    pub fn ranks(&self) -> &[RankRecord] {
        match self {
            Self::Acceptance(_) => &[],
            Self::Linktest(linktest) => &linktest.ranks,
            Self::Latency(latency) => &latency.ranks,
            Self::Imb(imb) => &imb.ranks,
        }
    }

    /// True if a part of the work was begun.
    pub fn has_begun(&self) -> bool {
        match self {
            Self::Acceptance(acceptance) => !acceptance.tests.is_empty(),
            Self::Linktest(_) | Self::Latency(_) | Self::Imb(_) => !self.ranks().is_empty(),
        }
    }

    /// True if each part that began is complete.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Acceptance(acceptance) => acceptance.tests.iter().all(|test| test.complete),
            Self::Linktest(linktest) => linktest.complete,
            Self::Latency(latency) => latency.complete,
            Self::Imb(imb) => imb.complete,
        }
    }

    /// Number of measurements, and the word for one of them.
    pub(crate) fn parts(&self) -> (usize, &'static str) {
        match self {
            Self::Acceptance(acceptance) => (acceptance.tests.len(), "test"),
            Self::Linktest(linktest) => (linktest.rounds.len(), "round"),
            Self::Latency(latency) => (latency.pairs.len(), "pair"),
            Self::Imb(imb) => (imb.lines().count(), "line"),
        }
    }

    /// Time of all measurements together, in seconds. Patterns count the repetitions of their slowest ranks.
    pub(crate) fn measured_s(&self) -> f64 {
        let seconds = |ns: u64| ns as f64 / 1e9;
        // Each sum starts at 0.0, since the sum of an empty iterator is -0.0.
        match self {
            Self::Acceptance(acceptance) => {
                let spans = acceptance.tests.iter().filter_map(|test| test.span_ns);
                spans.fold(0.0, |sum, ns| sum + seconds(ns))
            }
            Self::Linktest(linktest) => {
                let spans = linktest.rounds.iter().map(|round| round.span_ns);
                spans.fold(0.0, |sum, ns| sum + seconds(ns))
            }
            Self::Latency(latency) => seconds(latency.span_ns),
            Self::Imb(imb) => imb.lines().fold(0.0, |sum, line| {
                let slowest = line.groups.iter().map(|group| group.most_s);
                sum + slowest.fold(0.0, f64::max) * line.repetitions as f64
            }),
        }
    }

    /// True if both are of the same kind.
    pub fn is_of(&self, work: &Work) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(&Self::open(work))
    }
}
