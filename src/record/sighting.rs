//! Runs on a host as another process sees them: raw counters, nothing divided yet.

use serde::{Deserialize, Serialize};

use crate::plan::lanes::{self, Lane};
use crate::plan::{Peers, Test};

use super::{EndCount, EndRole};

/// Description of a run and its node in a status segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Name of the run.
    pub token: String,
    /// User who started it, as `user@host`.
    pub by: String,
    /// Start of the run by the launching side's clock, in milliseconds since 1970.
    pub started_ms: u64,
    /// Index of this node.
    pub node: usize,
    /// The nodes that it knows.
    pub peers: Peers,
    /// The test that runs now.
    pub test: Test,
}

impl Card {
    /// True if its numbers fit each other and its texts are not too long. Any user can write a card.
    pub fn is_sound(&self) -> bool {
        const LONGEST: usize = 300;
        const MOST_LINKS: usize = 1 << 20;
        self.peers.are_sound(self.node)
            && (2..=32).contains(&self.test.phases)
            && (1..=256).contains(&self.test.streams)
            && self.peers.nodes.saturating_mul(self.test.streams) <= MOST_LINKS
            && self
                .test
                .pattern
                .check(self.peers.nodes, self.test.phases)
                .is_ok()
            && self.token.len() == 32
            && self.token.bytes().all(|byte| byte.is_ascii_hexdigit())
            && self.by.len() <= LONGEST
            && self
                .peers
                .labels
                .iter()
                .all(|(_, label)| label.len() <= LONGEST)
    }

    /// Label of this node.
    pub fn label(&self) -> &str {
        self.peers.label(self.node)
    }

    /// Lanes of one boundary that begin (sender) or end (receiver) at this node, in the order of their slots.
    pub fn lanes(&self, role: EndRole, boundary: usize) -> Vec<Lane> {
        let of = match role {
            EndRole::Sender => lanes::outgoing,
            EndRole::Receiver => lanes::incoming,
        };
        of(&self.test, self.peers.nodes, boundary, self.node)
    }

    /// Nodes at the other ends of this node's links of a boundary, in the order of the slots.
    pub fn peers(&self, role: EndRole) -> Vec<usize> {
        let lanes = self.lanes(role, 0).into_iter();
        lanes.map(|lane| lane.peer_of(self.node)).collect()
    }
}

/// All runs of a host at one instant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// Number of leftovers of killed runs that were removed first.
    pub swept: usize,
    /// The host's wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
    /// Nodes of runs.
    pub nodes: Vec<SeenNode>,
    /// Segments of runs that could not be read.
    pub closed: Vec<ClosedSegment>,
}

impl Sighting {
    /// Drops nodes whose cards are not sound.
    pub fn keep_sound(&mut self) {
        self.nodes.retain(|node| node.card.is_sound());
    }
}

/// A node of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenNode {
    /// Description of the run and the node.
    pub card: Card,
    /// Process id of its node status process; 0 if the id has no meaning for the observer.
    pub pid: i32,
    /// State of the node.
    pub state: SeenState,
    /// Time since the node started, in nanoseconds.
    pub age_ns: u64,
    /// Time of observation by the host's monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// Payload sent to other hosts, in bytes.
    pub sent_bytes: u64,
    /// Payload received from other hosts, in bytes.
    pub received_bytes: u64,
    /// Payload received from nodes of the same host, the node itself included, in bytes.
    pub same_host_bytes: u64,
    /// Link ends of the node, if the observer requested them.
    pub ends: Vec<SeenEnd>,
}

/// State of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeenState {
    /// Its node status process is stopped; its other processes can still run.
    Stopped,
    /// The node starts its processes.
    Starting,
    /// The node connects its links.
    Connecting,
    /// All links are connected.
    Ready,
    /// Data flows.
    Running,
    /// Sources have ended, blocks are still under way.
    Draining,
    /// All data has arrived.
    Ending,
}

/// The word as in the document.
impl std::fmt::Display for SeenState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// A link end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenEnd {
    /// Role of the end.
    pub role: EndRole,
    /// Boundary.
    pub boundary: usize,
    /// Slot that it empties or fills.
    pub slot: usize,
    /// Its counters.
    pub count: EndCount,
}

/// A segment that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedSegment {
    /// Beginning of the token, from the segment's name.
    pub token: String,
    /// Index of the node.
    pub node: usize,
    /// Owner of the segment.
    pub user: String,
    /// Reason why it could not be read.
    pub why: String,
}

/// Result of asking a node status process to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Label of the node, or its number if the label is not visible.
    pub node: String,
    /// Reason why the process could not be asked; `None` if it was asked.
    pub refused: Option<String>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;

    /// A node as a host would report it.
    pub(crate) fn seen(node: usize, labels: &[&str]) -> SeenNode {
        SeenNode {
            card: Card {
                token: "3f9a1c00112233445566778899aabbcc".to_owned(),
                by: "alice@login1".to_owned(),
                started_ms: 1_795_225_495_000,
                node,
                peers: Peers {
                    nodes: labels.len(),
                    on_host: 1,
                    labels: (0..)
                        .zip(labels.iter().map(|label| (*label).to_owned()))
                        .collect(),
                    same_host: vec![node],
                },
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
        assert!(!spoil(|card| card.peers.same_host.clear()));
        assert!(!spoil(|card| card.peers.nodes = 1 << 40));
        assert!(!spoil(|card| card.test.phases = 1 << 40));
        assert!(!spoil(|card| card.test.streams = 0));
        assert!(!spoil(|card| card.token = "3f".to_owned()));
        assert!(!spoil(|card| card.by = "x".repeat(1000)));
    }
}
