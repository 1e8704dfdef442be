//! What goes on in a run at this moment: a small document that is replaced each second, for pages and scripts that look on.

use serde::{Deserialize, Serialize};

/// Version of the document.
pub const LIVE_VERSION: u32 = 1;

/// A run as it is now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// [`LIVE_VERSION`] of the writer.
    pub version: u32,
    /// When this was written, milliseconds since 1970.
    pub at_ms: u64,
    /// What goes on, in words.
    pub stage: String,
    /// What was noticed on the way, the last ones.
    pub notices: Vec<String>,
    /// Names of the nodes, once they have said who they are.
    pub nodes: Vec<String>,
    /// The test under way.
    pub test: Option<LiveTest>,
    /// What all nodes received from other nodes, in bits per second: a point for each stretch of the run, its last one not among them until it is
    /// full.
    pub course_bits_per_s: Vec<u64>,
    /// Seconds that each point stands for.
    pub stretch_s: u64,
    /// The last second: what each node received from other nodes, in bits per second.
    pub received_bits_per_s: Vec<u64>,
    /// And what it sent to them.
    pub sent_bits_per_s: Vec<u64>,
    /// The last second by pairs, in bits per second: a row for each node that sends, in it a figure for each that receives, none where there is no link.
    /// Empty above [`MOST_IN_MATRIX`] nodes.
    pub matrix_bits_per_s: Vec<Vec<Option<u64>>>,
}

/// Nodes above which no figures of pairs are told.
pub const MOST_IN_MATRIX: usize = 96;

/// The test under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTest {
    /// From 1.
    pub number: usize,
    /// Tests that are known so far; the judge may ask for more.
    pub of: usize,
    /// What it loads, in words.
    pub what: String,
    /// Seconds of data that it was planned for, warm-up included; none where it is bounded by volume.
    pub planned_s: Option<u64>,
    /// Seconds of data so far.
    pub passed_s: u64,
}
