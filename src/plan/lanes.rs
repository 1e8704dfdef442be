//! Lanes: the place of every link in the pipeline, and with it the slot map.
//!
//! At boundary `b` the node `from` empties slot `from_slot` of its buffer of phase `b` into the link, and the
//! node `to` fills slot `to_slot` of its buffer of phase `b+1`. With all-to-all, block `j` of node `i` goes to
//! slot `i` of node `j` and from three phases on returns: every chain is `i -> j -> i -> j`.

use serde::{Deserialize, Serialize};

use super::{Pattern, Test};

/// One link, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lane {
    /// Step between phase `boundary` and the next one.
    pub boundary: usize,
    /// Node that sends.
    pub from: usize,
    /// Node that receives.
    pub to: usize,
    /// Number of the link among those of the pair.
    pub stream: usize,
    /// Slot that the sender empties.
    pub from_slot: usize,
    /// Slot that the receiver fills.
    pub to_slot: usize,
}

impl Lane {
    /// Whether the link starts and ends at one node.
    pub fn is_own(&self) -> bool {
        self.from == self.to
    }
}

/// All lanes of a boundary among `nodes` nodes.
pub fn of_boundary(test: &Test, nodes: usize, boundary: usize) -> Vec<Lane> {
    (0..nodes)
        .flat_map(|from| outgoing(test, nodes, boundary, from))
        .collect()
}

/// All lanes of a test, boundary by boundary.
pub fn all(test: &Test, nodes: usize) -> Vec<Lane> {
    (0..test.phases - 1)
        .flat_map(|boundary| of_boundary(test, nodes, boundary))
        .collect()
}

/// Lanes that node `node` sends on at a boundary, in the order of the slots they empty.
pub fn outgoing(test: &Test, nodes: usize, boundary: usize, node: usize) -> Vec<Lane> {
    match test.pattern {
        Pattern::AllToAll => pairs(nodes, test.streams)
            .map(|(to, stream)| all_to_all_lane(test.streams, boundary, node, to, stream))
            .collect(),
    }
}

/// Lanes that node `node` receives on at a boundary, in the order of the slots they fill.
pub fn incoming(test: &Test, nodes: usize, boundary: usize, node: usize) -> Vec<Lane> {
    match test.pattern {
        Pattern::AllToAll => pairs(nodes, test.streams)
            .map(|(from, stream)| all_to_all_lane(test.streams, boundary, from, node, stream))
            .collect(),
    }
}

/// Node and slot of phase 0 whose blocks a lane carries.
pub fn origin(test: &Test, nodes: usize, lane: &Lane) -> (usize, usize) {
    let mut at = *lane;
    while at.boundary > 0 {
        let before = incoming(test, nodes, at.boundary - 1, at.from);
        match before
            .into_iter()
            .find(|before| before.to_slot == at.from_slot)
        {
            Some(before) => at = before,
            None => break,
        }
    }
    (at.from, at.from_slot)
}

fn pairs(nodes: usize, streams: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..nodes).flat_map(move |node| (0..streams).map(move |stream| (node, stream)))
}

fn all_to_all_lane(streams: usize, boundary: usize, from: usize, to: usize, stream: usize) -> Lane {
    Lane {
        boundary,
        from,
        to,
        stream,
        from_slot: to * streams + stream,
        to_slot: from * streams + stream,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::{Bound, Coupling, DataNetwork, Sink, Source, Transport, Verify};
    use crate::sys::socket::SocketOptions;
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
            pin: crate::plan::placement::Pin::Auto,
            datapath: crate::plan::Datapath::Copy,
            workers: crate::plan::Workers::Peer,
            unasked: crate::plan::fit::Unasked::default(),
            huge: false,
        }
    }

    proptest! {
        #[test]
        fn each_send_has_one_receive_and_every_slot_is_filled_and_emptied_once(
            nodes in 1_usize..9, phases in 2_usize..6, streams in 1_usize..4
        ) {
            let test = test_of(phases, streams);
            for boundary in 0..phases - 1 {
                let lanes = of_boundary(&test, nodes, boundary);
                prop_assert_eq!(lanes.len(), nodes * nodes * streams);
                let filled: BTreeSet<_> = lanes.iter().map(|lane| (lane.to, lane.to_slot)).collect();
                let emptied: BTreeSet<_> = lanes.iter().map(|lane| (lane.from, lane.from_slot)).collect();
                let every: BTreeSet<_> =
                    (0..nodes).flat_map(|n| (0..nodes * streams).map(move |s| (n, s))).collect();
                prop_assert_eq!(&filled, &every);
                prop_assert_eq!(&emptied, &every);
                let pairs: BTreeSet<_> = lanes.iter().map(|l| (l.from, l.to, l.stream)).collect();
                prop_assert_eq!(pairs.len(), lanes.len());
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
                    prop_assert_eq!(origin(&test, nodes, &lane), (first.from, first.from_slot));
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
        }
    }
}
