//! Patterns: which node sends to which, the same at every boundary. Pure sets of links.
//!
//! Read next: [`super::lanes`] for the slots and streams of these links.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Set of links between nodes. Nodes are numbered in the order in which the user named them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Every node to every node, itself included: the pipeline's original pattern.
    AllToAll,
    /// Every node to every other node.
    Mesh,
    /// Node `i` to node `i + K`, modulo the number of nodes: a permutation. Each node sends to one node and receives from one. `K` = 1 is the ring.
    Shift(usize),
    /// Every node of the first half to every node of the second half.
    Bisection {
        /// True if the second half also sends to the first.
        both: bool,
    },
    /// Nodes 0 and 1, 2 and 3 and so on, both ways. With an odd number of nodes the last one is idle.
    Pairs,
    /// The `K` nodes after the first one, all to the first one.
    Incast(usize),
    /// The first node to each of the `K` nodes after it.
    Outcast(usize),
    /// Head-of-line blocking: node 0 sends to nodes 2 and 3 at half of its rate each, node 1 sends to node 3 at full rate. The load offered to
    /// node 3 is one and a half times its capacity. The traffic from 0 to 2 must not suffer (RFC 2889, 5.5).
    Hol,
    /// These pairs, in ascending order and each of them once.
    Links(Vec<(usize, usize)>),
}

/// Reason why a pattern cannot run, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The run has fewer nodes than the pattern needs.
    #[error("--pattern {pattern} needs at least {needed} nodes; there {} {nodes}", if *.nodes == 1 { "is" } else { "are" })]
    Nodes {
        /// Name of the pattern.
        pattern: String,
        /// Least number of nodes for it.
        needed: usize,
        /// Number of nodes of the run.
        nodes: usize,
    },
    /// A shift by 0, or by the number of nodes or more.
    #[error("--pattern shift:{by}: from 1 to {}, one less than the number of nodes", .nodes.saturating_sub(1))]
    Shift {
        /// Requested shift.
        by: usize,
        /// Number of nodes of the run.
        nodes: usize,
    },
    /// No node would send.
    #[error("--pattern {0}: at least 1 node must send")]
    Nobody(String),
    /// A relay would have no block to pass on, or no link to pass it on to.
    #[error(
        "--pattern {0}: a node sends on more or fewer links than it receives on, so it cannot relay (use --phases 2)"
    )]
    Uneven(String),
    /// Pairs that are out of order, or that name nodes outside of the run.
    #[error("a list of links must name nodes of the run, each pair once and in order")]
    Links,
}

impl Pattern {
    /// Permutation in which each node sends to its neighbour.
    pub const RING: Self = Self::Shift(1);

    /// Nodes that `node` sends to, in ascending order.
    pub fn targets(&self, nodes: usize, node: usize) -> Vec<usize> {
        match self {
            Self::AllToAll => (0..nodes).collect(),
            Self::Mesh => (0..nodes).filter(|other| *other != node).collect(),
            Self::Shift(by) => vec![(node + by % nodes) % nodes],
            Self::Bisection { both } => match (node < nodes / 2, both) {
                (true, _) => (nodes / 2..nodes).collect(),
                (false, true) => (0..nodes / 2).collect(),
                (false, false) => Vec::new(),
            },
            Self::Pairs => partner(nodes, node).into_iter().collect(),
            Self::Incast(senders) => match (1..=*senders).contains(&node) {
                true => vec![0],
                false => Vec::new(),
            },
            Self::Outcast(receivers) => match node {
                0 => (1..=*receivers).collect(),
                _ => Vec::new(),
            },
            Self::Hol => targets(&HOL, node),
            Self::Links(links) => targets(links, node),
        }
    }

    /// Nodes that send to `node`, in ascending order.
    pub fn sources(&self, nodes: usize, node: usize) -> Vec<usize> {
        match self {
            Self::AllToAll | Self::Mesh | Self::Pairs | Self::Bisection { both: true } => {
                self.targets(nodes, node)
            }
            Self::Shift(by) => vec![(node + nodes - by % nodes) % nodes],
            Self::Bisection { both: false } => match node < nodes / 2 {
                true => Vec::new(),
                false => (0..nodes / 2).collect(),
            },
            Self::Incast(senders) => Self::Outcast(*senders).targets(nodes, node),
            Self::Outcast(receivers) => Self::Incast(*receivers).targets(nodes, node),
            Self::Hol => sources(&HOL, node),
            Self::Links(links) => sources(links, node),
        }
    }

    /// For each node, those that it sends to or receives from and the node itself, in ascending order.
    pub fn peers(&self, nodes: usize) -> Vec<Vec<usize>> {
        let mut peers: Vec<Vec<usize>> = (0..nodes).map(|node| vec![node]).collect();
        for from in 0..nodes {
            for to in self.targets(nodes, from) {
                peers[from].push(to);
                peers[to].push(from);
            }
        }
        for own in &mut peers {
            own.sort_unstable();
            own.dedup();
        }
        peers
    }

    /// For each node, true if another node sends to it.
    pub fn receivers(&self, nodes: usize) -> Vec<bool> {
        match self {
            Self::AllToAll | Self::Mesh => vec![nodes > 1; nodes],
            Self::Links(links) => {
                let mut receives = vec![false; nodes];
                links.iter().for_each(|(_, to)| receives[*to] = true);
                receives
            }
            _ => (0..nodes)
                .map(|node| !self.sources(nodes, node).is_empty())
                .collect(),
        }
    }

    /// Position of `to` among the targets of `from`.
    pub fn place_of_target(&self, nodes: usize, from: usize, to: usize) -> usize {
        match self {
            Self::AllToAll => to,
            Self::Mesh => to - usize::from(to > from),
            Self::Bisection { .. } => in_half(nodes, to),
            _ => before(&self.targets(nodes, from), to),
        }
    }

    /// Position of `from` among the sources of `to`.
    pub fn place_of_source(&self, nodes: usize, from: usize, to: usize) -> usize {
        match self {
            Self::AllToAll => from,
            Self::Mesh => from - usize::from(from > to),
            Self::Bisection { .. } => in_half(nodes, from),
            _ => before(&self.sources(nodes, to), from),
        }
    }

    /// True if every node sends to as many nodes as it receives from, so that relays can pass on all blocks.
    pub fn is_even(&self, nodes: usize) -> bool {
        match self {
            Self::AllToAll | Self::Mesh | Self::Shift(_) | Self::Pairs => true,
            Self::Bisection { both } => *both,
            Self::Incast(_) | Self::Outcast(_) | Self::Hol => false,
            Self::Links(links) => {
                let mut balance = vec![0_i64; nodes];
                for (from, to) in links {
                    balance[*from] += 1;
                    balance[*to] -= 1;
                }
                balance.iter().all(|balance| *balance == 0)
            }
        }
    }

    /// True if every port carries at most one pair each way. Only then can a single link be judged.
    pub fn is_permutation(&self, nodes: usize) -> bool {
        (0..nodes).all(|node| {
            self.targets(nodes, node).len() <= 1 && self.sources(nodes, node).len() <= 1
        })
    }

    /// The pattern for the remaining nodes, after the nodes in `gone` leave a run of `nodes` nodes. `None` if it cannot run without them.
    pub fn without(&self, gone: &[usize], nodes: usize) -> Option<Self> {
        let left = nodes.saturating_sub(gone.len());
        let number = |node: usize| (!gone.contains(&node)).then(|| renumbered(node, gone));
        let pattern = match self {
            Self::Incast(count) => Self::Incast((*count).min(left.saturating_sub(1))),
            Self::Outcast(count) => Self::Outcast((*count).min(left.saturating_sub(1))),
            Self::Links(links) => {
                let both = |(from, to): &(usize, usize)| Some((number(*from)?, number(*to)?));
                let kept: Vec<(usize, usize)> = links.iter().filter_map(both).collect();
                (!kept.is_empty()).then_some(Self::Links(kept))?
            }
            other => other.clone(),
        };
        pattern.check(left, 2).is_ok().then_some(pattern)
    }

    /// Checks that `nodes` nodes can run the pattern through `phases` phases.
    pub fn check(&self, nodes: usize, phases: usize) -> Result<(), PatternError> {
        let needed = match self {
            Self::AllToAll => 1,
            Self::Links(_) => 0,
            Self::Hol => 4,
            Self::Incast(count) | Self::Outcast(count) => count.saturating_add(1),
            Self::Mesh | Self::Shift(_) | Self::Bisection { .. } | Self::Pairs => 2,
        };
        if nodes < needed {
            return Err(PatternError::Nodes {
                pattern: self.to_string(),
                needed,
                nodes,
            });
        }
        match self {
            Self::Shift(by) if !(1..nodes).contains(by) => {
                return Err(PatternError::Shift { by: *by, nodes });
            }
            Self::Incast(0) | Self::Outcast(0) => {
                return Err(PatternError::Nobody(self.to_string()));
            }
            Self::Links(links) => {
                let known = links
                    .iter()
                    .all(|(from, to)| *from < nodes && *to < nodes && from != to);
                if !known || !links.is_sorted_by(|a, b| a < b) {
                    return Err(PatternError::Links);
                }
            }
            _ => {}
        }
        if phases > 2 && !self.is_even(nodes) {
            return Err(PatternError::Uneven(self.to_string()));
        }
        Ok(())
    }
}

/// The pattern as in the options.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllToAll => f.write_str("all-to-all"),
            Self::Mesh => f.write_str("mesh"),
            Self::Shift(1) => f.write_str("ring"),
            Self::Shift(by) => write!(f, "shift:{by}"),
            Self::Bisection { both: true } => f.write_str("bisection"),
            Self::Bisection { both: false } => f.write_str("bisection:one-way"),
            Self::Pairs => f.write_str("pairs"),
            Self::Incast(count) => write!(f, "incast:{count}"),
            Self::Outcast(count) => write!(f, "outcast:{count}"),
            Self::Hol => f.write_str("hol"),
            Self::Links(links) => match links.len() {
                1 => f.write_str("1 chosen link"),
                count => write!(f, "{count} chosen links"),
            },
        }
    }
}

/// New number of a node after the nodes in `gone` are removed.
pub(super) fn renumbered(node: usize, gone: &[usize]) -> usize {
    node - gone.iter().filter(|other| **other < node).count()
}

/// Position of a node in its half of the nodes.
fn in_half(nodes: usize, node: usize) -> usize {
    let half = nodes / 2;
    if node < half { node } else { node - half }
}

/// Links of [`Pattern::Hol`].
const HOL: [(usize, usize); 3] = [(0, 2), (0, 3), (1, 3)];

/// Nodes that `node` sends to on a list of links in ascending order.
fn targets(links: &[(usize, usize)], node: usize) -> Vec<usize> {
    let first = links.partition_point(|(from, _)| *from < node);
    let own = links[first..].iter().take_while(|(from, _)| *from == node);
    own.map(|(_, to)| *to).collect()
}

/// Nodes that send to `node` on a list of links.
fn sources(links: &[(usize, usize)], node: usize) -> Vec<usize> {
    let own = links.iter().filter(|(_, to)| *to == node);
    own.map(|(from, _)| *from).collect()
}

fn partner(nodes: usize, node: usize) -> Option<usize> {
    Some(node ^ 1).filter(|other| *other < nodes)
}

fn before(list: &[usize], number: usize) -> usize {
    list.partition_point(|other| *other < number)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any pattern that `nodes` nodes can run with two phases.
    pub(crate) fn any(nodes: usize) -> impl Strategy<Value = Pattern> {
        let pairs: Vec<(usize, usize)> = (0..nodes)
            .flat_map(|from| (0..nodes).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        let most = pairs.len();
        prop_oneof![
            Just(Pattern::AllToAll),
            Just(Pattern::Mesh),
            (1..nodes).prop_map(Pattern::Shift),
            any_bool().prop_map(|both| Pattern::Bisection { both }),
            Just(Pattern::Pairs),
            (1..nodes).prop_map(Pattern::Incast),
            (1..nodes).prop_map(Pattern::Outcast),
            Just(Pattern::Hol).prop_filter("four nodes", move |_| nodes >= 4),
            proptest::sample::subsequence(pairs, 0..=most).prop_map(Pattern::Links),
        ]
    }

    fn any_bool() -> impl Strategy<Value = bool> {
        proptest::bool::ANY
    }

    fn with_nodes() -> impl Strategy<Value = (usize, Pattern)> {
        (4_usize..10).prop_flat_map(|nodes| (Just(nodes), any(nodes)))
    }

    proptest! {
        #[test]
        fn each_send_has_one_receive_and_places_are_counted_from_zero((nodes, pattern) in with_nodes()) {
            prop_assert_eq!(pattern.check(nodes, 2), Ok(()));
            let mut sent = Vec::new();
            let mut received = Vec::new();
            for node in 0..nodes {
                for (place, to) in pattern.targets(nodes, node).into_iter().enumerate() {
                    prop_assert_eq!(pattern.place_of_target(nodes, node, to), place);
                    sent.push((node, to));
                }
                for (place, from) in pattern.sources(nodes, node).into_iter().enumerate() {
                    prop_assert_eq!(pattern.place_of_source(nodes, from, node), place);
                    received.push((from, node));
                }
            }
            received.sort_unstable();
            prop_assert!(sent.is_sorted_by(|a, b| a < b), "{:?}", sent);
            prop_assert_eq!(&sent, &received);
            let count = |node: usize| {
                (pattern.targets(nodes, node).len(), pattern.sources(nodes, node).len())
            };
            let even = (0..nodes).all(|node| count(node).0 == count(node).1);
            prop_assert!(!pattern.is_even(nodes) || even);
            let loaded = |node: usize| sent.iter().any(|(from, to)| *to == node && *from != node);
            let loaded: Vec<bool> = (0..nodes).map(loaded).collect();
            prop_assert_eq!(pattern.receivers(nodes), loaded);
            let peers = |node: usize| -> Vec<usize> {
                let is_peer = |other: &usize| {
                    *other == node || sent.contains(&(node, *other)) || sent.contains(&(*other, node))
                };
                (0..nodes).filter(is_peer).collect()
            };
            let peers: Vec<Vec<usize>> = (0..nodes).map(peers).collect();
            prop_assert_eq!(pattern.peers(nodes), peers);
            let only_all_to_all = sent.iter().all(|(from, to)| from != to);
            prop_assert!(only_all_to_all || pattern == Pattern::AllToAll);
        }

        #[test]
        fn all_shifts_together_are_the_mesh(nodes in 2_usize..12) {
            let mut all: Vec<(usize, usize)> = (1..nodes)
                .flat_map(|by| (0..nodes).map(move |node| (node, Pattern::Shift(by).targets(nodes, node)[0])))
                .collect();
            all.sort_unstable();
            let mesh: Vec<(usize, usize)> = (0..nodes)
                .flat_map(|node| Pattern::Mesh.targets(nodes, node).into_iter().map(move |to| (node, to)))
                .collect();
            prop_assert_eq!(all, mesh);
        }
    }

    #[test]
    fn a_pattern_goes_on_without_some_of_its_nodes() {
        let without = |pattern: Pattern, gone: &[usize]| pattern.without(gone, 4);
        assert_eq!(without(Pattern::Shift(2), &[1]), Some(Pattern::Shift(2)));
        assert_eq!(without(Pattern::Shift(3), &[1]), None);
        assert_eq!(
            without(Pattern::Incast(3), &[0, 2]),
            Some(Pattern::Incast(1))
        );
        assert_eq!(without(Pattern::Hol, &[3]), None);
        let links = Pattern::Links(vec![(0, 1), (0, 3), (2, 3)]);
        let left = Pattern::Links(vec![(0, 2), (1, 2)]);
        assert_eq!(without(links.clone(), &[1]), Some(left));
        assert_eq!(without(links, &[0, 2]), None);
    }

    #[test]
    fn what_cannot_run_is_refused_with_a_sentence() {
        let refused =
            |pattern: Pattern, nodes, phases| pattern.check(nodes, phases).unwrap_err().to_string();
        assert_eq!(
            refused(Pattern::Hol, 3, 2),
            "--pattern hol needs at least 4 nodes; there are 3"
        );
        assert_eq!(
            refused(Pattern::Shift(3), 3, 2),
            "--pattern shift:3: from 1 to 2, one less than the number of nodes"
        );
        assert_eq!(
            refused(Pattern::Incast(0), 3, 2),
            "--pattern incast:0: at least 1 node must send"
        );
        assert_eq!(
            refused(Pattern::Incast(2), 3, 3),
            "--pattern incast:2: a node sends on more or fewer links than it receives on, \
             so it cannot relay (use --phases 2)"
        );
        assert_eq!(
            refused(Pattern::Mesh, 1, 2),
            "--pattern mesh needs at least 2 nodes; there is 1"
        );
        for links in [vec![(0, 3)], vec![(1, 0), (0, 1)], vec![(0, 0)]] {
            let error = Pattern::Links(links).check(3, 2).unwrap_err();
            assert_eq!(error, PatternError::Links);
        }
        let round = Pattern::Links(vec![(0, 1), (1, 2), (2, 0)]);
        assert_eq!(round.check(3, 3), Ok(()));
        assert_eq!(Pattern::Bisection { both: true }.check(5, 3), Ok(()));
        assert_eq!(Pattern::RING.to_string(), "ring");
    }
}
