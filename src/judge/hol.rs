//! Head-of-line blocking: whether what goes to a port that is free suffers from one that is congested (RFC 2889, 5.5).
//!
//! In the pattern `hol` A sends half of its rate to C and half to D, and B all of its rate to D. D is congested, C is not: A to C must keep its
//! half. If it does not, it is measured by itself, and the pattern once more: only if it is well alone and short again, blocking is what is left.

use super::confirm::Request;
use super::fabric::{Fabric, Observation, Place};

/// A victim, at its better of two looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Victim {
    /// Who sends to whom.
    pub pair: (usize, usize),
    /// What it received.
    pub rate: f64,
    /// Of what it should have.
    pub share: f64,
}

/// What there is to say.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// The victim keeps its rate, or nobody looked.
    None,
    /// This must be measured first.
    Open(Vec<Request>),
    /// It fell short again, and not by itself.
    Confirmed(Victim),
    /// It fell short, and what followed does not fit.
    Undecided(Victim),
}

/// Judges observations of the pattern.
pub fn judge(fabric: &Fabric, observations: &[Observation]) -> Finding {
    let looks = |isolated: bool| {
        let own = observations
            .iter()
            .filter(move |one| one.isolated == isolated);
        own.filter_map(|one| Some((one.test, victim(one)?)))
    };
    let floor = |victim: &Victim| fabric.floor_of(victim.pair);
    let short = looks(false).filter(|(_, victim)| victim.share < floor(victim));
    let Some((test, first)) = short.min_by(|a, b| a.1.share.total_cmp(&b.1.share)) else {
        return Finding::None;
    };
    let alone = observations
        .iter()
        .filter(|one| one.isolated && !one.paced && one.only.is_none())
        .filter(|one| one.width(fabric, first.pair) == 1);
    let alone = alone.filter_map(|one| one.shares().get(&first.pair).map(|share| share.part()));
    let alone = alone.reduce(f64::max);
    let again = looks(true)
        .map(|(_, victim)| victim)
        .find(|victim| victim.pair == first.pair);
    let mut open = Vec::new();
    if alone.is_none() {
        open.push(Request::of(vec![first.pair]));
    }
    if again.is_none() {
        open.push(Request {
            again: Some(test),
            ..Request::of(vec![first.pair])
        });
    }
    match (alone, again) {
        (Some(alone), Some(again)) => {
            let better = if again.share > first.share {
                again
            } else {
                first
            };
            match alone >= floor(&first) && again.share < floor(&again) {
                true => Finding::Confirmed(better),
                false => Finding::Undecided(first),
            }
        }
        _ => Finding::Open(open),
    }
}

/// The pair that goes to the one place that an observation judges.
fn victim(observation: &Observation) -> Option<Victim> {
    let Some(Place::Receive(to)) = observation.only else {
        return None;
    };
    let shares = observation.shares();
    let (pair, share) = shares.iter().find(|(pair, _)| pair.1 == to)?;
    Some(Victim {
        pair: *pair,
        rate: share.rate,
        share: share.part(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fabric::Seen;
    use crate::judge::fabric::tests::of_hosts;
    use crate::judge::filling::Flow;

    /// A to C and D, B to D, with what A to C received; or that pair by itself.
    fn seen(isolated: bool, pattern: bool, rate: f64) -> Observation {
        let fabric = of_hosts(4);
        let pairs: Vec<(usize, usize)> = match pattern {
            true => vec![(0, 2), (0, 3), (1, 3)],
            false => vec![(0, 2)],
        };
        let flow = |(from, to): &(usize, usize)| Flow {
            route: fabric.way(*from, *to),
            weight: 1.0,
            cap: if pattern && *from == 0 {
                50.0
            } else {
                f64::INFINITY
            },
        };
        let link = |(from, to): &(usize, usize)| Seen {
            from: *from,
            to: *to,
            rate: if (*from, *to) == (0, 2) { rate } else { 50.0 },
            ..Seen::default()
        };
        Observation {
            test: usize::from(isolated),
            isolated,
            only: pattern.then_some(Place::Receive(2)),
            capacities: vec![100.0; 8],
            flows: pairs.iter().map(flow).collect(),
            links: pairs.iter().map(link).collect(),
            pairs,
            ..Observation::default()
        }
    }

    #[test]
    fn a_victim_that_keeps_its_half_is_none() {
        assert_eq!(
            judge(&of_hosts(4), &[seen(false, true, 49.0)]),
            Finding::None
        );
        assert_eq!(judge(&of_hosts(4), &[]), Finding::None);
    }

    #[test]
    fn one_that_falls_short_is_measured_alone_and_the_pattern_again() {
        let first = seen(false, true, 20.0);
        let Finding::Open(open) = judge(&of_hosts(4), std::slice::from_ref(&first)) else {
            panic!("two looks are needed");
        };
        let asked: Vec<_> = open
            .iter()
            .map(|request| (request.pairs.clone(), request.again))
            .collect();
        assert_eq!(asked, [(vec![(0, 2)], None), (vec![(0, 2)], Some(0))]);
        let case = |alone: f64, again: f64| {
            judge(
                &of_hosts(4),
                &[
                    first.clone(),
                    seen(true, false, alone),
                    seen(true, true, again),
                ],
            )
        };
        let victim = |rate: f64| Victim {
            pair: (0, 2),
            rate,
            share: rate / 50.0,
        };
        assert_eq!(case(99.0, 25.0), Finding::Confirmed(victim(25.0)));
        // Its own port is short, or it was well the second time.
        assert_eq!(case(40.0, 25.0), Finding::Undecided(victim(20.0)));
        assert_eq!(case(99.0, 49.0), Finding::Undecided(victim(20.0)));
    }
}
