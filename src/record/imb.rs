//! Results of the Intel MPI Benchmarks' patterns.

use serde::{Deserialize, Serialize};

use crate::plan::collective::Algorithm;
use crate::plan::imb::Table;

use super::RankRecord;

/// Results of a job of these patterns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImbRecord {
    /// True if all tables were measured.
    pub complete: bool,
    /// The ranks, in their order.
    pub ranks: Vec<RankRecord>,
    /// Tables, in the order in which they were measured.
    pub tables: Vec<TableRecord>,
}

impl ImbRecord {
    /// The lines of all tables.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &LineRecord> {
        self.tables.iter().flat_map(|table| &table.lines)
    }
}

/// Results of one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRecord {
    /// Plan of the table.
    pub table: Table,
    /// Start, in milliseconds since 1970.
    pub started_ms: u64,
    /// Measured lines, in order.
    pub lines: Vec<LineRecord>,
}

/// Results of one line of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineRecord {
    /// Length of a message in bytes.
    pub bytes: usize,
    /// Measured repetitions.
    pub repetitions: usize,
    /// Algorithm, where a choice exists.
    pub algorithm: Option<Algorithm>,
    /// Times of each group, in the order of the groups.
    pub groups: Vec<GroupTimes>,
    /// Reason why the line was not measured.
    pub left_out: Option<String>,
}

/// Seconds per repetition over the ranks of a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GroupTimes {
    /// Time of the fastest rank.
    pub least_s: f64,
    /// Time of the slowest rank.
    pub most_s: f64,
    /// Arithmetic mean.
    pub mean_s: f64,
    /// Spread of batches of repetitions.
    pub spread: Option<LineSpread>,
    /// Largest relative difference from the expected data; `None` if not checked.
    pub defects: Option<f64>,
    /// Further figures of files.
    pub files: Option<FileTimes>,
}

/// Further figures of a line of files: bytes of all ranks, and times of the rank with the longest ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileTimes {
    /// Bytes that all ranks have read in the line.
    pub read_bytes: u64,
    /// Bytes requested from storage devices (or file servers) meanwhile, read-ahead by the kernel included; `None` if the kernel does not report it.
    pub fetched_bytes: Option<u64>,
    /// Seconds per repetition spent on `fsync`.
    pub synchronising_s: f64,
    /// Figures of the computation during transfers.
    pub overlap: Option<Overlap>,
}

impl FileTimes {
    /// Fraction of the read bytes that was not requested from a storage device. `None` if nothing was read, or if that is unknown.
    pub fn cached(&self) -> Option<f64> {
        let fetched = self.fetched_bytes?;
        (self.read_bytes > 0).then(|| 1.0 - (fetched as f64 / self.read_bytes as f64).min(1.0))
    }
}

/// Figures of transfers while a rank computes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overlap {
    /// Seconds of a transfer without computation.
    pub pure_s: f64,
    /// Seconds of the computation without a transfer.
    pub compute_s: f64,
    /// Millions of floating point operations per second of that computation.
    pub megaflops: f64,
}

/// Spread of batches of repetitions. The time of a batch is the mean of its repetitions, at the batch's slowest rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LineSpread {
    /// Number of batches.
    pub batches: usize,
    /// Repetitions in each batch except the last one.
    pub of: usize,
    /// Shortest time, in seconds per repetition.
    pub least_s: f64,
    /// Median time, in seconds per repetition.
    pub median_s: f64,
    /// 95th percentile, in seconds per repetition; `None` with fewer than 20 batches.
    pub p95_s: Option<f64>,
    /// 99th percentile, in seconds per repetition; `None` with fewer than 20 batches.
    pub p99_s: Option<f64>,
    /// Longest time, in seconds per repetition.
    pub most_s: f64,
    /// Standard deviation (n - 1) divided by the mean.
    pub variation: f64,
}

/// A rank's report of a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankLine {
    /// Number of the line in its table.
    pub line: usize,
    /// Measured repetitions.
    pub repetitions: usize,
    /// Seconds per repetition.
    pub seconds: f64,
    /// Repetitions per batch.
    pub batch: usize,
    /// Seconds per repetition, batch by batch.
    pub batches_s: Vec<f64>,
    /// Further figures of files.
    pub files: Option<FileTimes>,
    /// Largest relative difference from the expected data; `None` if not checked.
    pub defect: Option<f64>,
    /// First wrong item, in words.
    pub wrong: Option<String>,
    /// Reason why the line was not measured.
    pub left_out: Option<String>,
}
