//! Kinds of faults that the judge's author did not think of, from a reader who has not seen the judge: each with its own seed.
//!
//! Every port carries 100 each way. A permutation gives each link 100, the mesh gives each 100 / (ports - 1).

use std::collections::BTreeSet;

use pipebench::internals::judge::fabric::Place;
use pipebench::internals::judge::fault::Fault;

use super::{Draw, Hidden, Kind, Pair, World};

/// A fault in words, its seed, and the fabric that has it.
pub struct Unlisted {
    pub what: &'static str,
    pub seed: u64,
    pub world: fn(&mut Draw) -> World,
}

pub const ALL: [Unlisted; 20] = [
    Unlisted {
        what: "a hash that puts four of six senders on one of three members of an uplink",
        seed: 4_211,
        world: polarised_hash,
    },
    Unlisted {
        what: "one of four members of an uplink fell to 50, its pairs chosen by both addresses",
        seed: 907,
        world: slow_member,
    },
    Unlisted {
        what: "every four ports have three lanes, on each of three line cards",
        seed: 15_383,
        world: oversubscribed_cards,
    },
    Unlisted {
        what: "three chips, and 86 % of the way from the first to the last, one way only",
        seed: 662,
        world: narrow_chip_link,
    },
    Unlisted {
        what: "a ring of three switches that runs one way, with one weak segment",
        seed: 31_017,
        world: one_way_ring,
    },
    Unlisted {
        what: "a stack of three switches that lost a cable and goes the long way round",
        seed: 78,
        world: broken_stack,
    },
    Unlisted {
        what: "a slow one of three spines between even and odd ports, chosen by address",
        seed: 5_550,
        world: slow_spine,
    },
    Unlisted {
        what: "a breakout cage: two ports send by one lane, a third receives 88 %",
        seed: 2_904,
        world: broken_cage,
    },
    Unlisted {
        what: "a mirror session left on: copies of what one port sends leave by another",
        seed: 19_741,
        world: forgotten_mirror,
    },
    Unlisted {
        what: "three pairs of four ports that meet in one buffer of 84",
        seed: 133,
        world: one_buffer,
    },
    Unlisted {
        what: "a port that is slow towards the far leaf only",
        seed: 8_086,
        world: slow_to_far_leaf,
    },
    Unlisted {
        what: "a port that takes 86 % from three of eight senders, and all from the others",
        seed: 46_368,
        world: slow_from_a_few,
    },
    Unlisted {
        what: "two hosts at half duplex, to different degrees",
        seed: 51,
        world: two_half_duplex,
    },
    Unlisted {
        what: "all ports slow down together in every other test (heat)",
        seed: 7_177,
        world: throttled,
    },
    Unlisted {
        what: "two things that come and go: a port receives half, and a card sends half",
        seed: 12_648,
        world: two_that_come_and_go,
    },
    Unlisted {
        what: "a pair inside a port that is slow to the far leaf inside a narrow uplink",
        seed: 365,
        world: fault_in_a_fault,
    },
    Unlisted {
        what: "two cables swapped between leaves, so that the narrow uplink is not as declared",
        seed: 27_644,
        world: swapped_cables,
    },
    Unlisted {
        what: "a leaf that lost local switching: what stays inside goes round by a trunk",
        seed: 1_999,
        world: hairpin,
    },
    Unlisted {
        what: "a policer at 85 % on what four scattered ports of a tenant say to each other",
        seed: 60_013,
        world: policed_tenant,
    },
    Unlisted {
        what: "a router on a stick between even and odd ports, both ways through one trunk",
        seed: 384,
        world: router_on_a_stick,
    },
];

/// A fabric with these faults and without declared groups.
fn plain(ports: usize, draw: &mut Draw, faults: impl IntoIterator<Item = Hidden>) -> World {
    let mut world = World::new(Kind::Sound, ports, 1.0, draw);
    world.hidden.extend(faults);
    world
}

/// Two declared leaves with these faults, and with uplinks as fast as their ports.
fn leaves(ports: usize, draw: &mut Draw, faults: impl IntoIterator<Item = Hidden>) -> World {
    let mut world = World::new(Kind::SoundFullUplink, ports, 1.0, draw);
    world.hidden.extend(faults);
    world
}

/// A resource that these links share, always present and at fault.
fn hidden(links: impl IntoIterator<Item = Pair>, capacity: f64, name: Fault) -> Hidden {
    let links = links.into_iter().filter(|(from, to)| from != to);
    Hidden {
        links: links.collect::<BTreeSet<Pair>>(),
        capacity,
        often: 1.0,
        names: vec![name],
        wrong: true,
    }
}

/// The same resource, with further correct names.
fn or(mut hidden: Hidden, names: impl IntoIterator<Item = Fault>) -> Hidden {
    hidden.names.extend(names);
    hidden
}

/// The path from the first leaf to the second, as declared.
fn first_uplink() -> [Fault; 2] {
    [Fault::Place(Place::Up(0)), Fault::Place(Place::Down(1))]
}

/// A resource that all links from these ports to those share.
fn block(
    from: impl IntoIterator<Item = usize>,
    to: impl IntoIterator<Item = usize>,
    capacity: f64,
) -> Hidden {
    let from: Vec<usize> = from.into_iter().collect();
    let to: Vec<usize> = to.into_iter().collect();
    let links = from
        .iter()
        .flat_map(|from| to.iter().map(move |to| (*from, *to)));
    let links: Vec<Pair> = links.collect();
    hidden(links, capacity, Fault::Shared { from, to })
}

/// A resource that these pairs share.
fn path(pairs: Vec<Pair>, capacity: f64) -> Hidden {
    hidden(pairs.clone(), capacity, Fault::Path(pairs))
}

/// Limits the receiving of a port.
fn receive(ports: usize, port: usize, capacity: f64) -> Hidden {
    let links = pairs(ports, |_, to| to == port);
    hidden(links, capacity, Fault::Place(Place::Receive(port)))
}

/// Limits the total of a port's sending and receiving.
fn both_ways(ports: usize, port: usize, capacity: f64) -> Hidden {
    let links = pairs(ports, |from, to| from == port || to == port);
    hidden(links, capacity, Fault::BothWays(port))
}

/// All pairs of `ports` ports for which this holds, sorted.
fn pairs(ports: usize, holds: impl Fn(usize, usize) -> bool) -> Vec<Pair> {
    let all = (0..ports).flat_map(|from| (0..ports).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to && holds(*from, *to))
        .collect()
}

/// Three members of 200: four senders on the first, two on the second, none on the third.
fn polarised_hash(draw: &mut Draw) -> World {
    let member = block([0, 1, 3, 4], 6..12, 200.0);
    leaves(12, draw, [or(member, first_uplink())])
}

/// The shift by 5 puts three pairs on the slow member, and the mesh puts all seven there.
fn slow_member(draw: &mut Draw) -> World {
    let taken = pairs(10, |from, to| from < 5 && to >= 5 && (from + to) % 4 == 1);
    leaves(10, draw, [or(path(taken, 50.0), first_uplink())])
}

/// All ports together send 900 of 1200 in every test, but they share no common resource.
fn oversubscribed_cards(draw: &mut Draw) -> World {
    let cards = [0..4, 4..8, 8..12];
    plain(12, draw, cards.map(|card| block(card, 0..12, 300.0)))
}

/// Only the shift by 7 puts four links on the narrow link, so that a test of the plan shows only these four pairs.
fn narrow_chip_link(draw: &mut Draw) -> World {
    let shown: Vec<Pair> = (0..4).map(|port| (port, port + 7)).collect();
    let link = block(0..4, 7..11, 345.0);
    plain(11, draw, [or(link, [Fault::Path(shown)])])
}

/// Two ports on each switch. The segment from the first to the second also carries the traffic from the first to the third and from the
/// third to the second.
fn one_way_ring(draw: &mut Draw) -> World {
    let through = |from: usize, to: usize| matches!((from / 2, to / 2), (0, 1 | 2) | (2, 1));
    plain(6, draw, [path(pairs(6, through), 150.0)])
}

/// Three ports on each switch. Without the cable from the first to the second, both of the other two cables carry its traffic.
fn broken_stack(draw: &mut Draw) -> World {
    let first_to_third = block(0..3, 3..9, 200.0);
    let third_to_second = block([0, 1, 2, 6, 7, 8], 3..6, 200.0);
    plain(9, draw, [first_to_third, third_to_second])
}

/// Three of its pairs meet in the shift by 5, four in the shift by 9. The last, from 8 to 1, meets no other in any permutation.
fn slow_spine(draw: &mut Draw) -> World {
    let taken = pairs(10, |from, to| {
        from % 2 == 0 && to % 2 == 1 && (from + 2 * to) % 3 == 1
    });
    let mut shown = taken.clone();
    shown.retain(|pair| *pair != (8, 1));
    plain(10, draw, [or(path(taken, 180.0), [Fault::Path(shown)])])
}

/// Ports 4 to 7 are in one cage.
fn broken_cage(draw: &mut Draw) -> World {
    let lane = block([4, 5], 0..8, 110.0);
    plain(8, draw, [lane, receive(8, 6, 88.0)])
}

/// Port 2's sent traffic is copied to port 6, where it meets the traffic that port 6 should receive. Each alone has its full rate.
fn forgotten_mirror(draw: &mut Draw) -> World {
    let meet = pairs(8, |from, to| from == 2 || to == 6);
    plain(8, draw, [path(meet, 100.0)])
}

/// Two of these pairs meet in the shift by 1, and the third is alone in the shift by 2.
fn one_buffer(draw: &mut Draw) -> World {
    plain(4, draw, [path(vec![(0, 1), (1, 3), (2, 3)], 84.0)])
}

fn slow_to_far_leaf(draw: &mut Draw) -> World {
    leaves(8, draw, [block([2], 4..8, 60.0)])
}

fn slow_from_a_few(draw: &mut Draw) -> World {
    plain(9, draw, [block([0, 2, 7], [4], 86.0)])
}

fn two_half_duplex(draw: &mut Draw) -> World {
    plain(5, draw, [both_ways(5, 1, 130.0), both_ways(5, 3, 165.0)])
}

fn throttled(draw: &mut Draw) -> World {
    let heat = Hidden {
        often: 0.5,
        ..block(0..9, 0..9, 540.0)
    };
    plain(9, draw, [heat])
}

fn two_that_come_and_go(draw: &mut Draw) -> World {
    let faults = [receive(10, 6, 50.0), block(0..3, 0..10, 150.0)];
    let come_and_go = faults.map(|fault| Hidden {
        often: 0.5,
        ..fault
    });
    plain(10, draw, come_and_go)
}

/// The uplink leaves 60 to each of four links, the port 40 to its own, and the pair 20.
fn fault_in_a_fault(draw: &mut Draw) -> World {
    let port = block([2], 4..8, 40.0);
    let pair = hidden([(2, 7)], 20.0, Fault::Pair(2, 7));
    let mut world = leaves(8, draw, [port, pair]);
    world.add_uplink(0, 0.6);
    world
}

/// The cables of ports 2 and 7 are swapped: the first leaf's uplink carries port 7 instead of port 2.
fn swapped_cables(draw: &mut Draw) -> World {
    let uplink = block([0, 1, 3, 4, 7], [2, 5, 6, 8, 9], 240.0);
    leaves(10, draw, [uplink])
}

/// Traffic that leaves the first leaf has its full rate.
fn hairpin(draw: &mut Draw) -> World {
    leaves(10, draw, [block(0..5, 0..5, 180.0)])
}

/// Three of its links meet in the shift by 3 and three in the shift by 8, so that a test of the plan shows only these six.
fn policed_tenant(draw: &mut Draw) -> World {
    let tenant = [0, 3, 6, 9];
    let policer = block(tenant, tenant, 255.0);
    let shown = vec![(0, 3), (3, 0), (3, 6), (6, 3), (6, 9), (9, 6)];
    plain(11, draw, [or(policer, [Fault::Path(shown)])])
}

/// Odd shifts go through the router as a whole, even ones not at all. One direction alone never fills it.
fn router_on_a_stick(draw: &mut Draw) -> World {
    let routed = pairs(8, |from, to| (from + to) % 2 == 1);
    plain(8, draw, [path(routed, 450.0)])
}
