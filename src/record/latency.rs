//! What a plan of latencies measured, and what followed from it.

use serde::{Deserialize, Serialize};

use super::RankRecord;

/// What came of a plan of latencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// Index among the jobs of the plan.
    pub job: usize,
    /// All was measured.
    pub complete: bool,
    /// The ranks, one for each node.
    pub ranks: Vec<RankRecord>,
    /// Names of the fabric's hosts that have no node: their pairs are not measured.
    pub absent: Vec<String>,
    /// What was planned.
    pub planned: Planned,
    /// Start of the first round, milliseconds since 1970.
    pub started_ms: u64,
    /// From the first round to the last one, in nanoseconds, without what was measured again.
    pub span_ns: u64,
    /// Planned pairs, round by round.
    pub pairs: Vec<PairLatency>,
    /// Pairs that were not planned, measured to see how close predictions come.
    pub checks: Vec<PairLatency>,
    /// Pairs through cables that looked slow, each once more by itself.
    pub looks: Vec<PairLatency>,
    /// Every cable, or direction of one, that pairs go through.
    pub cables: Vec<CableLatency>,
    /// What is known of cables that have no value of their own.
    pub together: Vec<Together>,
    /// How far pairs are from what the cables' values come to: standard deviation of the ratio, from the median; none where there are no more
    /// pairs than unknowns.
    pub sigma: Option<f64>,
    /// Slow cables.
    pub slow: Vec<SlowCable>,
    /// Run whose values were the measure; none if cables were compared with others of their class.
    pub baseline: Option<String>,
    /// Names of classes whose cables were compared.
    pub judged: Vec<String>,
    /// Classes of cables that could not be, and why.
    pub undecidable: Vec<String>,
    /// Pairs that no values of cables explain.
    pub misfit: Option<String>,
}

/// What was planned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Name of the fabric.
    pub fabric: String,
    /// How pairs were chosen.
    pub strategy: String,
    /// Directions have values of their own.
    pub directed: bool,
    /// Hosts that take part.
    pub hosts: usize,
    /// Cables of the fabric.
    pub cables: usize,
    /// Columns that some pair goes through.
    pub used: usize,
    /// Matrix rank of all pairs.
    pub rank: usize,
    /// Why that is exact.
    pub proof: String,
    /// Pairs.
    pub pairs: usize,
    /// Rounds.
    pub rounds: usize,
    /// Fewest rounds that a basis can have, and why.
    pub bound: Option<(usize, String)>,
    /// Pairs that were planned and left out, because hosts are missing.
    pub left_out: usize,
    /// Pairs that were added in their place.
    pub added: usize,
}

/// The round trip of a pair of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairLatency {
    /// Number of the round, from 0.
    pub round: usize,
    /// Number of the host in the fabric that sent first.
    pub from: u32,
    /// Its partner.
    pub to: u32,
    /// Shortest round trip, in seconds.
    pub least_s: f64,
    /// Median round trip, in seconds: what is calculated with.
    pub median_s: f64,
    /// What the values of cables come to, in seconds; none where they were not calculated.
    pub predicted_s: Option<f64>,
}

/// One cable, or one direction of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CableLatency {
    /// Number of the column.
    pub column: u32,
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// What it takes one way, in seconds, with all that its ends add; one of many possible values if it is not identified, none if nothing was
    /// calculated.
    pub value_s: Option<f64>,
    /// Whether the value follows from the pairs by itself.
    pub identified: bool,
    /// Standard error of the value, in seconds.
    pub error_s: Option<f64>,
    /// Planned pairs that go through it.
    pub pairs: usize,
}

/// Cables that only together have a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// Names of columns, and how often each counts.
    pub terms: Vec<(String, f64)>,
    /// What they come to, in seconds.
    pub value_s: f64,
    /// Standard error of that, in seconds; none where noise is not known.
    #[serde(default)]
    pub error_s: Option<f64>,
}

/// A cable that is slower than it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowCable {
    /// Its name.
    pub name: String,
    /// Others that no measured pair tells from it.
    pub or: Vec<String>,
    /// How far outside of what noise does, in standard deviations.
    pub score: f64,
    /// How much longer it takes, as a part of what it should.
    pub effect: f64,
    /// What it should take one way, in seconds.
    pub usual_s: f64,
    /// Pairs that say so.
    pub pairs: usize,
    /// It looked so again when its pairs were measured by themselves.
    pub confirmed: bool,
}
