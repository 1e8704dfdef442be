//! Judges head-of-line blocking: traffic to a free port must not suffer from a congested port (RFC 2889, 5.5).
//!
//! In the pattern `hol`, A sends half of its rate to C and half to D, and B sends all of its rate to D. D is congested and C is not, so A to C must
//! keep its half. If it does not, it is measured alone, and the pattern is repeated. Only if it is well alone and short again, blocking is proven.

use super::confirm::Request;
use super::fabric::{Fabric, Observation, Place};

/// The link that must not suffer, as one look showed it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Victim {
    /// Sending and receiving port.
    pub pair: (usize, usize),
    /// Received rate.
    pub rate: f64,
    /// Received rate as a share of the expected rate.
    pub share: f64,
}

/// Result for head-of-line blocking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Finding {
    /// The victim keeps its rate, or no test looked at it.
    None,
    /// These requests must be measured first.
    Open(Vec<Request>),
    /// It fell short again, but not alone; the better of the two looks.
    Confirmed(Victim),
    /// It fell short, but the later looks do not fit; the first look.
    Undecided(Victim),
}

/// Judges observations of the pattern `hol`.
pub(crate) fn judge(fabric: &Fabric, observations: &[Observation]) -> Finding {
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
    let mut again = looks(true).map(|(_, victim)| victim);
    let again = again.find(|victim| victim.pair == first.pair);
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
        (Some(alone), Some(again)) => match alone >= floor(&first) && again.share < floor(&again) {
            true if again.share > first.share => Finding::Confirmed(again),
            true => Finding::Confirmed(first),
            false => Finding::Undecided(first),
        },
        _ => Finding::Open(open),
    }
}

/// The pair that sends to the one place that an observation judges.
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

    /// A to C and D, and B to D, where A to C received `rate`; or, without `pattern`, A to C alone.
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
