//! The sheet, that is the judge's findings on a run: ports, uplinks, faults, and the figure to sign.

use serde::{Deserialize, Serialize};

use crate::plan::{NodeSpec, RunPlan};

use super::SwitchPort;

/// Verdict on a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
pub struct Verdict {
    /// The word.
    pub word: VerdictWord,
    /// Reason, as one sentence.
    pub reason: String,
}

/// Word of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
pub enum VerdictWord {
    /// Every judged port direction reached its floor.
    #[serde(rename = "PASS")]
    Pass,
    /// Something fell below its floor, and again when retested in isolation; or a port has the wrong speed or MTU.
    #[serde(rename = "FAIL")]
    Fail,
    /// The shortfall did not reproduce in isolation, or no test could decide it.
    #[serde(rename = "UNDECIDED")]
    Undecided,
    /// A host was too slow to fill its port.
    #[serde(rename = "HOST-LIMITED")]
    HostLimited,
    /// The run had no criteria.
    #[serde(rename = "NOT JUDGED")]
    NotJudged,
    /// Nothing can be judged: the run did not finish, or sent and received bytes disagree.
    #[serde(rename = "INVALID")]
    Invalid,
}

impl VerdictWord {
    /// True if it is a statement about the switch.
    pub fn is_judged(self) -> bool {
        !matches!(self, Self::NotJudged | Self::Invalid)
    }
}

/// The word as in the record.
impl std::fmt::Display for VerdictWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// Findings of the judge, port by port. Rates are payload in bits per second, one way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Source of the speeds.
    pub basis: Basis,
    /// Every data port of the run.
    pub ports: Vec<PortSheet>,
    /// Every known uplink, both directions.
    pub uplinks: Vec<UplinkSheet>,
    /// Faults, worst first.
    pub faults: Vec<FaultSheet>,
    /// Ports that differ from their order, or from all others. They were found before a byte flowed.
    #[serde(default)]
    pub order: Vec<String>,
    /// The figure to sign, if a test loaded both directions of a port at once.
    pub figure: Option<SignedFigure>,
    /// Cost of contention, if permutations and mesh had the same number of connections per port and no host was at its limit.
    pub contention: Option<Contention>,
    /// Indices of tests that do not count because they were repeated, each with the index of the repeat that counts.
    #[serde(default)]
    pub instead: Vec<(usize, usize)>,
    /// Further facts that a reader should know before signing.
    #[serde(default)]
    pub remarks: Vec<String>,
}

impl Sheet {
    /// Label of a port; empty if the sheet has no such port.
    pub(crate) fn label(&self, port: usize) -> &str {
        let port = self.ports.get(port);
        port.map_or("", |port| port.label.as_str())
    }

    /// Every loaded port direction: its port, the word for the direction, and its figures.
    pub(crate) fn directions(
        &self,
    ) -> impl Iterator<Item = (&PortSheet, &'static str, DirectionSheet)> {
        let ports = self.ports.iter();
        ports.flat_map(|port| {
            let both = port.directions().into_iter();
            both.filter_map(move |(word, one)| Some((port, word, one?)))
        })
    }

    /// Figures of a port direction; `None` for any other culprit, and for a direction that was not loaded.
    pub(crate) fn direction(&self, culprit: &Culprit) -> Option<DirectionSheet> {
        match culprit {
            Culprit::Send(port) => self.ports.get(*port)?.send,
            Culprit::Receive(port) => self.ports.get(*port)?.receive,
            _ => None,
        }
    }
}

impl PortSheet {
    /// The node, with the switch port of this rail.
    pub(crate) fn plugged(&self, plan: &RunPlan) -> Option<NodeSpec> {
        let mut node = plan.nodes.get(self.node)?.clone();
        if let Some(at) = &self.at {
            node.see(Some(&at.switch), Some(&at.port));
        }
        Some(node)
    }

    /// Both directions, each with its word; `None` for one that was not loaded.
    pub(crate) fn directions(&self) -> [(&'static str, Option<DirectionSheet>); 2] {
        [("send", self.send), ("receive", self.receive)]
    }
}

/// Source of speeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The user gave the speed of every port.
    Ordered,
    /// The link negotiated the speed of some ports.
    Negotiated,
    /// The speed of some ports is unknown.
    #[default]
    Unknown,
}

/// Findings on a data port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortSheet {
    /// Name in every report.
    pub label: String,
    /// Index of the first node of its host.
    pub node: usize,
    /// Number of the port among the host's data ports.
    pub rail: usize,
    /// Switch port that the host hears on this rail, if it has several and the plan names none. A node of the plan has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<SwitchPort>,
    /// Speed by which it is judged, on the wire.
    pub speed_bits_per_s: Option<u64>,
    /// Payload that this speed allows, with full segments one way and nothing back.
    pub ceiling_bits_per_s: Option<f64>,
    /// Direction out of the host.
    pub send: Option<DirectionSheet>,
    /// Direction into the host.
    pub receive: Option<DirectionSheet>,
}

/// Findings on one direction of a port or uplink, over all tests that loaded it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DirectionSheet {
    /// Word for this direction.
    pub word: VerdictWord,
    /// Least share of the expected rate, in tests that should have filled it.
    pub share: Option<f64>,
    /// Rate in that test.
    pub rate_bits_per_s: f64,
    /// Expected rate in that test.
    pub expected_bits_per_s: Option<f64>,
    /// Index of that test.
    pub test: usize,
    /// Highest rate in any test.
    pub most_bits_per_s: f64,
    /// Part of that test's window to which the rate refers; `None` for the whole window.
    pub stretch: Option<StretchSheet>,
    /// Separate floor, if it is compared with other ports of its speed; `None` if the floor of the run applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// Lower figure of a direction with PASS, in a test in which something else limited it; `None` if there is no such test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitedSheet>,
}

impl DirectionSheet {
    /// Rate, expected rate and test of the lowest figure under load. Where only a retest in isolation shows that the direction is sound, that figure
    /// is the limited one.
    pub(crate) fn under_load(&self) -> (f64, Option<f64>, usize) {
        match self.limited.filter(|one| one.always) {
            Some(one) => (one.rate_bits_per_s, Some(one.expected_bits_per_s), one.test),
            None => (self.rate_bits_per_s, self.expected_bits_per_s, self.test),
        }
    }

    /// Share of the expected rate under load; `None` if no test should have filled the direction.
    pub(crate) fn share_under_load(&self) -> Option<f64> {
        let limited = self.limited.filter(|one| one.always);
        limited.map_or(self.share, |one| Some(one.share()))
    }
}

/// Figure of a direction that is sound, in a test in which something else limited it, such as the whole fabric or a pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LimitedSheet {
    /// Rate in that test.
    pub rate_bits_per_s: f64,
    /// Expected rate in that test.
    pub expected_bits_per_s: f64,
    /// Index of that test.
    pub test: usize,
    /// True if every test under load that judges the direction was limited, so that only a retest in isolation shows that it is sound.
    pub always: bool,
}

impl LimitedSheet {
    /// Share of the expected rate.
    pub(crate) fn share(self) -> f64 {
        self.rate_bits_per_s / self.expected_bits_per_s
    }
}

/// Part of a test's window with a lower rate than the whole window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StretchSheet {
    /// Index of the test.
    pub test: usize,
    /// Seconds from the start of the test to the start of the stretch.
    pub from_s: u64,
    /// Length in seconds.
    pub seconds: u64,
    /// Mean rate in the whole window.
    pub mean_bits_per_s: f64,
}

/// Findings on the uplink of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UplinkSheet {
    /// Name of the group.
    pub group: String,
    /// Direction out of the group.
    pub up: Option<DirectionSheet>,
    /// Direction into the group.
    pub down: Option<DirectionSheet>,
}

/// Possible place of a fault. Numbers are those of ports and uplinks in the sheet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Culprit {
    /// A port, out of its host.
    Send(usize),
    /// A port, into its host.
    Receive(usize),
    /// The path from one port to another.
    Pair(usize, usize),
    /// An uplink, out of its group.
    Up(usize),
    /// An uplink, into its group.
    Down(usize),
    /// A port while both of its directions are loaded.
    BothWays(usize),
    /// The shared part of all links from these ports to those. If these are all ports, it is the fabric as a whole.
    Shared {
        /// Sending ports.
        from: Vec<usize>,
        /// Receiving ports.
        to: Vec<usize>,
    },
    /// The shared part of these pairs.
    Path(Vec<(usize, usize)>),
}

impl Culprit {
    /// True if several ports share it and none of them alone is at fault.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. } | Self::Path(_))
    }

    /// True if it is a declared uplink.
    pub fn is_uplink(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Down(_))
    }

    /// True if a link from port `from` to port `to` goes through it. The links of an uplink are not known here, so every link counts.
    pub fn has(&self, from: usize, to: usize) -> bool {
        match self {
            Self::Send(port) => *port == from,
            Self::Receive(port) => *port == to,
            Self::Pair(one, other) => (*one, *other) == (from, to),
            Self::Up(_) | Self::Down(_) => true,
            Self::BothWays(port) => *port == from || *port == to,
            Self::Shared {
                from: senders,
                to: receivers,
            } => senders.contains(&from) && receivers.contains(&to),
            Self::Path(pairs) => pairs.contains(&(from, to)),
        }
    }
}

/// Several links at once with no other load, to show how many of them a fault can carry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Number of links.
    pub links: usize,
    /// Payload of all links together.
    pub rate_bits_per_s: f64,
    /// Expected payload of all links together.
    pub expected_bits_per_s: f64,
    /// Index of the test.
    pub test: usize,
}

/// A fault with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultSheet {
    /// FAIL, UNDECIDED or HOST-LIMITED.
    pub word: VerdictWord,
    /// Place of the fault.
    pub culprit: Culprit,
    /// Other places that hosts cannot distinguish from it.
    #[serde(default)]
    pub or: Vec<Culprit>,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Share of the expected rate under load, of lost segments, or of broken frames.
    pub share: f64,
    /// Rate in that measurement, in bits per second.
    pub rate_bits_per_s: f64,
    /// Part of a test's window to which the rate refers; `None` for the whole window.
    pub stretch: Option<StretchSheet>,
    /// Isolated measurements that concern it.
    pub evidence: Vec<Evidence>,
    /// Number of tests under load in which it fell short, and number of tests that should have filled it.
    #[serde(default)]
    pub short_in: (usize, usize),
    /// Share of the expected rate when the load with its least share was repeated; `None` without a repeat.
    pub again: Option<f64>,
    /// Measurements of several of its links at once, fewest links first.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Reason why it is not FAIL although it was confirmed: devices between the switch and the host are not visible.
    pub condition: Option<String>,
    /// Sentences about it.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl FaultSheet {
    /// Isolated measurements of the culprit itself. Leaves out the other direction, and its partners with each other.
    pub fn direct_evidence(&self) -> impl Iterator<Item = &Evidence> {
        let all = self.evidence.iter();
        all.filter(|one| self.culprit.has(one.from, one.to))
    }
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It carries less than it should.
    Rate,
    /// It loses segments.
    Loss,
    /// Frames arrive broken: their checksums are wrong, or forward error correction gives them up.
    Broken,
    /// A congested port that its traffic does not go to slows it down.
    HeadOfLine,
}

impl FaultKind {
    /// True if its figure is the share of what was lost or broken, false if it is a rate.
    pub(crate) fn is_of_losses(self) -> bool {
        matches!(self, Self::Loss | Self::Broken)
    }
}

/// One isolated measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Number of the sending port.
    pub from: usize,
    /// Number of the receiving port.
    pub to: usize,
    /// Received payload.
    pub rate_bits_per_s: f64,
    /// Expected payload.
    pub expected_bits_per_s: f64,
    /// Share of lost segments.
    pub loss: f64,
    /// Number of links measured at the same time; 1 if the link was alone.
    pub width: usize,
    /// Index of the test.
    pub test: usize,
}

/// Rate of a port with all others at once, compared with its rate with one partner at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// Number of the port with the highest cost.
    pub port: usize,
    /// True if the port sent, false if it received.
    pub sends: bool,
    /// Mean rate over all repeats of the mesh, divided by the mean rate over all permutations.
    pub share: f64,
}

/// Rate of the port direction with the lowest share of its ceiling while both directions were loaded, over all repeats and permutations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SignedFigure {
    /// Number of the port.
    pub port: usize,
    /// True if the port sent, false if it received.
    pub sends: bool,
    /// Payload rate.
    pub rate_bits_per_s: f64,
    /// Payload rate that the port can carry with the acknowledgements that were counted.
    pub ceiling_bits_per_s: f64,
    /// The payload rate on the wire: with headers, gaps between frames, and acknowledgements for the opposite direction.
    pub wire_bits_per_s: Option<f64>,
    /// Index of the test.
    pub test: usize,
}
