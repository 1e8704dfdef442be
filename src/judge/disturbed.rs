//! Repeats tests that a host or chance disturbed, and judges the repeat instead if all is well in it.
//!
//! A host that was at its own limit in one window, but not in a repeat of the test, says nothing about the switch and needs no excuse.
//! The same holds for what several links share, if they leave it less than full in that window only. For an uplink for which more links compete
//! than it can carry, TCP does that in every fifth test of two seconds. For a port with several links it happens by a little, in about every
//! fortieth. A repeat replaces a test only if all is well in it: any other deficit remains as evidence.

use std::collections::BTreeSet;

use crate::plan::{Purpose, Test};

use super::Decision;
use super::case::{Case, Pass};
use super::confirm::Request;
use super::fabric::Place;
use super::thresholds::{PORT_BY_CHANCE, RISING_LACKS, UPLINK_BY_CHANCE};
use super::view::View;

/// Next step for tests that hosts or chance disturbed.
pub(crate) enum Disturbed {
    /// Nothing to do: there is no such test, other places fell short, or the repeat shows the same.
    Stands,
    /// This test must be repeated.
    Open(Request),
    /// Tests that were well when they were repeated: the test, and its repeat.
    Well(Vec<(usize, usize)>),
}

/// Maximum repeats of a test in which links left what they shared less than full.
const REPEATS_OF_CHANCE: usize = 2;

/// Looks for disturbed tests among those of a decision.
pub(crate) fn look(view: &View, decision: &Decision) -> Disturbed {
    let case = Case::new(&view.fabric, &view.observations);
    let by_chance = competed(view, &case);
    let only_hosts = decision.confirmed.is_empty() && decision.undecided.is_empty();
    let (short, times) = match by_chance.is_empty() {
        false => (by_chance, REPEATS_OF_CHANCE),
        true if only_hosts => (limited(&case, decision), 1),
        true => return Disturbed::Stands,
    };
    let is_well = |test: usize| {
        let places = view.fabric.all_places();
        let passes = places.flat_map(|place| case.passes(place));
        let mut own = passes.filter(|pass| pass.test == test).peekable();
        own.peek().is_some() && own.all(|pass| !is_short(&pass))
    };
    let mut well = Vec::new();
    for test in &short {
        let repeats: Vec<usize> = view.repeats_of(*test).collect();
        match repeats.iter().find(|repeat| is_well(**repeat)) {
            Some(repeat) => well.push((*test, *repeat)),
            None if repeats.len() >= times => return Disturbed::Stands,
            None => return Disturbed::Open(Request::again(*test)),
        }
    }
    match well.is_empty() {
        true => Disturbed::Stands,
        false => Disturbed::Well(well),
    }
}

fn is_short(pass: &Pass) -> bool {
    pass.judged && pass.is_short()
}

/// Tests under load in which ports fell short that the decision calls limited by their hosts.
fn limited(case: &Case<'_>, decision: &Decision) -> BTreeSet<usize> {
    let places = decision.host_limited.iter();
    let passes = places.flat_map(|place| case.passes(*place));
    let short = passes.filter(|pass| !pass.isolated && is_short(pass));
    short.map(|pass| pass.test).collect()
}

/// Tests in which links shared an uplink or a port and left it less than full. Empty if anything else fell short, or if such a place was not full
/// in the tests in which its links shared nothing.
fn competed(view: &View, case: &Case<'_>) -> BTreeSet<usize> {
    let mut tests = BTreeSet::new();
    for (place, share) in case.suspects() {
        let (by_chance, free): (Vec<Pass>, Vec<Pass>) = case
            .passes(place)
            .into_iter()
            .filter(|pass| pass.judged && !pass.isolated)
            .partition(|pass| case.by_chance(place, pass.test));
        let mut short_shared = by_chance.iter().filter(|pass| pass.is_short());
        let is_chance = matches!(place, Place::Up(_) | Place::Down(_))
            || short_shared.all(|pass| rises(view, place, pass.test));
        let least = match is_chance {
            true => UPLINK_BY_CHANCE,
            false => PORT_BY_CHANCE,
        };
        if share < least || free.is_empty() || free.iter().any(Pass::is_short) {
            return BTreeSet::new();
        }
        let short = by_chance.iter().filter(|pass| pass.is_short());
        let short: Vec<usize> = short.map(|pass| pass.test).collect();
        if short.len() > 1 && short.len() * 2 > by_chance.len() {
            return BTreeSet::new(); // A deficit in most tests is not chance.
        }
        tests.extend(short);
    }
    // Repeats are not repeated.
    tests.retain(|test| !view.all_repeats.iter().any(|(_, repeat)| repeat == test));
    tests
}

/// True if links that recover their rate cause a port's deficit in a test. If the port is slow itself, other links lose what one link gains.
fn rises(view: &View, place: Place, test: usize) -> bool {
    let own = view.observations.iter().find(|one| one.test == test);
    let Some(observation) = own else {
        return false;
    };
    let rising = |pair: (usize, usize)| {
        let mut links = observation.links.iter();
        links.any(|link| (link.from, link.to) == pair && link.rising)
    };
    let (mut lacks, mut rise) = (0.0, 0.0);
    for (pair, share) in observation.shares() {
        if place.is_end_of(pair) {
            let lack = share.expected - share.rate;
            lacks += lack;
            rise += if rising(pair) { lack } else { 0.0 };
        }
    }
    lacks > 0.0 && rise >= RISING_LACKS * lacks
}

/// Earlier tests that a retest repeats unchanged: all that are alike.
pub(crate) fn repeated(tests: &[Test], run: &[usize], look: usize) -> Vec<usize> {
    let Some(own) = tests
        .get(look)
        .filter(|own| own.purpose == Purpose::Isolated)
    else {
        return Vec::new();
    };
    let alike = |test: &Test| {
        test.purpose != Purpose::Isolated
            && (&test.pattern, test.phases, test.streams, test.bound)
                == (&own.pattern, own.phases, own.streams, own.bound)
            && test.paces == own.paces
    };
    let earlier = run.iter().copied().filter(|test| *test < look);
    earlier
        .filter(|test| tests.get(*test).is_some_and(alike))
        .collect()
}

/// Replaces tests in a view by their repeats.
pub(crate) fn replace(view: &mut View, replaced: &[(usize, usize)]) {
    let is_replaced = |test: usize| replaced.iter().any(|(first, _)| *first == test);
    view.observations.retain(|one| !is_replaced(one.test));
    view.limits.retain(|(test, _), _| !is_replaced(*test));
    for one in &mut view.observations {
        one.isolated &= !replaced.iter().any(|(_, repeat)| *repeat == one.test);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::judge::fabric::tests::of_hosts;
    use crate::judge::fabric::{Fabric, Observation, Seen};
    use crate::judge::fault::Fault;
    use crate::judge::filling::Flow;
    use crate::judge::{Step, decide};
    use crate::record::Basis;

    use super::*;

    /// A ring of four hosts. One link carries `rate`, and its receiving host is at its limit if `limited`.
    fn ring(test: usize, isolated: bool, rate: f64, limited: bool) -> Observation {
        let places = 8;
        let pairs: Vec<(usize, usize)> = (0..4).map(|from| (from, (from + 1) % 4)).collect();
        let fabric = of_hosts(4);
        Observation {
            test,
            isolated,
            capacities: vec![100.0; places],
            flows: pairs
                .iter()
                .map(|(from, to)| Flow {
                    route: fabric.way(*from, *to),
                    weight: 1.0,
                    cap: f64::INFINITY,
                })
                .collect(),
            links: pairs
                .iter()
                .map(|(from, to)| Seen {
                    from: *from,
                    to: *to,
                    rate: if *to == 1 { rate } else { 100.0 },
                    links: 1,
                    ..Seen::default()
                })
                .collect(),
            pairs,
            host_limited: (0..4).map(|host| limited && host == 1).collect(),
            waiting: vec![0.0; 4],
            ..Observation::default()
        }
    }

    fn view(observations: Vec<Observation>, repeats: &[(usize, usize)]) -> View {
        View {
            fabric: of_hosts(4),
            ports: Vec::new(),
            groups: Vec::new(),
            basis: Basis::Ordered,
            observations,
            limits: BTreeMap::from([((0, 1), "why".to_owned())]),
            repeats: repeats.iter().copied().collect(),
            all_repeats: repeats.to_vec(),
            stretches: BTreeMap::new(),
            unfit: BTreeMap::new(),
        }
    }

    fn limited() -> Decision {
        Decision {
            host_limited: vec![Place::Receive(1)],
            ..Decision::default()
        }
    }

    #[test]
    fn a_test_that_a_host_disturbed_is_measured_once_more_and_no_more() {
        let first = ring(0, false, 30.0, true);
        let Disturbed::Open(request) = look(&view(vec![first.clone()], &[]), &limited()) else {
            panic!("it is to be measured");
        };
        assert_eq!(request.again, Some(0));
        // The repeat shows the same, so the host is slow.
        let again = vec![first.clone(), ring(3, true, 30.0, true)];
        assert!(matches!(
            look(&view(again, &[(0, 3)]), &limited()),
            Disturbed::Stands
        ));
        let well = vec![first, ring(3, true, 95.0, false)];
        let mut view = view(well, &[(0, 3)]);
        let Disturbed::Well(replaced) = look(&view, &limited()) else {
            panic!("it was well");
        };
        assert_eq!(replaced, [(0, 3)]);
        replace(&mut view, &replaced);
        assert_eq!(view.observations.len(), 1);
        assert!(!view.observations[0].isolated && view.limits.is_empty());
        let clean = decide(&view.fabric, &view.observations);
        assert_eq!(clean, Step::Done(Decision::default()));
    }

    /// A test that was one of several alike was repeated without end, because its repeat counted only for the first of them.
    #[test]
    fn a_repeat_is_one_of_all_tests_that_are_alike() {
        use crate::plan::lanes::tests::test_of;
        let look = Test {
            purpose: Purpose::Isolated,
            ..test_of(2, 1)
        };
        let other = test_of(2, 2);
        let tests = [test_of(2, 1), other, test_of(2, 1), look];
        let run = [0, 1, 2, 3];
        assert_eq!(repeated(&tests, &run, 3), [0, 2]);
        assert!(repeated(&tests, &run, 2).is_empty());
    }

    /// Two hosts in each of two groups, with uplinks as fast as one port. A shift by one fills the uplinks; a shift by two competes for them.
    fn shift(test: usize, isolated: bool, by: usize, share: f64) -> (Fabric, Observation) {
        let mut fabric = of_hosts(4);
        fabric.groups = 2;
        for (number, port) in fabric.ports.iter_mut().enumerate() {
            port.group = Some(number / 2);
        }
        let mut one = ring(test, isolated, 100.0, false);
        one.pairs = (0..4).map(|from| (from, (from + by) % 4)).collect();
        one.capacities = vec![100.0; fabric.places()];
        for ((flow, link), pair) in one.flows.iter_mut().zip(&mut one.links).zip(&one.pairs) {
            flow.route = fabric.way(pair.0, pair.1);
            (link.from, link.to) = *pair;
            link.rate = share * if by == 2 { 0.5 } else { 1.0 };
        }
        (fabric, one)
    }

    #[test]
    fn an_uplink_that_links_left_less_than_full_by_chance_is_no_suspect() {
        let looked = |first: &[(usize, bool, usize, f64)], repeats: &[(usize, usize)]| {
            let all = first.iter();
            let all = all.map(|(test, alone, by, share)| shift(*test, *alone, *by, *share));
            let (fabrics, seen): (Vec<Fabric>, Vec<Observation>) = all.unzip();
            let mut view = view(seen, repeats);
            view.fabric = fabrics[0].clone();
            look(&view, &Decision::default())
        };
        let first = [(0, false, 1, 100.0), (1, false, 2, 80.0)];
        let asks = |found| matches!(found, Disturbed::Open(request) if request.again == Some(1));
        assert!(asks(looked(&first, &[])));
        let with = |more: &[(usize, bool, usize, f64)]| [&first[..], more].concat();
        let short = with(&[(2, true, 2, 82.0)]);
        assert!(asks(looked(&short, &[(1, 2)])), "once more");
        let well = [&short[..], &[(3, true, 2, 97.0)]].concat();
        let found = looked(&well, &[(1, 2), (1, 3)]);
        assert!(matches!(found, Disturbed::Well(replaced) if replaced == [(1, 3)]));
        let again = [&short[..], &[(3, true, 2, 81.0)]].concat();
        let found = looked(&again, &[(1, 2), (1, 3)]);
        assert!(matches!(found, Disturbed::Stands), "it is no chance");
        // An uplink that was not full without competition is not excused.
        let slow = [(0, false, 1, 80.0), (1, false, 2, 80.0)];
        assert!(matches!(looked(&slow, &[]), Disturbed::Stands));
        // A deficit in most tests is not excused either, even if one repeat is well.
        let mostly = [first[0], first[1], (2, false, 2, 80.0), (3, true, 2, 97.0)];
        let found = looked(&mostly, &[(1, 3), (2, 3)]);
        assert!(matches!(found, Disturbed::Stands));
        // Half of the expected rate is not excused either.
        let half = [(0, false, 1, 100.0), (1, false, 2, 50.0)];
        assert!(matches!(looked(&half, &[]), Disturbed::Stands));
    }

    /// All hosts send to all. The link from the first to the second carries less, so that both of its ports carry `share` per cent.
    fn mesh(test: usize, isolated: bool, share: f64) -> Observation {
        let fabric = of_hosts(4);
        let all = (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
        let pairs: Vec<(usize, usize)> = all.filter(|(from, to)| from != to).collect();
        let each = 100.0 / 3.0;
        let flow = |pair: &(usize, usize)| Flow {
            route: fabric.way(pair.0, pair.1),
            weight: 1.0,
            cap: f64::INFINITY,
        };
        let link = |pair: &(usize, usize)| Seen {
            from: pair.0,
            to: pair.1,
            rate: if *pair == (0, 1) {
                each - 100.0 + share
            } else {
                each
            },
            links: 1,
            ..Seen::default()
        };
        Observation {
            flows: pairs.iter().map(flow).collect(),
            links: pairs.iter().map(link).collect(),
            pairs,
            ..ring(test, isolated, 100.0, false)
        }
    }

    #[test]
    fn a_port_that_its_links_left_less_than_full_by_chance_is_no_suspect() {
        let looked = |seen: Vec<Observation>, repeats: &[(usize, usize)]| {
            look(&view(seen, repeats), &Decision::default())
        };
        let first = |share: f64| vec![ring(0, false, 100.0, false), mesh(1, false, share)];
        let asks = |found| matches!(found, Disturbed::Open(request) if request.again == Some(1));
        assert!(asks(looked(first(88.0), &[])));
        let repeated = [first(88.0), vec![mesh(2, true, 99.0)]].concat();
        let found = looked(repeated, &[(1, 2)]);
        assert!(matches!(found, Disturbed::Well(replaced) if replaced == [(1, 2)]));
        // A deficit of more than 15 % is not chance, and neither is a deficit without sharing.
        assert!(matches!(looked(first(84.0), &[]), Disturbed::Stands));
        // It is chance if the link with the deficit carried more and more.
        let mut rising = first(78.0);
        let link = rising[1]
            .links
            .iter_mut()
            .find(|link| (link.from, link.to) == (0, 1));
        link.expect("it is there").rising = true;
        assert!(asks(looked(rising, &[])));
        let alone = vec![ring(0, false, 88.0, false), mesh(1, false, 88.0)];
        assert!(matches!(looked(alone, &[]), Disturbed::Stands));
    }

    #[test]
    fn where_more_was_amiss_nothing_is_measured_once_more() {
        let seen = || vec![ring(0, false, 30.0, true)];
        let mut decision = limited();
        decision.undecided = vec![(Fault::Place(Place::Send(2)), 0.5)];
        assert!(matches!(
            look(&view(seen(), &[]), &decision),
            Disturbed::Stands
        ));
        assert!(matches!(
            look(&view(seen(), &[]), &Decision::default()),
            Disturbed::Stands
        ));
    }
}
