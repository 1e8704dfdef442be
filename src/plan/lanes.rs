//! Lanes: the place of every link in the pipeline, and with it the slot map.
//!
//! At boundary `b` the node `from` empties slot `from_slot` of its buffer of phase `b` into the link. The node `to` fills slot `to_slot` of its
//! buffer of phase `b+1`. Slots follow the order of the nodes at the other end. With all-to-all, block `j` of node `i` goes to slot `i` of node
//! `j`, and returns if there are three phases or more: every chain is `i -> j -> i -> j`. With a permutation it continues around:
//! `i -> i+K -> i+2K`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Pace, Pattern, Test};

/// One link, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lane {
    /// Boundary between phase `boundary` and the next one.
    pub boundary: usize,
    /// Sending node.
    pub from: usize,
    /// Receiving node.
    pub to: usize,
    /// Number of the link among the links of the pair.
    pub stream: usize,
    /// Slot that the sender empties.
    pub from_slot: usize,
    /// Slot that the receiver fills.
    pub to_slot: usize,
}

impl Lane {
    /// Node at the other end, as seen from `node`.
    pub fn peer_of(&self, node: usize) -> usize {
        if self.from == node {
            self.to
        } else {
            self.from
        }
    }

    /// True if the link starts and ends at the same node.
    pub fn is_own(&self) -> bool {
        self.from == self.to
    }
}

/// All lanes of a boundary among `nodes` nodes, made node by node: a thousand nodes can have a million.
pub fn of_boundary(test: &Test, nodes: usize, boundary: usize) -> impl Iterator<Item = Lane> {
    let mut filled = vec![0; nodes];
    (0..nodes).flat_map(move |from| {
        let mut lanes = Vec::new();
        for (emptied, to) in test.pattern.targets(nodes, from).into_iter().enumerate() {
            let places = (emptied, filled[to]);
            filled[to] += 1;
            lanes.extend(streams(test, boundary, (from, to), places));
        }
        lanes
    })
}

/// All lanes of a test, boundary by boundary.
pub fn all(test: &Test, nodes: usize) -> Vec<Lane> {
    (0..test.phases - 1)
        .flat_map(|boundary| of_boundary(test, nodes, boundary))
        .collect()
}

/// Lanes on which node `node` sends at a boundary, in the order of the slots that they empty.
pub fn outgoing(test: &Test, nodes: usize, boundary: usize, node: usize) -> Vec<Lane> {
    let targets = test.pattern.targets(nodes, node).into_iter().enumerate();
    targets
        .flat_map(|(place, to)| {
            let there = test.pattern.place_of_source(nodes, node, to);
            streams(test, boundary, (node, to), (place, there))
        })
        .collect()
}

/// Lanes on which node `node` receives at a boundary, in the order of the slots that they fill.
pub fn incoming(test: &Test, nodes: usize, boundary: usize, node: usize) -> Vec<Lane> {
    let sources = test.pattern.sources(nodes, node).into_iter().enumerate();
    sources
        .flat_map(|(place, from)| {
            let there = test.pattern.place_of_target(nodes, from, node);
            streams(test, boundary, (from, node), (there, place))
        })
        .collect()
}

/// The lanes into each node, boundary by boundary, in the order of the slots that they fill.
pub fn into_nodes(test: &Test, nodes: usize) -> Vec<Vec<Lane>> {
    let mut into = vec![Vec::new(); nodes];
    for lane in all(test, nodes) {
        into[lane.to].push(lane);
    }
    into
}

/// Number of links of one node at a boundary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Degree {
    /// Links on which the node sends.
    pub sends: usize,
    /// Links on which the node receives.
    pub receives: usize,
}

impl Degree {
    /// Number of slots in the node's buffer of a phase.
    pub fn slots(self, phase: usize) -> usize {
        match phase {
            0 => self.sends,
            _ => self.receives,
        }
    }

    /// Number of link ends, both directions together.
    pub fn ends(self) -> usize {
        self.sends.saturating_add(self.receives)
    }
}

/// Number of links that a node has at each boundary.
pub fn degree(test: &Test, nodes: usize, node: usize) -> Degree {
    let (sends, receives) = match test.pattern {
        Pattern::AllToAll => (nodes, nodes),
        // A list of targets for each of many nodes takes long.
        Pattern::Bisection { both } => {
            let is_first = node < nodes / 2;
            let others = if is_first {
                nodes - nodes / 2
            } else {
                nodes / 2
            };
            let links = |any: bool| if any { others } else { 0 };
            (links(both || is_first), links(both || !is_first))
        }
        _ => (
            test.pattern.targets(nodes, node).len(),
            test.pattern.sources(nodes, node).len(),
        ),
    };
    Degree {
        sends: sends.saturating_mul(test.streams),
        receives: receives.saturating_mul(test.streams),
    }
}

/// Lane at boundary 0 on which the blocks of a lane leave their source.
pub fn origin(test: &Test, nodes: usize, lane: &Lane) -> Lane {
    let mut at = *lane;
    while at.boundary > 0 {
        let mut into = incoming(test, nodes, at.boundary - 1, at.from).into_iter();
        let Some(before) = into.find(|before| before.to_slot == at.from_slot) else {
            break;
        };
        at = before;
    }
    at
}

/// Lanes of a pair. `emptied` is the position of the target among those of the sending node, `filled` that of the source at the receiving one.
fn streams(
    test: &Test,
    boundary: usize,
    (from, to): (usize, usize),
    (emptied, filled): (usize, usize),
) -> impl Iterator<Item = Lane> + use<> {
    let streams = test.streams;
    (0..streams).map(move |stream| Lane {
        boundary,
        from,
        to,
        stream,
        from_slot: emptied * streams + stream,
        to_slot: filled * streams + stream,
    })
}

impl Test {
    /// Rate limit of a lane's link in bits per second, if it has one.
    pub fn rate_of(&self, lane: &Lane) -> Option<u64> {
        let own = |pace: &&Pace| (pace.from, pace.to) == (lane.from, lane.to);
        let pace = self.paces.iter().find(own);
        self.limit_of(pace.map(|pace| pace.bits_per_s))
    }

    /// The same for many lanes: a search of all paces for each lane takes too long with thousands of them.
    pub fn rates(&self) -> impl Fn(&Lane) -> Option<u64> + '_ {
        // As in a search, the first of several paces of a pair counts.
        let paces = self.paces.iter().rev();
        let paces: HashMap<(usize, usize), u64> = paces
            .map(|pace| ((pace.from, pace.to), pace.bits_per_s))
            .collect();
        move |lane: &Lane| self.limit_of(paces.get(&(lane.from, lane.to)).copied())
    }

    /// Rate limit of a link whose pair has this limit, if any.
    fn limit_of(&self, of_pair: Option<u64>) -> Option<u64> {
        match of_pair {
            Some(bits_per_s) => Some((bits_per_s / self.streams.max(1) as u64).max(1)),
            None => self.sockets.rate_bits_per_s,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::SocketOptions;
    use crate::plan::pattern;
    use crate::plan::{
        Acceptance, Bound, Coupling, DataNetwork, Deadlines, NodeSpec, RunPlan, Sink, Source,
        Transport, Verify, Work,
    };
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    pub(crate) fn test_of(phases: usize, streams: usize) -> Test {
        Test {
            pattern: Pattern::AllToAll,
            phases,
            streams,
            rails: 1,
            block_bytes: 262_144,
            coupling: Coupling::Block,
            bound: Bound::Volume { buffers: 4 },
            transport: Transport::Auto,
            sockets: SocketOptions::default(),
            ports: None,
            network: DataNetwork::default(),
            source: Source::Memory,
            sink: Sink::Memory,
            verify: Verify::None,
            pin: crate::plan::Pin::Auto,
            datapath: crate::plan::Datapath::Copy,
            workers: crate::plan::Workers::Peer,
            unasked: crate::plan::Unasked::default(),
            purpose: crate::plan::Purpose::Load,
            paces: Vec::new(),
            huge: false,
        }
    }

    /// A plan of one test, with defaults for all other fields.
    pub(crate) fn plan_of(nodes: Vec<NodeSpec>, test: Test) -> RunPlan {
        let work = Work::Acceptance(Acceptance {
            tests: vec![test],
            ..Acceptance::default()
        });
        RunPlan::of(nodes, work, Deadlines::default())
    }

    #[test]
    fn the_rate_of_a_lane_is_the_same_alone_and_among_many() {
        let mut test = test_of(2, 2);
        test.sockets.rate_bits_per_s = Some(7);
        let pace = |from, to, bits_per_s| Pace {
            from,
            to,
            bits_per_s,
        };
        test.paces = vec![pace(1, 0, 10), pace(0, 1, 20), pace(0, 1, 90)];
        let rates = test.rates();
        let lanes = all(&test, 3);
        assert!(lanes.iter().all(|lane| rates(lane) == test.rate_of(lane)));
        let of_pair = lanes.iter().find(|lane| (lane.from, lane.to) == (0, 1));
        assert_eq!(of_pair.and_then(rates), Some(10));
    }

    proptest! {
        #[test]
        fn every_slot_is_filled_and_emptied_once(
            (nodes, pattern) in (4_usize..9).prop_flat_map(|nodes| (Just(nodes), pattern::tests::any(nodes))),
            phases in 2_usize..5, streams in 1_usize..4
        ) {
            let phases = if pattern.is_even(nodes) { phases } else { 2 };
            let test = Test { pattern, ..test_of(phases, streams) };
            let every = |slots: fn(Degree) -> usize| -> BTreeSet<_> {
                let of = |node| slots(degree(&test, nodes, node));
                (0..nodes).flat_map(|n| (0..of(n)).map(move |s| (n, s))).collect()
            };
            for boundary in 0..phases - 1 {
                let lanes: Vec<Lane> = of_boundary(&test, nodes, boundary).collect();
                let filled: BTreeSet<_> = lanes.iter().map(|lane| (lane.to, lane.to_slot)).collect();
                let emptied: BTreeSet<_> = lanes.iter().map(|lane| (lane.from, lane.from_slot)).collect();
                prop_assert_eq!(&filled, &every(|degree| degree.receives));
                prop_assert_eq!(&emptied, &every(|degree| degree.sends));
                let pairs: BTreeSet<_> = lanes.iter().map(|l| (l.from, l.to, l.stream)).collect();
                prop_assert_eq!(pairs.len(), lanes.len());
                let mut out: Vec<_> = (0..nodes).flat_map(|n| outgoing(&test, nodes, boundary, n)).collect();
                let mut into: Vec<_> = (0..nodes).flat_map(|n| incoming(&test, nodes, boundary, n)).collect();
                let mut lanes = lanes;
                for list in [&mut lanes, &mut out, &mut into] {
                    list.sort_unstable();
                }
                prop_assert_eq!(&lanes, &out);
                prop_assert_eq!(&lanes, &into);
            }
        }

        #[test]
        fn a_block_returns_to_where_it_came_from(nodes in 1_usize..9, streams in 1_usize..4) {
            let test = test_of(3, streams);
            for lane in of_boundary(&test, nodes, 0) {
                let next = outgoing(&test, nodes, 1, lane.to)[lane.to_slot];
                prop_assert_eq!((next.from, next.to, next.stream), (lane.to, lane.from, lane.stream));
                prop_assert_eq!(next.from_slot, lane.to_slot);
            }
        }

        #[test]
        fn a_chain_is_traced_back_to_its_source(
            nodes in 1_usize..7, phases in 2_usize..6, streams in 1_usize..3
        ) {
            let test = test_of(phases, streams);
            for first in of_boundary(&test, nodes, 0) {
                let mut lane = first;
                for boundary in 1..phases {
                    prop_assert_eq!(origin(&test, nodes, &lane), first);
                    if boundary + 1 < phases {
                        lane = outgoing(&test, nodes, boundary, lane.to)[lane.to_slot];
                    }
                }
            }
        }

        #[test]
        fn a_nodes_lanes_come_in_the_order_of_their_slots(
            nodes in 1_usize..9, streams in 1_usize..4, pick in 0_usize..9
        ) {
            let (test, node) = (test_of(2, streams), pick % nodes);
            for (slot, lane) in outgoing(&test, nodes, 0, node).iter().enumerate() {
                prop_assert_eq!((lane.from, lane.from_slot), (node, slot));
            }
            for (slot, lane) in incoming(&test, nodes, 0, node).iter().enumerate() {
                prop_assert_eq!((lane.to, lane.to_slot), (node, slot));
            }
            prop_assert_eq!(&into_nodes(&test, nodes)[node], &incoming(&test, nodes, 0, node));
        }
    }
}
