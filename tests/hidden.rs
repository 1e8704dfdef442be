//! Tests the judge on fabrics with hidden resources (tests/fabrics), of which it knows nothing. `cargo bench --bench judge` draws thousands.

mod fabrics;

use std::collections::BTreeSet;

use fabrics::unlisted::ALL;
use fabrics::{Draw, Kind, Tally, World, trial, trial_by};
use pipebench::internals::judge::fabric::Place;
use pipebench::internals::judge::fault::Fault;
use pipebench::internals::judge::{Decision, Step, decide};

/// Number of draws of each kind; the benchmark can make any number.
const DRAWS: u64 = 20;

/// Requires that no deficit passes, no innocent part is blamed, and 95 % of the cases are right.
fn must_be_found(kinds: &[Kind]) {
    let (mut all, mut right) = (0, 0);
    let mut wrong = Vec::new();
    for kind in kinds {
        let tally: Tally = trial(*kind, 1..=DRAWS, None);
        assert_eq!(
            tally.passed,
            0,
            "{kind:?}: passed over\n{}",
            tally.wrong.join("\n")
        );
        assert_eq!(
            tally.innocent,
            0,
            "{kind:?}: innocent\n{}",
            tally.wrong.join("\n")
        );
        all += tally.all;
        right += tally.right;
        wrong.extend(tally.wrong);
    }
    assert!(
        right * 100 >= all * 95,
        "{right} of {all} right\n{}",
        wrong.join("\n")
    );
}

#[test]
fn ports_and_pairs_are_found_one_two_and_three_at_a_time() {
    must_be_found(&[
        Kind::Port,
        Kind::BothWays,
        Kind::Pair,
        Kind::TwoPorts,
        Kind::ThreeFaults,
        Kind::PairBesidePort,
    ]);
}

#[test]
fn an_uplink_as_fast_as_its_ports_is_judged_by_its_sum() {
    must_be_found(&[Kind::FullUplink, Kind::HalfUplink]);
}

/// Two links over an uplink that carries 80 % got 61 and 101 % of their ports in each such test, and one port was named as one that comes and goes.
#[test]
fn an_uplink_of_which_one_link_always_gets_more_is_named_and_no_port() {
    for seed in 1..=DRAWS {
        let mut draw = Draw::new(seed);
        let mut world = World::new(Kind::FullUplink, 4, 0.8, &mut draw);
        world.meek = [(1, 0.6), (3, 0.6)].into_iter().collect();
        let outcome = world.judge(&mut draw);
        assert!(world.is_right(&outcome), "{seed}: {:#?}", outcome.decision);
    }
}

#[test]
fn what_is_shared_unevenly_is_named_and_no_port() {
    for kind in [Kind::FullUplink, Kind::HiddenUplink, Kind::Backplane] {
        let tally = trial_by(kind, 1..=DRAWS, Some(0.8), false, 0.3);
        let wrong = tally.wrong.join("\n");
        assert_eq!((tally.innocent, tally.passed), (0, 0), "{wrong}");
        assert!(
            tally.right * 100 >= tally.all * 90,
            "{kind:?} {}\n{wrong}",
            tally.right
        );
    }
}

/// A host with a flapping cable (real rates, in percent): both of its ports were blamed, and also a pair that was as slow with the other host.
#[test]
fn no_pair_is_blamed_at_a_port_that_was_well_with_nobody() {
    let mut draw = Draw::new(1);
    let world = World::new(Kind::Sound, 3, 1.0, &mut draw);
    let loads: [&[(usize, usize, f64)]; 5] = [
        &[(0, 1, 65.0), (1, 2, 26.0), (2, 0, 100.0)],
        &[(0, 2, 100.0), (1, 0, 26.0), (2, 1, 44.0)],
        &[
            (0, 1, 3.0),
            (0, 2, 96.0),
            (1, 0, 24.0),
            (1, 2, 4.0),
            (2, 0, 36.0),
            (2, 1, 3.0),
        ],
        &[
            (0, 1, 1.0),
            (0, 2, 77.0),
            (1, 0, 12.0),
            (1, 2, 12.0),
            (2, 0, 89.0),
            (2, 1, 10.0),
        ],
        &[
            (0, 1, 11.0),
            (0, 2, 87.0),
            (1, 0, 5.0),
            (1, 2, 9.0),
            (2, 0, 94.0),
            (2, 1, 5.0),
        ],
    ];
    let looks: [&[(usize, usize, f64)]; 15] = [
        &[(0, 1, 56.0), (1, 2, 27.0), (2, 0, 100.0)],
        &[(0, 1, 58.0)],
        &[(1, 2, 27.0)],
        &[(2, 0, 100.0)],
        &[(2, 1, 43.0)],
        &[(1, 0, 34.0)],
        &[(0, 2, 100.0)],
        &[(2, 0, 100.0)],
        &[(1, 2, 28.0)],
        &[(2, 0, 100.0)],
        &[(2, 0, 100.0)],
        &[(2, 0, 100.0)],
        &[(2, 0, 100.0)],
        &[(2, 0, 100.0)],
        &[(0, 2, 100.0), (1, 0, 27.0), (2, 1, 42.0)],
    ];
    let loads = loads.iter().map(|rates| (false, rates));
    let all = loads.chain(looks.iter().map(|rates| (true, rates)));
    let seen = all.enumerate().map(|(test, (isolated, rates))| {
        let pairs: Vec<(usize, usize)> = rates.iter().map(|(from, to, _)| (*from, *to)).collect();
        let mut seen = world.observe(&pairs, isolated, test, &mut draw);
        for (link, (.., rate)) in seen.links.iter_mut().zip(*rates) {
            link.rate = *rate;
        }
        seen
    });
    let seen: Vec<_> = seen.collect();
    let Step::Done(decision) = decide(&world.fabric, &seen) else {
        panic!("there is nothing more to be learnt");
    };
    let blamed: Vec<&Fault> = decision.confirmed.iter().map(|one| &one.fault).collect();
    assert!(
        blamed.contains(&&Fault::Place(Place::Send(1))),
        "{decision:?}"
    );
    let pair = blamed.iter().find(|fault| matches!(fault, Fault::Pair(..)));
    assert!(pair.is_none(), "{decision:?}");
}

/// All eight ports together carry 80 %. Without the port at its floor, the other seven have enough room.
#[test]
fn a_backplane_beside_a_port_at_its_floor_is_named() {
    for seed in 1..=5 {
        let mut draw = Draw::new(seed);
        let mut world = World::new(Kind::Sound, 8, 1.0, &mut draw);
        world.add_of(Fault::Place(Place::Receive(3)), 93.0);
        let all = Fault::of_all(&world.fabric);
        world.add_of(all.clone(), 640.0);
        let decision = world.judge(&mut draw).decision;
        let blamed: Vec<&Fault> = decision.confirmed.iter().map(|one| &one.fault).collect();
        assert_eq!(blamed, [&all], "{seed}: {decision:?}");
    }
}

#[test]
fn a_bundle_with_an_unlucky_hash_does_not_pass() {
    must_be_found(&[Kind::MemberByPort, Kind::MemberByAddress]);
}

#[test]
fn what_several_ports_share_is_found() {
    must_be_found(&[
        Kind::Backplane,
        Kind::HiddenUplink,
        Kind::Chip,
        Kind::SharedPath,
    ]);
}

/// Only one permutation fills the uplink, and eight ways to halve the ports explain that.
#[test]
fn an_uplink_between_halves_that_one_permutation_fills_is_found_soon() {
    let halves: [Vec<usize>; 2] = [(0..4).collect(), (4..8).collect()];
    let mut looks = Vec::new();
    for seed in 1..=DRAWS {
        let mut draw = Draw::new(seed);
        let mut world = World::new(Kind::Sound, 8, 1.0, &mut draw);
        for (from, to) in [(0, 1), (1, 0)] {
            let (from, to) = (halves[from].clone(), halves[to].clone());
            world.add_of(Fault::Shared { from, to }, 320.0);
        }
        let outcome = world.judge(&mut draw);
        let decision = &outcome.decision;
        assert_eq!(
            world.named(decision),
            BTreeSet::from([16, 17]),
            "{seed}: {decision:#?}"
        );
        assert!(!world.blames_innocents(decision), "{seed}: {decision:#?}");
        looks.push(outcome.looks);
    }
    assert!(looks.iter().all(|looks| *looks <= 16), "{looks:?}");
}

#[test]
fn nothing_hides_behind_a_confirmed_fault() {
    must_be_found(&[Kind::PortBesideBackplane, Kind::PortBesideUplink]);
}

#[test]
fn a_port_that_cannot_carry_both_ways_at_once_is_named() {
    must_be_found(&[Kind::HalfDuplex]);
}

#[test]
fn a_port_that_comes_and_goes_is_named_and_none_of_its_partners() {
    must_be_found(&[Kind::ComesAndGoes]);
}

#[test]
fn sound_fabrics_pass_without_a_second_look() {
    for kind in [Kind::Sound, Kind::SoundFullUplink, Kind::SoundHalfUplink] {
        let tally = trial(kind, 1..=100, None);
        assert_eq!(
            tally.right,
            tally.all,
            "{kind:?}\n{}",
            tally.wrong.join("\n")
        );
        assert!(tally.looks.iter().all(|looks| *looks == 0), "{kind:?}");
    }
}

#[test]
fn a_port_at_92_per_cent_among_many_does_not_pass_where_peers_judge() {
    for left in [0.92, 0.95, 0.96] {
        let tally = trial_by(Kind::Port, 1..=20, Some(left), true, 0.1);
        assert!(
            tally.named >= 19 && tally.innocent == 0,
            "{:#?}",
            tally.wrong
        );
    }
    let sound = trial_by(Kind::Sound, 1..=20, None, true, 0.1);
    assert_eq!(sound.right, 20, "{:#?}", sound.wrong);
}

#[test]
fn a_port_that_was_full_with_another_partner_is_not_blamed() {
    let one_buffer = ALL.iter().find(|one| one.what.contains("one buffer"));
    let one_buffer = one_buffer.expect("it is among them");
    for seed in 0..20 {
        let mut draw = Draw::new(one_buffer.seed + seed);
        let world = (one_buffer.world)(&mut draw);
        let outcome = world.judge(&mut draw);
        let decision = &outcome.decision;
        assert!(!world.blames_innocents(decision), "{seed}: {decision:?}");
        assert_ne!(*decision, Decision::default(), "{seed}");
    }
}

/// At least 19 of 20 pairs of runs on one fabric end with the same word. They blame the same parts if both are a FAIL.
#[test]
fn two_runs_on_one_fabric_say_the_same() {
    let kinds = [&Kind::WRONG[..], &[Kind::Sound, Kind::SoundFullUplink]].concat();
    let (mut all, mut differ) = (0, Vec::new());
    for (number, kind) in (0_u64..).zip(kinds.iter().cycle().take(60)) {
        let mut draw = Draw::new(77_000 + number);
        let (ports, left) = (4 + draw.below(7), draw.between(0.5, 0.82));
        let world = World::new(*kind, ports, left, &mut draw);
        let runs = [1, 2].map(|run| world.judge(&mut Draw::new(number * 10 + run)).decision);
        let word = |decision: &Decision| {
            (
                decision.confirmed.is_empty(),
                *decision == Decision::default(),
            )
        };
        let [one, other] = &runs;
        all += 1;
        if word(one) != word(other) {
            differ.push(format!("{kind:?} {number}: {one:?}, {other:?}"));
        } else if !one.confirmed.is_empty() {
            assert_eq!(world.named(one), world.named(other), "{kind:?} {number}");
        }
    }
    assert!(differ.len() * 20 <= all, "{}", differ.join("\n"));
}
