//! What an outside process sees of the runs on a host: counters as they stood, nothing divided yet.

use serde::{Deserialize, Serialize};

use crate::plan::Test;
use crate::plan::lanes::{self, Lane};

use super::{EndCount, EndRole};

/// What a status segment says of its run and node in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Name of the run.
    pub token: String,
    /// Who started it, as `user@host`.
    pub by: String,
    /// When, in milliseconds since 1970, by the launching side's clock.
    pub started_ms: u64,
    /// Index of this node.
    pub node: usize,
    /// Labels of all nodes.
    pub labels: Vec<String>,
    /// For each node, whether it lives on this node's host.
    pub same_host: Vec<bool>,
    /// What is being done.
    pub test: Test,
}

impl Card {
    /// Whether its numbers fit each other, and its words are of a bearable length: it may come from anybody.
    pub fn is_sound(&self) -> bool {
        const LONGEST: usize = 300;
        const MOST_LINKS: usize = 1 << 20;
        self.node < self.labels.len()
            && self.same_host.len() == self.labels.len()
            && (2..=32).contains(&self.test.phases)
            && (1..=256).contains(&self.test.streams)
            && self.labels.len().saturating_mul(self.test.streams) <= MOST_LINKS
            && self
                .test
                .pattern
                .check(self.labels.len(), self.test.phases)
                .is_ok()
            && self.token.len() == 32
            && self.token.bytes().all(|byte| byte.is_ascii_hexdigit())
            && self.by.len() <= LONGEST
            && self.labels.iter().all(|label| label.len() <= LONGEST)
    }

    /// Label of this node.
    pub fn label(&self) -> &str {
        self.labels.get(self.node).map_or("", String::as_str)
    }

    /// Lanes of one boundary that begin or end at this node, in the order of their slots.
    pub fn lanes(&self, role: EndRole, boundary: usize) -> Vec<Lane> {
        let of = match role {
            EndRole::Sender => lanes::outgoing,
            EndRole::Receiver => lanes::incoming,
        };
        of(&self.test, self.labels.len(), boundary, self.node)
    }

    /// The nodes at the other ends of this node's links of a boundary, in the order of slots.
    pub fn peers(&self, role: EndRole) -> Vec<usize> {
        let lanes = self.lanes(role, 0).into_iter();
        lanes.map(|lane| lane.peer_of(self.node)).collect()
    }
}

/// All runs of a host at one instant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// Leftovers of killed runs that were removed before looking.
    pub swept: usize,
    /// The host's wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
    /// Nodes of runs.
    pub nodes: Vec<SeenNode>,
    /// Segments of runs that cannot be looked into.
    pub closed: Vec<ClosedSegment>,
}

impl Sighting {
    /// Drops what is not sound.
    pub fn keep_sound(&mut self) {
        self.nodes.retain(|node| node.card.is_sound());
    }
}

/// A node of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenNode {
    /// Which one.
    pub card: Card,
    /// Process id of its node status process; zero if it means nothing where it was seen.
    pub pid: i32,
    /// How far it is.
    pub state: SeenState,
    /// How long it is there.
    pub age_ns: u64,
    /// The host's monotonic clock.
    pub at_ns: u64,
    /// Payload sent to other hosts.
    pub sent_bytes: u64,
    /// Payload received from other hosts.
    pub received_bytes: u64,
    /// Payload received from nodes of its host, itself included.
    pub same_host_bytes: u64,
    /// Its link ends, if they were asked for.
    pub ends: Vec<SeenEnd>,
}

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeenState {
    /// Its node status process is stopped; the others may go on.
    Stopped,
    /// Processes are being made.
    Starting,
    /// Links are being made.
    Connecting,
    /// All links stand.
    Ready,
    /// Data flows.
    Running,
    /// Sources have ended, blocks are under way.
    Draining,
    /// Everything has arrived.
    Ending,
}

impl SeenState {
    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Ending => "ending",
        }
    }
}

/// A link end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenEnd {
    /// Which end.
    pub role: EndRole,
    /// Boundary.
    pub boundary: usize,
    /// Slot it empties or fills.
    pub slot: usize,
    /// Its counters.
    pub count: EndCount,
}

/// A segment that cannot be looked into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedSegment {
    /// Beginning of the token, by the segment's name.
    pub token: String,
    /// Node.
    pub node: usize,
    /// Whose it is.
    pub user: String,
    /// Why it cannot be looked into.
    pub why: String,
}

/// What came of asking a node status process to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Label of the node, or its number where that is all one sees.
    pub node: String,
    /// Why it could not be asked; none if it was.
    pub refused: Option<String>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;

    /// A node as a host would tell of it.
    pub(crate) fn seen(node: usize, labels: &[&str]) -> SeenNode {
        SeenNode {
            card: Card {
                token: "3f9a1c00112233445566778899aabbcc".to_owned(),
                by: "alice@login1".to_owned(),
                started_ms: 1_795_225_495_000,
                node,
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                same_host: (0..labels.len()).map(|other| other == node).collect(),
                test: test_of(2, 1),
            },
            pid: 77,
            state: SeenState::Running,
            age_ns: 125_000_000_000,
            at_ns: 1_000_000_000,
            sent_bytes: 0,
            received_bytes: 0,
            same_host_bytes: 0,
            ends: Vec::new(),
        }
    }

    #[test]
    fn what_a_host_says_must_fit() {
        let node = seen(1, &["n1", "n2"]);
        let mut unsound = seen(0, &["n1"]);
        unsound.card.node = 5;
        let mut sighting = Sighting {
            nodes: vec![node.clone(), unsound],
            ..Sighting::default()
        };
        sighting.keep_sound();
        assert_eq!(sighting.nodes, [node]);
    }

    #[test]
    fn a_card_is_sound_only_if_its_numbers_fit() {
        let good = seen(0, &["n1", "n2"]).card;
        assert!(good.is_sound());
        let spoil = |change: fn(&mut Card)| {
            let mut card = good.clone();
            change(&mut card);
            card.is_sound()
        };
        assert!(!spoil(|card| card.node = 2));
        assert!(!spoil(|card| card.same_host.clear()));
        assert!(!spoil(|card| card.test.phases = 1 << 40));
        assert!(!spoil(|card| card.test.streams = 0));
        assert!(!spoil(|card| card.token = "3f".to_owned()));
        assert!(!spoil(|card| card.by = "x".repeat(1000)));
    }
}
