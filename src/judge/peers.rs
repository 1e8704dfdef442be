//! Finds ports that carry less than ports like them. That alone is a remark and no reason to fail, since a class of sound ports has a
//! slowest one, too.
//!
//! Only classes of six members or more count: with three hosts, a slow one owns four of six links, and the median is the fault.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::show_rate;
use numbers::spread::{NORMAL, median, median_size, sigmas_exceeded_with, usual};
use numbers::whole;

use super::Decision;
use super::case::Case;
use super::fabric::{Fabric, Observation, Place};
use super::thresholds::{ODD_CHANCE, PEERS};
use super::view::View;

/// Minimum size of a class: fewer members say nothing about each other.
const MEMBERS: usize = 6;

/// A port direction far below those like it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odd {
    /// The port direction.
    pub place: Place,
    /// Payload in bits per second.
    pub rate: f64,
    /// Median of its class, in bits per second.
    pub median: f64,
    /// Distance below the median, in standard deviations of its class.
    pub sigmas: f64,
    /// Number of members of its class.
    pub members: usize,
    /// Index of the test.
    pub test: usize,
}

/// A port direction that carries a little less than the others of its speed, in most tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behind {
    /// The port direction.
    pub place: Place,
    /// Its rate as a share of the median of those like it; the median over its tests.
    pub share: f64,
    /// Number of members of its class.
    pub members: usize,
    /// Number of tests that compare it.
    pub tests: usize,
}

/// Port directions whose share of the median of their class is below [`PEERS`], in the median over their tests; the worst first. Leaves out those
/// within the usual scatter of all, and tests in which a known fault holds a direction down.
pub fn behind(case: &Case<'_>, held_down: &dyn Fn(Place, usize) -> bool) -> Vec<Behind> {
    let mut shares: BTreeMap<usize, (Vec<f64>, usize)> = BTreeMap::new();
    for class in case.alike(held_down) {
        if class.len() < MEMBERS {
            continue;
        }
        let mut all: Vec<f64> = class.iter().map(|(_, share)| *share).collect();
        let median = median(&mut all).max(f64::MIN_POSITIVE);
        for (place, share) in &class {
            let (known, members) = shares.entry(*place).or_default();
            known.push(share / median);
            *members = class.len();
        }
    }
    let all: Vec<Behind> = shares
        .into_iter()
        .map(|(place, (mut shares, members))| Behind {
            place: case.fabric.place(place),
            share: median(&mut shares),
            members,
            tests: shares.len(),
        })
        .collect();
    let off: Vec<f64> = all.iter().map(|one| one.share - 1.0).collect();
    let far =
        sigmas_exceeded_with(ODD_CHANCE / all.len().max(1) as f64) * NORMAL * median_size(&off);
    let limit = PEERS.min(1.0 - far);
    let mut behind: Vec<Behind> = all.into_iter().filter(|one| one.share < limit).collect();
    behind.sort_by(|a, b| a.share.total_cmp(&b.share));
    behind
}

/// Port directions that are behind and that no known fault explains.
pub fn raised(
    fabric: &Fabric,
    observations: &[Observation],
    decision: &Decision,
) -> BTreeSet<Place> {
    let case = Case::new(fabric, observations);
    let foreseen = case.foreseen(&decision.known());
    let held_down = |place, test| foreseen.is_short(fabric.number(place), test);
    let behind = behind(&case, &held_down).into_iter();
    behind.map(|one| one.place).collect()
}

/// Sentence on a port direction that is behind.
pub fn behind_sentence(view: &View, behind: &Behind) -> String {
    let (label, direction) = named(view, behind.place);
    let tests = match behind.tests {
        1 => "its test".to_owned(),
        several => format!("the median of {several} tests"),
    };
    format!(
        "{label} {direction} carries {:.1} % less than its {} peers, in {tests}",
        (1.0 - behind.share) * 100.0,
        behind.members - 1,
    )
}

/// Key of a class: true for sending, speed in bits per second, expected rate in bits per second, number of links.
type Class = (bool, Option<u64>, Option<u64>, usize);

/// Every port direction that differs from its class, in its worst test. Leaves out tests in which a known fault holds a direction down.
pub fn odd(view: &View, held_down: &dyn Fn(Place, usize) -> bool) -> Vec<Odd> {
    let loads = view
        .observations
        .iter()
        .filter(|one| !one.isolated && !one.paced && one.only.is_none());
    let classes: Vec<(usize, Vec<(usize, f64)>)> = loads
        .flat_map(|one| {
            classes(view, one, held_down)
                .into_values()
                .map(|class| (one.test, class))
        })
        .filter(|(_, class)| class.len() >= MEMBERS)
        .collect();
    let figures: usize = classes.iter().map(|(_, class)| class.len()).sum();
    let limit = sigmas_exceeded_with(ODD_CHANCE / figures.max(1) as f64);
    let mut worst: BTreeMap<usize, Odd> = BTreeMap::new();
    for (test, class) in &classes {
        let rates: Vec<f64> = class.iter().map(|(_, rate)| *rate).collect();
        let Some((median, scale)) = usual(&rates).filter(|(_, scale)| *scale > 0.0) else {
            continue;
        };
        for (place, rate) in class {
            let sigmas = (median - rate) / scale;
            let known = worst.get(place).map_or(limit, |odd| odd.sigmas);
            if sigmas > known {
                let odd = Odd {
                    place: view.fabric.place(*place),
                    rate: *rate,
                    median,
                    sigmas,
                    members: class.len(),
                    test: *test,
                };
                worst.insert(*place, odd);
            }
        }
    }
    let mut odd: Vec<Odd> = worst.into_values().collect();
    odd.sort_by(|a, b| b.sigmas.total_cmp(&a.sigmas));
    odd
}

/// Port directions of a test, grouped by the rate they should carry. Leaves out hosts at their limit.
fn classes(
    view: &View,
    observation: &Observation,
    held_down: &dyn Fn(Place, usize) -> bool,
) -> BTreeMap<Class, Vec<(usize, f64)>> {
    let fabric = &view.fabric;
    // The expected rates come from common ceilings, because the counted acknowledgements differ a little.
    let expected = observation.predicted(&view.loaded_ceilings(), &BTreeMap::new());
    let seen = observation.seen(fabric);
    let links = observation.links_at(fabric);
    let mut classes: BTreeMap<Class, Vec<(usize, f64)>> = BTreeMap::new();
    for (number, port) in view.ports.iter().enumerate() {
        if observation.host_limited.get(port.node) == Some(&true) {
            continue;
        }
        for (sends, place) in [(true, Place::Send(number)), (false, Place::Receive(number))] {
            if held_down(place, observation.test) {
                continue;
            }
            let place = fabric.number(place);
            if links[place] > 0 {
                let size = Some(expected[place]).filter(|size| size.is_finite());
                let size = size.map(whole);
                let class = (sends, port.speed_bits_per_s, size, links[place]);
                classes.entry(class).or_default().push((place, seen[place]));
            }
        }
    }
    classes
}

/// Sentence on a port direction that differs.
pub fn sentence(view: &View, odd: &Odd) -> String {
    let (label, direction) = named(view, odd.place);
    format!(
        "{label} {direction} differs from its {} peers: {}, their median is {} (test {}, {:.1} standard deviations)",
        odd.members - 1,
        show_rate(odd.rate),
        show_rate(odd.median),
        odd.test + 1,
        odd.sigmas
    )
}

/// Label of a port, and the word for its direction.
pub(super) fn named(view: &View, place: Place) -> (&str, &'static str) {
    let (port, direction) = match place {
        Place::Send(port) => (port, "send"),
        Place::Receive(port) | Place::Up(port) | Place::Down(port) => (port, "receive"),
    };
    let label = view.ports.get(port).map_or("", |port| port.label.as_str());
    (label, direction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fabric::Seen;
    use crate::judge::fabric::tests::of_hosts;
    use crate::judge::view::tests::of_node;
    use crate::record::Basis;
    use std::collections::BTreeMap;

    /// One permutation over ports. Each has a speed in Gbit/s, and sends at a share of it.
    fn view(ports: &[(u64, f64)]) -> View {
        let many = ports.len();
        let named = |(host, (gbit, _)): (usize, &(u64, f64))| of_node(host, *gbit);
        let mut view = View {
            fabric: of_hosts(many),
            ports: ports.iter().enumerate().map(named).collect(),
            groups: Vec::new(),
            basis: Basis::Ordered,
            observations: Vec::new(),
            limits: BTreeMap::new(),
            repeats: BTreeMap::new(),
            all_repeats: Vec::new(),
            stretches: BTreeMap::new(),
            unfit: BTreeMap::new(),
        };
        // Each port sends to the next one of its own speed, so that only its own port is narrow.
        let pairs: Vec<(usize, usize)> = (0..many)
            .map(|from| {
                let alike = |to: &usize| ports[*to].0 == ports[from].0;
                let next = (from + 1..many).chain(0..from).find(alike);
                (from, next.expect("two of each speed"))
            })
            .collect();
        let flow = |(from, to): &(usize, usize)| crate::judge::filling::Flow {
            route: view.fabric.way(*from, *to),
            weight: 1.0,
            cap: f64::INFINITY,
        };
        let seen = |(from, to): &(usize, usize)| Seen {
            from: *from,
            to: *to,
            rate: ports[*from].0 as f64 * 1e9 * ports[*from].1,
            links: 1,
            ..Seen::default()
        };
        view.observations = vec![Observation {
            flows: pairs.iter().map(flow).collect(),
            links: pairs.iter().map(seen).collect(),
            capacities: view.loaded_ceilings(),
            pairs,
            ..Observation::default()
        }];
        view
    }

    fn named(view: &View) -> Vec<Place> {
        let odd = odd(view, &|_, _| false);
        odd.iter().map(|one| one.place).collect()
    }

    #[test]
    fn who_is_far_below_those_like_it_is_told_once_for_each_direction() {
        let mut ports = vec![(25, 0.92); 8];
        ports[3].1 = 0.85;
        let view = view(&ports);
        let found = odd(&view, &|_, _| false);
        let places: Vec<Place> = found.iter().map(|one| one.place).collect();
        assert_eq!(places, [Place::Send(3), Place::Receive(4)]);
        assert_eq!((found[0].members, found[0].test), (8, 0));
        assert_eq!(
            sentence(&view, &found[0]),
            "n4 send differs from its 7 peers: 21.25 Gbit/s, their median is 23.00 Gbit/s (test 1, 7.6 standard deviations)"
        );
        // A direction that a known fault holds down is not reported again.
        let held = |place, _| place == Place::Send(3);
        assert_eq!(odd(&view, &held).len(), 1);
    }

    #[test]
    fn few_that_differ_by_little_or_are_of_another_class_are_not_told() {
        let five: Vec<(u64, f64)> = (0..5)
            .map(|n| (25, if n == 3 { 0.5 } else { 0.92 }))
            .collect();
        assert_eq!(named(&view(&five)), []);
        let little: Vec<(u64, f64)> = (0..8).map(|n| (25, 0.92 - 0.003 * n as f64)).collect();
        assert_eq!(named(&view(&little)), []);
        // Two slower ports beside eight form a class of two, too few to tell one from the other.
        let mut slow = vec![(25, 0.92); 8];
        slow.extend([(10, 0.92), (10, 0.92)]);
        assert_eq!(named(&view(&slow)), []);
        // A host at its limit is not compared.
        let mut limited = view(&[(25, 0.92); 7]);
        limited.observations[0].links[2].rate /= 2.0;
        limited.observations[0].host_limited = vec![false, false, true, false, false, false, false];
        assert_eq!(named(&limited), [Place::Receive(3)]);
    }
}
