//! Placement of senders and receivers on processors.
//!
//! A block that is sent, received and sent again on one core stays in that core's cache. So the two ends of a link and the next sender of its
//! blocks belong together: these are all links of a chain whose nodes share a host. Where too few chains exist for that, the two ends of a
//! link belong together. docs/dev/performance.md has the measurements.
//!
//! On a fast port between hosts, all ends run on the processors of the card's NUMA node, so that payload does not cross to another socket, and
//! beside the processors that handle its interrupts, as far as enough are left.

use std::collections::BTreeSet;

use super::lanes::{self, Lane};
use super::{Assignment, Datapath, Pattern, Pin, Relay, Test, Workers};

/// Group of link ends that stays on one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Together {
    /// All links of a chain, from its source to its sink.
    Chain,
    /// The two ends of a link.
    Link,
    /// The ends that fill and empty one slot, where the rest of the chain is on other hosts.
    Slot,
}

/// Processor for the end of `lane` that fills or empties `slot` of a node. `processors` lists the allowed processors, best ones first. `None`
/// if the scheduler decides.
///
/// With [`Pin::Auto`], ends are pinned only where all nodes share a host and every processor then always has work. That is the case with two
/// chains per processor, or with the same number of links on each processor (a relay that is one process belongs to two links). Elsewhere
/// processors would be idle, or the placement would ignore where the kernel handles a network card's interrupts.
pub fn processor_of(
    assignment: &Assignment,
    lane: &Lane,
    slot: usize,
    processors: &[usize],
) -> Option<usize> {
    let together = match assignment.test.pin {
        Pin::None => return None,
        Pin::Auto => what_pays(assignment, processors.len())?,
        Pin::List(_) if !shares(assignment) => Together::Slot,
        Pin::List(_) => what_pays(assignment, processors.len()).unwrap_or(Together::Link),
    };
    let place = number_of(together, assignment, lane, slot, processors.len());
    processors
        .get(place.checked_rem(processors.len())?)
        .copied()
}

/// True if all nodes are on this host.
fn shares(assignment: &Assignment) -> bool {
    assignment.run.peers.is_one_host()
}

/// Speed in Mbit/s from which it matters where the ends of a port's links run. Slower ones leave a socket's processors and interconnect idle.
pub const FAST_MBIT: u64 = 100_000;

/// A data port and the processors that matter to it, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortFacts {
    /// Negotiated speed in Mbit/s; 0 if unknown.
    pub speed_mbit: u64,
    /// Number of connections that fill it.
    pub flows: usize,
    /// Usable processors of the card's NUMA node; empty if unknown.
    pub near: Vec<usize>,
    /// Usable processors that handle its interrupts.
    pub interrupts: Vec<usize>,
}

/// Processors for the ends of a port's links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortPlace {
    /// The processors, in ascending order.
    pub processors: Vec<usize>,
    /// True if none of them handles interrupts of the ports there.
    pub is_beside: bool,
}

/// True if the ends of this node's links run near their ports: where they are not placed otherwise, and no process serves several ports.
pub fn is_near_ports(assignment: &Assignment) -> bool {
    !shares(assignment) && places_near_ports(&assignment.test)
}

/// The same for a test between hosts.
pub fn places_near_ports(test: &Test) -> bool {
    test.pin == Pin::Auto && test.workers != Workers::Shared
}

/// Place of each data port of a host. `None` for slow ports, and where the card's NUMA node is unknown or too small: then the scheduler chooses
/// among all processors.
///
/// Each connection that fills a port needs a processor to send and one to receive. If the node has them without those that handle interrupts, a
/// receiver does not wait while its processor takes packets of other links. If it has not, interrupts and link ends share the node.
pub fn places_of_ports(ports: &[PortFacts]) -> Vec<Option<PortPlace>> {
    let place = |port: &PortFacts| {
        if port.speed_mbit < FAST_MBIT || port.near.is_empty() {
            return None;
        }
        let mates = || ports.iter().filter(|other| other.near == port.near);
        let flows = mates().fold(0_usize, |sum, one| sum.saturating_add(one.flows));
        let needed = flows.saturating_mul(2);
        let taken: BTreeSet<usize> = mates().flat_map(|one| one.interrupts.clone()).collect();
        let mut beside = port.near.clone();
        beside.retain(|processor| !taken.contains(processor));
        let is_beside = beside.len() >= needed;
        let processors = if is_beside { beside } else { port.near.clone() };
        (processors.len() >= needed).then_some(PortPlace {
            processors,
            is_beside,
        })
    };
    ports.iter().map(place).collect()
}

fn what_pays(assignment: &Assignment, processors: usize) -> Option<Together> {
    let (test, nodes) = (&assignment.test, assignment.run.nodes());
    if !shares(assignment) || processors < 2 {
        return None;
    }
    let chains: usize = (0..nodes)
        .map(|node| lanes::degree(test, nodes, node).sends)
        .sum();
    let links = chains * (test.phases - 1);
    if chains >= 2 * processors {
        Some(Together::Chain)
    } else if links >= processors
        && links.is_multiple_of(processors)
        && test.relay() == Relay::Halves
    {
        Some(Together::Link)
    } else {
        None
    }
}

/// Number of the group that an end belongs to; processors take groups in turn.
fn number_of(
    together: Together,
    assignment: &Assignment,
    lane: &Lane,
    slot: usize,
    processors: usize,
) -> usize {
    let (test, nodes) = (&assignment.test, assignment.run.nodes());
    let first = lanes::origin(test, nodes, lane);
    match together {
        Together::Chain => chain_number(test, nodes, &first, processors),
        Together::Link => {
            let sends = lanes::degree(test, nodes, first.from).sends;
            (first.from * sends + first.from_slot) * (test.phases - 1) + lane.boundary
        }
        Together::Slot => slot,
    }
}

/// Number of the chain that begins with the lane `first`.
///
/// Where every node sends to every other, the chains to the next nodes share a processor, then those to the nodes after them, as far as the
/// processors divide a node's chains evenly: so each port, in both directions, depends on each processor as much as any other port does.
///
/// Chains of nodes to themselves come last, and may have a processor of their own if blocks are copied: they take as long as the others then.
/// Without copies they take less, but are never faster than the others of their node: a processor with nothing else would be idle in part.
fn chain_number(test: &Test, nodes: usize, first: &Lane, processors: usize) -> usize {
    if !matches!(test.pattern, Pattern::AllToAll | Pattern::Mesh) {
        return first.from * lanes::degree(test, nodes, first.from).sends + first.from_slot;
    }
    let itself = test.pattern == Pattern::AllToAll && test.datapath == Datapath::Copy;
    let row = if itself { nodes } else { nodes - 1 } * test.streams;
    let rest = row % processors;
    let distance = (first.to + nodes - first.from - 1) % nodes;
    let turn = distance * test.streams + first.stream;
    if turn < row - rest {
        turn
    } else if turn < row {
        first.from * rest + turn - (row - rest)
    } else {
        nodes * rest + first.from * test.streams + first.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::assignment;

    /// Processors of the two ends of every link of one host: the sender's and the receiver's.
    fn placed(
        nodes: usize,
        phases: usize,
        pin: Pin,
        processors: &[usize],
    ) -> Vec<(Lane, [Option<usize>; 2])> {
        let mut all = assignment();
        (all.run.peers.nodes, all.run.peers.on_host) = (nodes, nodes);
        (all.test.phases, all.test.pin) = (phases, pin);
        lanes::all(&all.test, nodes)
            .into_iter()
            .map(|lane| {
                let of = |slot| processor_of(&all, &lane, slot, processors);
                (lane, [of(lane.from_slot), of(lane.to_slot)])
            })
            .collect()
    }

    #[test]
    fn a_chain_stays_on_one_processor_and_every_processor_has_its_share() {
        for nodes in [2, 3, 4, 8] {
            let all = placed(nodes, 3, Pin::Auto, &[4, 7]);
            let mut counts = [0_usize; 2];
            for (lane, [sender, receiver]) in &all {
                assert_eq!(sender, receiver, "{lane:?}");
                counts[usize::from(*sender == Some(7))] += 1;
                let mut rest = all.iter().map(|(other, at)| (other, at[0]));
                let next = rest.find(|(other, _)| {
                    (other.boundary, other.from, other.from_slot)
                        == (lane.boundary + 1, lane.to, lane.to_slot)
                });
                assert!(next.is_none_or(|(_, at)| at == *sender), "{lane:?}");
            }
            assert!(
                counts[0].abs_diff(counts[1]) <= 2,
                "{nodes} nodes: {counts:?}"
            );
        }
    }

    #[test]
    fn every_port_depends_on_each_processor_as_much_as_any_other_port() {
        for (nodes, processors) in [
            (2, &[4, 7][..]),
            (3, &[4, 7]),
            (4, &[4, 7]),
            (5, &[0, 1, 2, 3]),
        ] {
            let all = placed(nodes, 2, Pin::Auto, processors);
            for port in [|lane: &Lane| lane.from, |lane: &Lane| lane.to] {
                let of = |node| {
                    let between = all.iter().filter(|(lane, _)| lane.from != lane.to);
                    let mut at: Vec<_> = between
                        .filter(|(lane, _)| port(lane) == node)
                        .map(|(_, at)| at[0])
                        .collect();
                    at.sort_unstable();
                    at
                };
                assert!((1..nodes).all(|node| of(node) == of(0)), "{nodes} nodes");
            }
        }
    }

    #[test]
    fn two_nodes_share_a_processor_evenly_unless_the_other_would_be_idle_in_part() {
        let mut all = assignment();
        (all.run.peers.nodes, all.run.peers.on_host) = (2, 2);
        (all.test.phases, all.test.pin) = (2, Pin::Auto);
        for lane in lanes::all(&all.test, 2) {
            let mut number = |datapath| {
                all.test.datapath = datapath;
                processor_of(&all, &lane, lane.from_slot, &[0, 1])
            };
            let itself = usize::from(lane.from == lane.to);
            assert_eq!(number(Datapath::Copy), Some(itself), "{lane:?}");
            assert_eq!(number(Datapath::Zerocopy), Some(lane.from), "{lane:?}");
        }
    }

    fn port(
        gbit: u64,
        near: std::ops::Range<usize>,
        interrupts: std::ops::Range<usize>,
    ) -> PortFacts {
        PortFacts {
            speed_mbit: gbit * 1000,
            flows: crate::plan::fit::flows_of(Some(gbit * 1000), 0),
            near: near.collect(),
            interrupts: interrupts.collect(),
        }
    }

    /// Numbers of processors for each port, and whether interrupts go elsewhere.
    fn counts(ports: &[PortFacts]) -> Vec<Option<(usize, bool)>> {
        let places = places_of_ports(ports).into_iter();
        let count = |place: PortPlace| (place.processors.len(), place.is_beside);
        places.map(|place| place.map(count)).collect()
    }

    #[test]
    fn the_ends_of_a_fast_port_run_near_its_card_beside_its_interrupts() {
        let place = places_of_ports(&[port(100, 0..16, 0..4)])
            .remove(0)
            .unwrap();
        assert_eq!(place.processors, (4..16).collect::<Vec<usize>>());
        assert!(place.is_beside);
        // 400 Gbit/s need 16 connections, and so 32 processors: those with interrupts are among them if there are no more.
        assert_eq!(counts(&[port(400, 0..64, 0..32)]), [Some((32, true))]);
        assert_eq!(counts(&[port(400, 0..64, 0..33)]), [Some((64, false))]);
        assert_eq!(counts(&[port(400, 0..32, 0..32)]), [Some((32, false))]);
        assert_eq!(
            counts(&[port(400, 0..31, 0..4)]),
            [None],
            "one socket is too small"
        );
        assert_eq!(counts(&[port(25, 0..64, 0..4)]), [None], "a slow port");
        assert_eq!(counts(&[port(100, 0..0, 0..4)]), [None], "nothing is known");
    }

    #[test]
    fn ports_of_one_socket_share_its_processors_and_those_of_two_do_not() {
        let apart = [port(200, 0..64, 0..16), port(200, 64..128, 64..80)];
        assert_eq!(counts(&apart), [Some((48, true)), Some((48, true))]);
        let together = [port(200, 0..64, 0..16), port(200, 0..64, 16..32)];
        assert_eq!(counts(&together), [Some((32, true)), Some((32, true))]);
        let crowded = [port(400, 0..64, 0..1), port(400, 0..64, 1..2)];
        assert_eq!(counts(&crowded), [Some((64, false)), Some((64, false))]);
    }

    #[test]
    fn ends_are_near_their_ports_only_where_no_other_placement_applies() {
        let mut own = assignment();
        own.test.pin = Pin::Auto;
        (own.run.peers.nodes, own.run.peers.on_host) = (2, 1);
        assert!(is_near_ports(&own));
        own.test.workers = Workers::Shared;
        assert!(!is_near_ports(&own));
        own.test.workers = Workers::Peer;
        own.run.peers.on_host = 2;
        assert!(!is_near_ports(&own));
        own.run.peers.on_host = 1;
        own.test.pin = Pin::None;
        assert!(!is_near_ports(&own));
    }

    #[test]
    fn a_ring_on_one_host_uses_all_processors() {
        let mut all = assignment();
        (all.run.peers.nodes, all.run.peers.on_host) = (4, 4);
        (all.test.phases, all.test.pin, all.test.pattern) = (2, Pin::Auto, Pattern::Shift(1));
        let mut at: Vec<_> = lanes::all(&all.test, 4)
            .iter()
            .map(|lane| processor_of(&all, lane, lane.from_slot, &[4, 7]).unwrap())
            .collect();
        at.sort_unstable();
        assert_eq!(at, [4, 4, 7, 7]);
    }

    #[test]
    fn one_chain_is_divided_link_by_link() {
        let all = placed(1, 3, Pin::Auto, &[0, 1]);
        let at: Vec<_> = all.iter().map(|(_, at)| *at).collect();
        assert_eq!(at, [[Some(0); 2], [Some(1); 2]]);
        // Three links on two processors: one processor would be idle for half of the time.
        let four = placed(1, 4, Pin::Auto, &[0, 1]);
        assert!(four.iter().all(|(_, at)| *at == [None; 2]));
    }

    #[test]
    fn the_scheduler_decides_where_others_do_and_where_it_is_asked_to() {
        let none = placed(3, 3, Pin::None, &[0, 1]);
        assert!(none.iter().all(|(_, at)| *at == [None; 2]));
        assert!(
            placed(3, 3, Pin::Auto, &[])
                .iter()
                .all(|(_, at)| *at == [None; 2])
        );
        let mut apart = assignment();
        apart.run.peers.on_host = 1;
        let lane = lanes::all(&apart.test, 2)[1];
        assert_eq!(processor_of(&apart, &lane, 1, &[0, 1]), None);
        apart.test.pin = Pin::List(vec![5, 6]);
        assert_eq!(processor_of(&apart, &lane, 1, &[5, 6]), Some(6));
    }
}
