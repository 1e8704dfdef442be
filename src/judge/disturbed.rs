//! Tests that a host disturbed: measured once more as they were, and judged by that if the host keeps up then.
//!
//! A host that was at its own limit in one window and not in the same test again says nothing of the switch, and nothing that
//! need be excused. Nothing is replaced unless all is well then: whatever else fell short keeps every word against it.

use crate::plan::{Purpose, Test};
use crate::record::TestRecord;

use super::Decision;
use super::case::{Case, Pass};
use super::confirm::Request;
use super::view::View;

/// What is to be done about tests that hosts disturbed.
pub enum Disturbed {
    /// Nothing: there are none, more was amiss, or it was so again.
    Stands,
    /// This one must be measured once more.
    Open(Request),
    /// These were well when they were repeated: the test, and its repeat.
    Well(Vec<(usize, usize)>),
}

/// Looks for them in what was decided.
pub fn look(view: &View, decision: &Decision) -> Disturbed {
    let only_hosts = decision.confirmed.is_empty() && decision.undecided.is_empty();
    if !only_hosts || decision.host_limited.is_empty() {
        return Disturbed::Stands;
    }
    let case = Case::new(&view.fabric, &view.observations);
    let is_short = |pass: &Pass| pass.judged && pass.is_short();
    let mut short: Vec<usize> = Vec::new();
    for place in &decision.host_limited {
        let passes = case.passes(*place).into_iter();
        let passes = passes.filter(|pass| !pass.isolated && is_short(pass));
        short.extend(passes.map(|pass| pass.test));
    }
    short.sort_unstable();
    short.dedup();
    let is_well = |test: usize| {
        let places = (0..view.fabric.places()).map(|number| view.fabric.place(number));
        let passes = places.flat_map(|place| case.passes(place));
        let mut own = passes.filter(|pass| pass.test == test).peekable();
        own.peek().is_some() && own.all(|pass| !is_short(&pass))
    };
    let mut well = Vec::new();
    for test in short {
        match view.repeats.get(&test) {
            Some(repeat) if is_well(*repeat) => well.push((test, *repeat)),
            Some(_) => return Disturbed::Stands,
            None => {
                return Disturbed::Open(Request {
                    again: Some(test),
                    ..Request::of(Vec::new())
                });
            }
        }
    }
    Disturbed::Well(well)
}

/// Which earlier test a second look repeats as it was, if it does.
pub fn repeated(tests: &[Test], records: &[TestRecord], look: usize) -> Option<usize> {
    let own = tests
        .get(look)
        .filter(|own| own.purpose == Purpose::Isolated)?;
    let alike = |test: &Test| {
        test.purpose != Purpose::Isolated
            && (&test.pattern, test.phases, test.streams, test.bound)
                == (&own.pattern, own.phases, own.streams, own.bound)
            && test.paces == own.paces
    };
    let mut earlier = records
        .iter()
        .map(|record| record.test)
        .filter(|test| *test < look);
    earlier.find(|test| tests.get(*test).is_some_and(alike))
}

/// A view in which repeats stand for what they repeated.
pub fn replace(view: &mut View, replaced: &[(usize, usize)]) {
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
    use crate::judge::fabric::{Observation, Seen};
    use crate::judge::fault::Fault;
    use crate::judge::filling::Flow;
    use crate::judge::{Step, decide};
    use crate::record::Basis;

    use super::*;
    use crate::judge::fabric::Place;

    /// A ring of four; one of its links carries so much, with the receiving host at its limit or not.
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
        // It was so again: the host is what is slow.
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
