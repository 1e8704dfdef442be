//! What a link test measured.

use serde::{Deserialize, Serialize};

use crate::plan::job::Round;

use super::RankLine;

/// What came of a link test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinktestRecord {
    /// Index among the jobs of the plan.
    pub job: usize,
    /// Every round came to its end.
    pub complete: bool,
    /// The ranks, in their order.
    pub ranks: Vec<RankRecord>,
    /// What was measured in one go: iterations, and orders of the ranks within them.
    pub rounds: Vec<RoundRecord>,
    /// Looks that the judge has asked for: links one by one, each one way.
    #[serde(default)]
    pub looks: Vec<RoundRecord>,
}

/// One rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRecord {
    /// Index of its node.
    pub node: usize,
    /// Name of its host, as the host itself has it.
    pub host: String,
    /// Processor that it stayed on, or was on when it told.
    pub processor: usize,
    /// Connections that were closed because they were no ranks of this job.
    #[serde(default)]
    pub strangers: u64,
}

/// What one round measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// How often all had been measured before.
    pub iteration: u64,
    /// What was to be measured.
    pub round: Round,
    /// Start, milliseconds since 1970.
    pub started_ms: u64,
    /// From the first word of the schedule to the last one, in nanoseconds, with all that is not timed.
    pub span_ns: u64,
    /// Steps of the schedule.
    pub steps: usize,
    /// Its links, in the order of steps and ranks.
    pub times: Vec<PairTime>,
    /// Seconds for one message from each rank to each of the others at the same time, by rank.
    pub all_to_all_s: Option<Vec<f64>>,
    /// The slowest links once more, slowest first.
    pub retests: Vec<RetestRecord>,
    /// End, milliseconds since 1970, with all-to-all and retests.
    pub ended_ms: u64,
}

/// The time of a message from one rank to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairTime {
    /// Number of the step, from 0.
    pub step: usize,
    /// Rank that started.
    pub from: usize,
    /// Its partner.
    pub to: usize,
    /// Which of the two directions of a step it is: 0 for the first one, 1 for the second.
    pub turn: usize,
    /// Seconds per message, by the formula of the kernel.
    pub seconds: f64,
    /// How single messages lie apart.
    pub spread: Option<TimeSpread>,
    /// What the two ranks did meanwhile, the one that started first.
    pub efforts: [Effort; 2],
}

/// What a rank did while it measured, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Part of the time in which it moved bytes, or looked for some that were there soon; the rest it waited for the link.
    pub busy: f64,
    /// Part of the time in which it was ready and waited for a processor.
    pub waiting: f64,
}

/// How the times of single messages lie apart; percentiles are times that were measured (nearest rank).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSpread {
    /// Messages.
    pub count: u64,
    /// The least, in seconds.
    pub least_s: f64,
    /// The one in the middle.
    pub median_s: f64,
    /// Nine in ten took no longer.
    pub p90_s: f64,
    /// 99 in a hundred took no longer.
    pub p99_s: f64,
    /// The longest.
    pub most_s: f64,
    /// Standard deviation of the sample.
    pub deviation_s: f64,
}

/// A link that was measured again by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetestRecord {
    /// Rank that started.
    pub from: usize,
    /// Its partner.
    pub to: usize,
    /// Seconds per message while others measured, too.
    pub old_s: f64,
    /// Seconds per message alone.
    pub new_s: f64,
    /// How single messages lay apart then.
    pub spread: Option<TimeSpread>,
}

/// How far a link test has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundProgress {
    /// How often all has been measured before.
    pub iteration: u64,
    /// Rounds of the whole schedule before this one.
    pub number: u64,
    /// Steps of the round.
    pub steps: usize,
    /// Steps that have come to their end, in whatever order.
    pub ended: usize,
    /// Since the round began, in nanoseconds.
    pub elapsed_ns: u64,
    /// What is measured.
    pub round: Round,
}

/// What a rank tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankWord {
    /// It has its buffers and knows where the others are.
    Ready,
    /// Times of links that it started.
    Times(Vec<PairTime>),
    /// A line of a table that it has measured.
    Line(Box<RankLine>),
    /// Its part in a round has ended.
    Done {
        /// Its time of a round from all to all.
        all_to_all_s: Option<f64>,
        /// Processor that it is on.
        processor: usize,
        /// Connections that it has closed as strangers until now.
        strangers: u64,
    },
}
