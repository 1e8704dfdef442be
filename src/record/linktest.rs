//! Results of a link test.

use serde::{Deserialize, Serialize};

use crate::plan::job::Round;

/// Results of a link test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinktestRecord {
    /// True if every round finished.
    pub complete: bool,
    /// The ranks, in their order.
    pub ranks: Vec<RankRecord>,
    /// Rounds, each measured in one go: every iteration, and every order of the ranks within it.
    pub rounds: Vec<RoundRecord>,
    /// Further rounds that the judge requested: links one by one, each one way.
    #[serde(default)]
    pub looks: Vec<RoundRecord>,
}

/// One rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRecord {
    /// Index of its node.
    pub node: usize,
    /// Name of its host, as the host itself reports it.
    pub host: String,
    /// Processor that the rank is pinned to, or on which it ran when it reported.
    pub processor: usize,
    /// Connections closed because they were no ranks of this job.
    #[serde(default)]
    pub strangers: u64,
}

/// Results of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Number of full measurements before this one.
    pub iteration: u64,
    /// Plan of the round.
    pub round: Round,
    /// Start, in milliseconds since 1970.
    pub started_ms: u64,
    /// Time from the first message of the schedule to the last one, in nanoseconds, untimed parts included.
    pub span_ns: u64,
    /// Number of steps in the schedule.
    pub steps: usize,
    /// Times of the links, in the order of steps and ranks.
    pub times: Vec<PairTime>,
    /// By rank, seconds for one message to each of the others at the same time; `None` if not requested.
    pub all_to_all_s: Option<Vec<f64>>,
    /// The slowest links measured again, slowest first.
    pub retests: Vec<RetestRecord>,
    /// End, in milliseconds since 1970, with all-to-all and retests.
    pub ended_ms: u64,
}

/// Time of a message from one rank to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairTime {
    /// Number of the step, from 0.
    pub step: usize,
    /// Rank that started.
    pub from: usize,
    /// Partner of that rank.
    pub to: usize,
    /// Direction of the step: 0 for the first one, 1 for the second.
    pub turn: usize,
    /// Seconds per message, by the formula of the kernel.
    pub seconds: f64,
    /// Spread of the times of single messages.
    pub spread: Option<TimeSpread>,
    /// Activity of the two ranks during the measurement, first that of the rank that started.
    pub efforts: [Effort; 2],
}

/// Activity of a rank during a measurement, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Fraction of the time in which the rank moved bytes. In the rest it waited for the link.
    pub busy: f64,
    /// Fraction of the time in which the rank was ready and waited for a processor.
    pub waiting: f64,
}

/// Spread of the times of single messages. Percentiles are measured times (nearest rank).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSpread {
    /// Number of messages.
    pub count: u64,
    /// Shortest time, in seconds.
    pub least_s: f64,
    /// Median time, in seconds.
    pub median_s: f64,
    /// 90th percentile, in seconds.
    pub p90_s: f64,
    /// 99th percentile, in seconds.
    pub p99_s: f64,
    /// Longest time, in seconds.
    pub most_s: f64,
    /// Standard deviation of the sample, in seconds.
    pub deviation_s: f64,
}

/// A link that was measured again, alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetestRecord {
    /// Rank that started.
    pub from: usize,
    /// Partner of that rank.
    pub to: usize,
    /// Seconds per message while other links were measured too.
    pub old_s: f64,
    /// Seconds per message alone.
    pub new_s: f64,
    /// Spread of the times of single messages alone.
    pub spread: Option<TimeSpread>,
}

/// Progress of a link test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundProgress {
    /// Number of full measurements before this one.
    pub iteration: u64,
    /// Number of rounds of the whole schedule before this one.
    pub number: u64,
    /// Number of steps in the round.
    pub steps: usize,
    /// Number of finished steps, in any order.
    pub ended: usize,
    /// Time since the round began, in nanoseconds.
    pub elapsed_ns: u64,
    /// Plan of the round.
    pub round: Round,
}
