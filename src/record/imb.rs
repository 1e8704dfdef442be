//! What the patterns of the Intel MPI Benchmarks took.

use serde::{Deserialize, Serialize};

use crate::plan::collective::Algorithm;
use crate::plan::imb::Table;

use super::RankRecord;

/// What came of a job of such patterns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImbRecord {
    /// Index of the job in the plan.
    pub job: usize,
    /// All tables were measured.
    pub complete: bool,
    /// The processes, by number.
    pub ranks: Vec<RankRecord>,
    /// Tables, in the order in which they were measured.
    pub tables: Vec<TableRecord>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRecord {
    /// What was to be measured.
    pub table: Table,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// Lines that were measured, in order.
    pub lines: Vec<LineRecord>,
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineRecord {
    /// Bytes of a message.
    pub bytes: usize,
    /// Repetitions that were measured.
    pub repetitions: usize,
    /// How it was done, where there is a choice.
    pub algorithm: Option<Algorithm>,
    /// For each group, in their order, what its ranks took.
    pub groups: Vec<GroupTimes>,
    /// Why it was not measured.
    pub left_out: Option<String>,
}

/// Seconds of a repetition over the ranks of a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GroupTimes {
    /// Of the fastest rank.
    pub least_s: f64,
    /// Of the slowest rank.
    pub most_s: f64,
    /// Arithmetic mean.
    pub mean_s: f64,
    /// How batches of repetitions lie apart.
    pub spread: Option<LineSpread>,
    /// The largest relative difference from what should have arrived; none if nobody looked.
    pub defects: Option<f64>,
    /// What files took besides.
    #[serde(default)]
    pub files: Option<FileTimes>,
}

/// What a line of files took besides: bytes of all ranks, and times of the rank for which they were longest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileTimes {
    /// Bytes that all ranks have read in the line.
    pub read_bytes: u64,
    /// Bytes that storage devices (or file servers) were asked for meanwhile, what the kernel fetches ahead included; none if the kernel
    /// does not tell.
    pub fetched_bytes: Option<u64>,
    /// Seconds of a repetition that were spent on `fsync`.
    pub synchronising_s: f64,
    /// What was computed meanwhile.
    pub overlap: Option<Overlap>,
}

impl FileTimes {
    /// Of what was read, the share that no storage device was asked for; none if nothing was read, or nobody knows.
    pub fn cached(&self) -> Option<f64> {
        let fetched = self.fetched_bytes?;
        (self.read_bytes > 0).then(|| 1.0 - (fetched as f64 / self.read_bytes as f64).min(1.0))
    }
}

/// Transfers while a rank computes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overlap {
    /// Seconds of a transfer while nothing is computed.
    pub pure_s: f64,
    /// Seconds of what is computed while nothing is transferred.
    pub compute_s: f64,
    /// Millions of floating point operations in a second of these.
    pub megaflops: f64,
}

/// How batches of repetitions lie apart: each batch is the mean of some repetitions, of the slowest rank in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LineSpread {
    /// Batches.
    pub batches: usize,
    /// Repetitions in each, but for the last one.
    pub of: usize,
    /// Seconds of a repetition: the least.
    pub least_s: f64,
    /// The middle one.
    pub median_s: f64,
    /// 95 % take no longer; none with fewer than 20 batches.
    pub p95_s: Option<f64>,
    /// 99 % take no longer; none with fewer than 20 batches.
    pub p99_s: Option<f64>,
    /// The longest.
    pub most_s: f64,
    /// Standard deviation (n - 1) by mean.
    pub variation: f64,
}

/// What a rank tells of a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankLine {
    /// Number of the line in its table.
    pub line: usize,
    /// Repetitions that were measured.
    pub repetitions: usize,
    /// Seconds of a repetition.
    pub seconds: f64,
    /// Repetitions of a batch.
    pub batch: usize,
    /// Seconds of a repetition, batch by batch.
    pub batches_s: Vec<f64>,
    /// What files took besides.
    pub files: Option<FileTimes>,
    /// The largest relative difference from what should have arrived; none if it did not look.
    pub defect: Option<f64>,
    /// The first item that is wrong, in words.
    pub wrong: Option<String>,
    /// Why it was not measured.
    pub left_out: Option<String>,
}
