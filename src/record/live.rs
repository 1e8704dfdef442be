//! Current state of a run: a small document that is replaced each second, for pages and scripts that watch the run.

use serde::{Deserialize, Serialize};

/// Version of the document.
pub const LIVE_VERSION: u32 = 1;

/// Current state of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
pub struct Live {
    /// Version of the document.
    pub version: u32,
    /// Time of writing, in milliseconds since 1970.
    pub at_ms: u64,
    /// Current stage, in words.
    pub stage: String,
    /// The latest notices.
    pub notices: Vec<String>,
    /// Names of the nodes, once they have introduced themselves.
    pub nodes: Vec<String>,
    /// The test that runs now.
    pub test: Option<LiveTest>,
    /// Rate that all nodes together received from other nodes, in bits per second: one point for each stretch of the run. The current stretch is
    /// missing until it is complete.
    pub course_bits_per_s: Vec<u64>,
    /// Seconds that each point covers.
    pub stretch_s: u64,
    /// Rate that each node received from other nodes in the last second, in bits per second.
    pub received_bits_per_s: Vec<u64>,
    /// Rate that each node sent to nodes of other hosts in the last second, in bits per second.
    pub sent_bits_per_s: Vec<u64>,
    /// Rates of pairs, averaged over the last seconds of the test, in bits per second: one row per sending node, one column per receiving node.
    /// `null` where no link exists. Empty if there are too many nodes.
    pub matrix_bits_per_s: Vec<Vec<Option<u64>>>,
    /// Rate that each pair of the current test can reach by the speeds of the ports and the rate limit of the links, in bits per second. `null` if
    /// the speeds are unknown.
    #[serde(default)]
    pub expected_pair_bits_per_s: Option<u64>,
    /// Second of the course in which each test began.
    #[serde(default)]
    pub began_s: Vec<u64>,
    /// The latest stages, tests and notices, oldest first.
    #[serde(default)]
    pub events: Vec<LiveEvent>,
}

/// Something that happened in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
pub struct LiveEvent {
    /// Seconds from the start of the program.
    pub after_s: u64,
    /// What happened, in words.
    pub what: String,
}

/// Seconds over which rates of pairs are averaged.
pub const MEAN_S: usize = 5;

/// Maximum number of nodes for which the document lists rates of pairs.
pub const MOST_IN_MATRIX: usize = 96;

/// The test that runs now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
pub struct LiveTest {
    /// `test`, `step` or `table`.
    #[serde(default)]
    pub kind: String,
    /// Number of the test, from 1.
    pub number: usize,
    /// Number of tests known so far; the judge can add more.
    pub of: usize,
    /// Pattern and phases, in words.
    pub what: String,
    /// Planned seconds of data, warm-up included; `null` if volume bounds the test.
    pub planned_s: Option<u64>,
    /// Seconds of data so far.
    pub passed_s: u64,
}
