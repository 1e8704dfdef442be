//! The judge: what may be said of a switch, and what must be measured before it may be said. Pure.
//!
//! [`filling`] says what each place of a [`fabric`] should carry, [`blame`] finds the smallest set of faults that explains what
//! it carried instead, and [`confirm`] asks for second looks at them until each has fallen short alone. Nothing here
//! measures; `conduct` does, and asks again.

pub mod again;
pub mod ask;
pub mod blame;
pub mod cables;
pub mod confirm;
pub mod disturbed;
mod evidence;
pub mod fabric;
pub mod filling;
pub mod hol;
pub mod host;
pub mod loss;
pub mod names;
pub mod order;
mod pairs;
pub mod peers;
mod remarks;
mod sentence;
mod slowed;
pub mod uniform;
pub mod verdict;
pub mod view;

use blame::{Case, Fault};
use confirm::{Request, Second, Standing};
use fabric::{Fabric, Observation, Place};

/// Beside a fault, connections share what is left so unevenly.
const UNFAIR: f64 = 0.1;

/// What follows from what was seen until now.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// These are to be measured, one after the other.
    Measure(Vec<Request>),
    /// Nothing more can be learnt.
    Done(Decision),
}

/// What there is to say of the rates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Faults that fell short in a second, isolated measurement.
    pub confirmed: Vec<Blamed>,
    /// Places that fell short while their host was at its own limit.
    pub host_limited: Vec<Place>,
    /// Places that fell short under load, with their share of what was expected, and that no confirmed fault explains.
    pub undecided: Vec<(Place, f64)>,
}

/// A fault that was confirmed.
#[derive(Debug, Clone, PartialEq)]
pub struct Blamed {
    /// What explains what was seen best.
    pub fault: Fault,
    /// What explains it as well: hosts cannot tell these apart.
    pub or: Vec<Fault>,
}

/// Decides what the rates say, or what must be measured first.
pub fn decide(fabric: &Fabric, observations: &[Observation]) -> Step {
    let case = Case::new(fabric, observations);
    if case.suspects().is_empty() {
        return Step::Done(Decision::default());
    }
    let second = Second::of(fabric, &case, observations);
    let limited =
        |fault: &Fault| matches!(fault, Fault::Place(place) if case.limited().contains(place));
    // What was well by itself may still be what its host could not go on with under load.
    let well = second.cleared();
    let mut cleared = well.clone();
    cleared.retain(|fault| !limited(fault));
    let given = second.established().into_iter().map(Fault::Place);
    let given: Vec<Fault> = given.collect();
    let explanation = case.explain(&given, &cleared);
    let mut blamed = explanation.faults[given.len()..].to_vec();
    // What the set leaves open must be looked at, too, unless it was seen well.
    let leftover = case.unexplained(&explanation.faults).into_iter();
    let leftover = leftover.map(|(place, _)| Fault::Place(place));
    blamed.extend(leftover.filter(|fault| !cleared.contains(fault)));
    // A host that could not go on is no fault of the way to its partner either.
    let excused = |(from, to): (usize, usize)| {
        let mut ends = [Place::Send(from), Place::Receive(to)].into_iter();
        ends.find(|place| case.limited().contains(place) && case.limited_alone(*place))
    };
    let mut requests = Vec::new();
    let (mut confirmed, mut host_limited) = (Vec::new(), Vec::new());
    for fault in given.iter().chain(&blamed) {
        let standing = match given.contains(fault) {
            true => Standing::Confirmed,
            false => second.standing(*fault, &blamed),
        };
        match (standing, fault) {
            (Standing::Open(open), _) => requests.extend(open),
            (Standing::Confirmed, Fault::Place(place))
                if limited(fault) && case.limited_alone(*place) =>
            {
                host_limited.push(*place);
            }
            (Standing::Confirmed, Fault::Pair(from, to)) => match excused((*from, *to)) {
                Some(place) => host_limited.push(place),
                None => confirmed.push(*fault),
            },
            (Standing::Confirmed, _) => confirmed.push(*fault),
            // A busy host may hide one slow pair, with which alone its port falls short.
            (Standing::Undecided, Fault::Place(place)) if limited(fault) => {
                match second.pair_behind(*place, &blamed) {
                    Some((_, Standing::Open(open))) => requests.extend(open),
                    Some((pair, Standing::Confirmed)) if excused(pair).is_none() => {
                        confirmed.push(Fault::Pair(pair.0, pair.1));
                    }
                    _ => host_limited.push(*place),
                }
            }
            (Standing::Undecided, _) => {}
        }
    }
    if !requests.is_empty() {
        return Step::Measure(second.packed(requests));
    }
    confirmed.sort_unstable();
    confirmed.dedup();
    // Where there is a fault, what is well by itself and falls short by little is held down by it: connections never share quite
    // fairly.
    let is_well = |place: &Place| well.contains(&Fault::Place(*place));
    let open = case.unexplained(&confirmed);
    let by_little = |place: &Place| {
        let floor = fabric.floor(fabric.number(*place));
        let mut open = open.iter().filter(|(other, _)| other == place);
        open.all(|(_, share)| *share >= floor - UNFAIR)
    };
    host_limited.sort_unstable();
    host_limited.dedup();
    host_limited.retain(|place| confirmed.is_empty() || !by_little(place) || !is_well(place));
    let hosts = host_limited.iter().copied().map(Fault::Place);
    let known: Vec<Fault> = confirmed.iter().copied().chain(hosts).collect();
    let blame = |fault: &Fault| Blamed {
        fault: *fault,
        or: case.rivals(&known, *fault, &cleared),
    };
    Step::Done(Decision {
        undecided: case
            .unexplained(&known)
            .into_iter()
            .filter(|(place, _)| known.is_empty() || !is_well(place))
            .collect(),
        confirmed: confirmed.iter().map(blame).collect(),
        host_limited,
    })
}
