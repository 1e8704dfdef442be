//! Results of a latency plan.

use serde::{Deserialize, Serialize};

use super::RankRecord;

/// Results of a latency plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// True if all pairs were measured.
    pub complete: bool,
    /// The ranks, one for each node.
    pub ranks: Vec<RankRecord>,
    /// Names of the fabric's hosts without a node. Their pairs are not measured.
    pub absent: Vec<String>,
    /// Facts of the plan.
    pub planned: Planned,
    /// Start of the first round, in milliseconds since 1970.
    pub started_ms: u64,
    /// Time from the first round to the last one, in nanoseconds, without repeated measurements.
    pub span_ns: u64,
    /// Planned pairs, round by round.
    pub pairs: Vec<PairLatency>,
    /// Extra pairs that show how accurate predictions are.
    pub checks: Vec<PairLatency>,
    /// Pairs through cables that looked slow, measured again, each alone.
    pub looks: Vec<PairLatency>,
    /// Every cable, or direction of one, that pairs go through.
    pub cables: Vec<CableLatency>,
    /// Known combinations of cables whose own values are unknown.
    pub together: Vec<Together>,
    /// Noise of the pairs: standard deviation of the measured time divided by the sum of its cables' values, from the median. `None` without more
    /// pairs than unknowns.
    pub sigma: Option<f64>,
    /// Slow cables.
    pub slow: Vec<SlowCable>,
    /// Name of the baseline run. `None` if cables were compared with others of their class.
    pub baseline: Option<String>,
    /// Names of the classes whose cables were compared.
    pub judged: Vec<String>,
    /// Classes whose cables could not be compared, with the reason.
    pub undecidable: Vec<String>,
    /// Pairs that no values of cables explain, as one sentence.
    pub misfit: Option<String>,
}

/// Facts of a latency plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Name of the fabric.
    pub fabric: String,
    /// Strategy that chose the pairs.
    pub strategy: String,
    /// True if each direction of a cable has its own value.
    pub directed: bool,
    /// Number of hosts that take part.
    pub hosts: usize,
    /// Number of cables in the fabric.
    pub cables: usize,
    /// Number of columns that at least one pair goes through.
    pub used: usize,
    /// Matrix rank of all pairs.
    pub rank: usize,
    /// Reason why that rank is exact.
    pub proof: String,
    /// Number of pairs.
    pub pairs: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Least number of rounds that a basis can have, and the reason.
    pub bound: Option<(usize, String)>,
    /// Number of planned pairs that were left out because hosts are missing.
    pub left_out: usize,
    /// Number of pairs that were added in their place.
    pub added: usize,
}

impl Planned {
    /// Number of pairs of its hosts, each counted once.
    pub fn pairs_of_hosts(&self) -> usize {
        self.hosts.saturating_mul(self.hosts.saturating_sub(1)) / 2
    }
}

/// Round trip of a pair of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairLatency {
    /// Number of the round, from 0.
    pub round: usize,
    /// Number in the fabric of the host that sent first.
    pub from: u32,
    /// Number in the fabric of its partner.
    pub to: u32,
    /// Shortest round trip, in seconds.
    pub least_s: f64,
    /// Median round trip, in seconds. All calculations use it.
    pub median_s: f64,
    /// Round trip that follows from the values of cables, in seconds; `None` if these were not calculated.
    pub predicted_s: Option<f64>,
}

/// One cable, or one direction of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CableLatency {
    /// Number of the column.
    pub column: u32,
    /// Name of the column.
    pub name: String,
    /// Class of the cable.
    pub class: String,
    /// One-way latency in seconds, with everything that its two ends add. One of many possible values if it is not identified; `None` if no values
    /// were calculated.
    pub value_s: Option<f64>,
    /// True if the pairs determine the value of this column alone.
    pub identified: bool,
    /// Standard error of the value, in seconds; `None` if unknown.
    pub error_s: Option<f64>,
    /// Number of planned pairs that go through it.
    pub pairs: usize,
}

/// Cables that only have a value together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// Names of columns, each with its coefficient.
    pub terms: Vec<(String, f64)>,
    /// Value of the combination, in seconds.
    pub value_s: f64,
    /// Standard error of that value, in seconds; `None` if the noise is unknown.
    pub error_s: Option<f64>,
}

/// A cable that is slower than it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowCable {
    /// Name of the column.
    pub name: String,
    /// Other columns that the measured pairs cannot distinguish from it.
    pub or: Vec<String>,
    /// Deviation from the expected value, in standard deviations of the noise.
    pub score: f64,
    /// Extra latency, as a fraction of the expected one.
    pub effect: f64,
    /// Expected one-way latency, in seconds.
    pub usual_s: f64,
    /// Number of pairs that go through it.
    pub pairs: usize,
    /// True if it was slow again when its pairs were measured alone.
    pub confirmed: bool,
}

impl SlowCable {
    /// Its name, with those that cannot be distinguished from it.
    pub(crate) fn names(&self) -> String {
        let own = std::slice::from_ref(&self.name);
        [own, &self.or].concat().join(" or ")
    }
}
