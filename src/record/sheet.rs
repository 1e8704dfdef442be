//! What the judge says of a run: ports, uplinks, faults, and the figure to sign.

use serde::{Deserialize, Serialize};

/// What may be said of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The word.
    pub word: VerdictWord,
    /// The sentence why.
    pub reason: String,
}

/// The word of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerdictWord {
    /// Everything that was judged reached its floor.
    #[serde(rename = "PASS")]
    Pass,
    /// Something fell short, and again when it was measured by itself; or a port is not as ordered.
    #[serde(rename = "FAIL")]
    Fail,
    /// Something fell short, and measuring it again did not tell what is at fault.
    #[serde(rename = "UNDECIDED")]
    Undecided,
    /// A host could not go on, so that its ports were not loaded.
    #[serde(rename = "HOST-LIMITED")]
    HostLimited,
    /// No criteria were given.
    #[serde(rename = "NOT JUDGED")]
    NotJudged,
    /// Nothing to judge: the run did not come to its end, or its bytes do not add up.
    #[serde(rename = "INVALID")]
    Invalid,
}

impl VerdictWord {
    /// Whether it says something of the switch.
    pub fn is_judged(self) -> bool {
        !matches!(self, Self::NotJudged | Self::Invalid)
    }
}

impl std::fmt::Display for VerdictWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Undecided => "UNDECIDED",
            Self::HostLimited => "HOST-LIMITED",
            Self::NotJudged => "NOT JUDGED",
            Self::Invalid => "INVALID",
        })
    }
}

/// What the judge says, port by port. Rates are payload in bits per second, one way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// What speeds were judged by.
    pub basis: Basis,
    /// Every data port of the run.
    pub ports: Vec<PortSheet>,
    /// Every uplink that is known, both directions.
    pub uplinks: Vec<UplinkSheet>,
    /// What is at fault, worst first.
    pub faults: Vec<FaultSheet>,
    /// Ports that are not as ordered, or differ from all others; found before a byte flowed.
    #[serde(default)]
    pub order: Vec<String>,
    /// The figure to sign, where every port was loaded in both directions at once.
    pub figure: Option<SignedFigure>,
    /// What contention costs, where permutations and mesh had as many connections per port and no host was at its limit.
    #[serde(default)]
    pub contention: Option<Contention>,
    /// Tests that were repeated as they were and do not count themselves, each with the repeat that counts.
    #[serde(default)]
    pub instead: Vec<(usize, usize)>,
    /// What else a reader should know before signing.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// Where speeds come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Given with the run, for every port.
    Ordered,
    /// Of some ports as the link negotiated it.
    Negotiated,
    /// Of some ports nothing is known.
    #[default]
    Unknown,
}

/// A data port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortSheet {
    /// Its name in every report.
    pub label: String,
    /// Index of the first node of its host.
    pub node: usize,
    /// Which of the host's data ports.
    pub rail: usize,
    /// Speed it is judged by, on the wire.
    pub speed_bits_per_s: Option<u64>,
    /// Payload that this speed allows, full segments one way and nothing back.
    pub ceiling_bits_per_s: Option<f64>,
    /// Out of the host.
    pub send: Option<DirectionSheet>,
    /// Into the host.
    pub receive: Option<DirectionSheet>,
}

/// A direction of a port or uplink over all tests that loaded it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DirectionSheet {
    /// What is said of it.
    pub word: VerdictWord,
    /// The least share of what was to be expected, where it should have been full.
    pub share: Option<f64>,
    /// What passed then.
    pub rate_bits_per_s: f64,
    /// What was to be expected then.
    pub expected_bits_per_s: Option<f64>,
    /// Index of that test.
    pub test: usize,
    /// The most that passed in any test.
    pub most_bits_per_s: f64,
    /// The part of that test's window in which it passed; the whole of it if none.
    #[serde(default)]
    pub stretch: Option<StretchSheet>,
    /// Its own floor, if it is judged by the other ports of its speed; none if by the floor of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
}

/// Part of a test's window, in which less passed than in the whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StretchSheet {
    /// Index of the test.
    pub test: usize,
    /// Seconds from the start of the test to that of the stretch.
    pub from_s: u64,
    /// How long it is.
    pub seconds: u64,
    /// What passed in the whole window.
    pub mean_bits_per_s: f64,
}

/// An uplink of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UplinkSheet {
    /// Name of the group.
    pub group: String,
    /// Out of it.
    pub up: Option<DirectionSheet>,
    /// Into it.
    pub down: Option<DirectionSheet>,
}

/// Something that can be at fault, by the numbers of ports and uplinks in the sheet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Culprit {
    /// A port, out of its host.
    Send(usize),
    /// A port, into its host.
    Receive(usize),
    /// What goes from one port to another.
    Pair(usize, usize),
    /// An uplink, out of its group.
    Up(usize),
    /// An uplink, into its group.
    Down(usize),
    /// A port while both of its directions are loaded.
    BothWays(usize),
    /// What the links from these ports to those share; the fabric as a whole if these are all.
    Shared {
        /// Ports that send.
        from: Vec<usize>,
        /// Ports that receive.
        to: Vec<usize>,
    },
    /// What these pairs share.
    Path(Vec<(usize, usize)>),
}

impl Culprit {
    /// Whether several ports share it, none of which is at fault by itself.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. } | Self::Path(_))
    }

    /// Whether it is an uplink that was declared.
    pub fn is_uplink(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Down(_))
    }

    /// Whether a link from port to port goes through it; an uplink's are not known here, and all may.
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

/// Several links at once with nothing else, to see how many of them a fault bears.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// How many.
    pub links: usize,
    /// Payload of all.
    pub rate_bits_per_s: f64,
    /// What was to be expected of all.
    pub expected_bits_per_s: f64,
    /// Index of the test.
    pub test: usize,
}

/// A fault, with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultSheet {
    /// FAIL, UNDECIDED or HOST-LIMITED.
    pub word: VerdictWord,
    /// What it is.
    pub culprit: Culprit,
    /// What hosts cannot tell apart from it.
    #[serde(default)]
    pub or: Vec<Culprit>,
    /// What is wrong with it.
    pub kind: FaultKind,
    /// Share of what was to be expected under load, or of segments lost, or of frames that came broken.
    pub share: f64,
    /// What passed then, in bits per second.
    pub rate_bits_per_s: f64,
    /// The part of a test's window in which it passed; the whole of it if none.
    #[serde(default)]
    pub stretch: Option<StretchSheet>,
    /// Measurements by themselves that concern it.
    pub evidence: Vec<Evidence>,
    /// In how many tests under load it fell short, and how many should have filled it.
    #[serde(default)]
    pub short_in: (usize, usize),
    /// Share of what was to be expected when the load was repeated in which it fell short, if that was done.
    #[serde(default)]
    pub again: Option<f64>,
    /// With how many links at once it still carried its due, fewest first.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Why it is not FAIL though it was confirmed: what stands between the switch and the host cannot be seen.
    #[serde(default)]
    pub condition: Option<String>,
    /// Sentences that go with it.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl FaultSheet {
    /// Measurements by themselves of what is blamed: not of the other direction, nor of its partners with each other.
    pub fn direct_evidence(&self) -> impl Iterator<Item = &Evidence> {
        let all = self.evidence.iter();
        all.filter(|one| self.culprit.has(one.from, one.to))
    }
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It carries less than it should.
    Rate,
    /// It loses segments.
    Loss,
    /// Frames come broken: their check sums are wrong, or forward error correction gives them up.
    Broken,
    /// It is slowed down by a congested port that it does not go to.
    HeadOfLine,
}

/// One isolated measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Number of the port that sent.
    pub from: usize,
    /// Number of the port that received.
    pub to: usize,
    /// Payload received.
    pub rate_bits_per_s: f64,
    /// What was to be expected.
    pub expected_bits_per_s: f64,
    /// Share of segments that were lost.
    pub loss: f64,
    /// Links that were measured at the same time; alone if one.
    pub width: usize,
    /// Index of the test.
    pub test: usize,
}

/// What a port carries with all others at once, against what it carries with one partner at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// Number of the port that it costs most.
    pub port: usize,
    /// It sent; else it received.
    pub sends: bool,
    /// The least in the mesh, of the mean over all permutations.
    pub share: f64,
}

/// The lowest port direction's received payload rate while both directions were loaded, over all repeats and permutations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SignedFigure {
    /// Number of the port.
    pub port: usize,
    /// It sent; else it received.
    pub sends: bool,
    /// Payload.
    pub rate_bits_per_s: f64,
    /// What the port can carry with the acknowledgements that were counted.
    pub ceiling_bits_per_s: f64,
    /// What that is on the wire: headers, gaps between frames, and acknowledgements for what came the other way.
    #[serde(default)]
    pub wire_bits_per_s: Option<f64>,
    /// Index of the test.
    pub test: usize,
}
