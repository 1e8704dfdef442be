//! Results of an acceptance: the pipeline tests of a switch.

use serde::{Deserialize, Serialize};

use crate::plan::lanes::Lane;
use crate::units::gbit_per_s;

use super::{InterfaceCounters, LinkRecord, LinkSums, RoleCpu};

/// Results of an acceptance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AcceptanceRecord {
    /// Results, test by test.
    pub tests: Vec<TestRecord>,
}

/// Results of one test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestRecord {
    /// Index in the plan.
    pub test: usize,
    /// True if every node finished and reported. Lost nodes do not count.
    pub complete: bool,
    /// Time until data may flow, in nanoseconds: from the first connection to a host, or, for a later test, from its distribution to the nodes.
    /// `None` if the test did not get that far.
    pub set_up_ns: Option<u64>,
    /// Planned length of the window of a timed run, in nanoseconds.
    pub window_ns: Option<u64>,
    /// Maximum offset between the nodes' windows, in nanoseconds, with the uncertainty of the clocks.
    pub skew_ns: Option<u64>,
    /// Time from the first node's start to the last node's end, in nanoseconds.
    pub span_ns: Option<u64>,
    /// Results of each node, in the plan's order; `None` if a node did not report.
    pub nodes: Vec<Option<NodeRecord>>,
    /// Results of every link; if there are `sums`, only of the slowest, at most 64.
    pub links: Vec<LinkRecord>,
    /// Sums over the links of a test that has too many to keep each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<LinkSums>,
    /// Result of the check that sent, received and relayed bytes agree.
    pub conservation: Conservation,
    /// Contradictions between the counters of interfaces and the payload.
    #[serde(default)]
    pub wires: Vec<WireFinding>,
    /// Seconds from the start until the run became steady: then five one-second sums of every port stayed within 2 % without a trend.
    pub steady_from_s: Option<u64>,
    /// Seconds that each entry of `seconds` covers: 1, or a power of two in a long run.
    #[serde(default = "one")]
    pub stretch_s: u64,
    /// Sums of each stretch.
    pub seconds: Vec<Second>,
    /// Series of the slowest links between hosts, or between nodes if all are on one host. At most 64.
    #[serde(default)]
    pub worst_links: Vec<LinkSeries>,
    /// Clock of each node compared with that of the launching side.
    #[serde(default)]
    pub clocks: Vec<ClockRecord>,
}

fn one() -> u64 {
    1
}

/// Received payload of a link, stretch by stretch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSeries {
    /// Lane of the link.
    pub lane: Lane,
    /// Seconds that each figure covers.
    pub stretch_s: u64,
    /// Payload in bytes.
    pub bytes: Vec<u64>,
}

/// A node's monotonic clock minus that of the launching side, measured from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// Difference before the start, in nanoseconds.
    pub before_ns: i64,
    /// Difference at the end, in nanoseconds.
    pub after_ns: i64,
    /// Maximum error of each difference, in nanoseconds.
    pub uncertainty_ns: u64,
    /// Time from the first measurement to the last, in nanoseconds.
    pub span_ns: u64,
    /// Number of measurements.
    pub measured: u64,
}

impl ClockRecord {
    /// Size of the drift against the launching side, in parts per million. `None` if it is within the uncertainty.
    pub fn drift_ppm(&self) -> Option<f64> {
        let moved = self.after_ns.abs_diff(self.before_ns);
        let known = moved > self.uncertainty_ns.saturating_mul(2) && self.span_ns > 0;
        known.then(|| moved as f64 / self.span_ns as f64 * 1e6)
    }
}

/// Sums over one second of the live display, or over a longer stretch in the record of a long run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, in nanoseconds since the start.
    pub at_ns: u64,
    /// Bytes received from other hosts, per port: node by node, rail by rail.
    pub received_bytes: Vec<u64>,
    /// Bytes sent to other hosts, per port.
    #[serde(default)]
    pub sent_bytes: Vec<u64>,
    /// Bytes received from other nodes of the same host, per node.
    pub same_host_bytes: Vec<u64>,
    /// Bytes received from the node itself, per node.
    pub own_bytes: Vec<u64>,
}

/// Results of one node. Rates are payload divided by the node's own interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Time from ringing phase 0 to the ring of the last phase, in nanoseconds.
    pub ring_to_ring_ns: Option<u64>,
    /// Length in nanoseconds of the interval that the figures below cover: the window, or the whole volume run.
    pub interval_ns: u64,
    /// Payload sent to other hosts, in bytes.
    pub sent_bytes: u64,
    /// Payload received from other hosts, in bytes.
    pub received_bytes: u64,
    /// Payload that stayed on the host, in bytes.
    pub same_host_bytes: u64,
    /// Segments retransmitted in the interval, on links to other hosts.
    pub retransmits: u64,
    /// CPU time by role in the interval.
    pub cpu: RoleCpu,
    /// Time in which processes that serve links were ready but did not run, summed over all of them, in nanoseconds.
    #[serde(default)]
    pub run_delay_ns: u64,
    /// Load of the busiest core, 0 to 1.
    pub busiest_core: Option<f64>,
    /// The busiest of the cores that served links: its load, 0 to 1, and the fraction of that load which went to interrupts and packets.
    pub serving_core: Option<(f64, f64)>,
    /// Counters of the host's interfaces over the whole run, from before the first block to after the last.
    pub interfaces: Vec<(String, InterfaceCounters)>,
    /// Packets that the host's processors dropped over the whole run because their backlog was full.
    #[serde(default)]
    pub backlog_drops: u64,
    /// Connections closed because they were no links of this run.
    pub strangers: u64,
}

impl TestRecord {
    /// Payload rate of a link in Gbit/s. In a timed run the divisor is the receiver's own interval. In a volume run it is the time until the last
    /// link finished, the same for all links, since rates over different times must not be added.
    pub fn rate_of(&self, link: &LinkRecord) -> f64 {
        match (self.window_ns, self.span_ns) {
            (Some(_), _) | (None, None) => gbit_per_s(link.interval_bytes, link.interval_ns),
            (None, Some(span)) => gbit_per_s(link.received_bytes, span),
        }
    }

    /// Every link; none if the record keeps only the slowest, which stand for no others.
    pub fn every_link(&self) -> &[LinkRecord] {
        match self.sums {
            Some(_) => &[],
            None => &self.links,
        }
    }

    /// Number of links between hosts.
    pub fn crossing_links(&self) -> usize {
        match &self.sums {
            Some(sums) if sums.crosses_switch => sums.total(|port| port.links),
            Some(_) => 0,
            None => {
                let links = self.links.iter();
                links.filter(|link| link.crosses_switch).count()
            }
        }
    }

    /// True if the test lasted until a link, or with sums a node, counted for an interval.
    pub fn has_measured(&self) -> bool {
        let mut nodes = self.nodes.iter().flatten();
        match self.sums {
            Some(_) => nodes.any(|node| node.interval_ns > 0),
            None => self.links.iter().any(|link| link.interval_ns > 0),
        }
    }

    /// True if a link connects two hosts.
    pub fn crosses_switch(&self) -> bool {
        match &self.sums {
            Some(sums) => sums.crosses_switch,
            None => self.links.iter().any(|link| link.crosses_switch),
        }
    }
}

/// Contradiction between the counters of a host's interface and the payload of a rail, over the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFinding {
    /// Label of the host's first node.
    pub node: String,
    /// Interface that has the rail's address.
    pub interface: String,
    /// Payload of the rail in that direction, in bytes.
    pub payload_bytes: u64,
    /// Bytes that the interface counted in that direction, headers included.
    pub counted_bytes: u64,
    /// Kind of the contradiction.
    pub kind: WireKind,
}

/// Kind of contradiction between payload and interface counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireKind {
    /// Payload left by another interface.
    WrongRoute {
        /// The interface that carried it, if its counters show it.
        by: Option<String>,
    },
    /// Payload arrived at another interface: the host answers ARP for this address there.
    ArpFlux {
        /// The interface that received it, if its counters show it.
        by: Option<String>,
    },
    /// More than one percent and more than 2 MiB of the sent bytes did not belong to the run.
    ForeignSent {
        /// Bytes that did not belong to the run.
        bytes: u64,
    },
    /// More than one percent and more than 2 MiB of the received bytes did not belong to the run.
    ForeignReceived {
        /// Bytes that did not belong to the run.
        bytes: u64,
    },
}

/// Check that sent, received and relayed bytes agree, over the whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conservation {
    /// Number of links whose sent, received and relayed bytes agree.
    pub agreeing: usize,
    /// Number of links to or from a lost node.
    #[serde(default)]
    pub unchecked: usize,
    /// Number of all links.
    pub links: usize,
    /// Links whose bytes disagree, one sentence each, at most 20.
    pub faults: Vec<String>,
}
