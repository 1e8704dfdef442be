//! The judge: what may be said of a switch, and what must be measured before it may be said. Pure.
//!
//! [`filling`] says what each place of a [`fabric`] should carry, [`blame`] finds the smallest set of faults that explains what
//! it carried instead, and [`confirm`] asks for second looks at them until each has fallen short alone. Nothing here
//! measures; `conduct` does, and asks again.

pub mod ask;
pub mod blame;
pub mod confirm;
pub mod fabric;
pub mod filling;
pub mod host;
pub mod loss;
pub mod order;
pub mod verdict;
pub mod view;

use blame::{Case, Fault};
use confirm::{Request, Second, Standing};
use fabric::{Fabric, Observation, Place};

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
    let cleared = second.cleared();
    let host_limited = case.host_limited();
    let mut given: Vec<Fault> = host_limited.iter().copied().map(Fault::Place).collect();
    let established = second.established().into_iter().map(Fault::Place);
    let established: Vec<Fault> = established.filter(|fault| !given.contains(fault)).collect();
    given.extend(&established);
    let explanation = case.explain(&given, &cleared);
    let mut blamed = explanation.faults[given.len()..].to_vec();
    // What the set leaves open must be looked at, too, unless it was seen well.
    let leftover = case.unexplained(&explanation.faults).into_iter();
    let leftover = leftover.map(|(place, _)| Fault::Place(place));
    blamed.extend(leftover.filter(|fault| !cleared.contains(fault)));
    let mut requests = Vec::new();
    let mut confirmed = established;
    for fault in &blamed {
        match second.standing(*fault, &blamed) {
            Standing::Confirmed => confirmed.push(*fault),
            Standing::Open(open) => requests.extend(open),
            Standing::Undecided => {}
        }
    }
    if !requests.is_empty() {
        return Step::Measure(second.packed(requests));
    }
    let known: Vec<Fault> = given.iter().chain(&confirmed).copied().collect();
    let blame = |fault: &Fault| Blamed {
        fault: *fault,
        or: case.rivals(&known, *fault, &cleared),
    };
    Step::Done(Decision {
        // Where there is a fault, what is well by itself is held down by it: connections never share quite fairly.
        undecided: case
            .unexplained(&known)
            .into_iter()
            .filter(|(place, _)| known.is_empty() || !cleared.contains(&Fault::Place(*place)))
            .collect(),
        confirmed: confirmed.iter().map(blame).collect(),
        host_limited,
    })
}
