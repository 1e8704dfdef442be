//! Finds low rates that losses explain: a connection that loses segments is slow, and so is every port on its route.

use std::collections::BTreeMap;

use super::Decision;
use super::case::Case;
use super::fabric::{Fabric, Observation, Seen};
use super::fault::Fault;
use super::thresholds::FULL;

/// Places that would be less than full even in a sound fabric, if its connections through confirmed losses carried no more than they did. A place
/// that is not full is not judged.
#[derive(Debug, Default)]
pub(super) struct Slowed {
    /// For each test, true for each place by number that would be less than full.
    less: BTreeMap<usize, Vec<bool>>,
}

impl Slowed {
    /// Computes the effect of these losses.
    pub(super) fn by(fabric: &Fabric, observations: &[Observation], lossy: &[Fault]) -> Self {
        let loads = observations
            .iter()
            .filter(|one| !one.isolated && !one.paced);
        let mut less = BTreeMap::new();
        for one in loads.filter(|_| !lossy.is_empty()) {
            let sums = with_losses(fabric, one, lossy).into_iter();
            let all = sums
                .zip(&one.capacities)
                .map(|(sum, capacity)| sum < FULL * capacity);
            less.insert(one.test, all.collect());
        }
        Self { less }
    }

    /// True if a place, by its number, would be less than full in a test.
    pub(super) fn is_less_than_full(&self, number: usize, test: usize) -> bool {
        let of_test = self.less.get(&test);
        of_test.and_then(|all| all.get(number)) == Some(&true)
    }

    /// Removes places from the undecided ones that fell short only in such tests: the losses are reported, and nothing else is known about them.
    pub(super) fn leave_out(
        &self,
        fabric: &Fabric,
        observations: &[Observation],
        decision: &mut Decision,
    ) {
        if self.less.is_empty() {
            return;
        }
        let case = Case::new(fabric, observations);
        decision.undecided.retain(|(fault, _)| {
            let Fault::Place(place) = fault else {
                return true;
            };
            let number = fabric.number(*place);
            let passes = case.passes(*place).into_iter();
            let mut short = passes.filter(|pass| pass.judged && !pass.isolated && pass.is_short());
            short.any(|pass| !self.is_less_than_full(number, pass.test))
        });
    }
}

/// Rate that would pass each place if only the connections through these faults carried less.
fn with_losses(fabric: &Fabric, observation: &Observation, lossy: &[Fault]) -> Vec<f64> {
    let covers: Vec<_> = lossy.iter().map(|fault| fault.cover(fabric)).collect();
    let is_slow = |link: &&Seen| covers.iter().any(|cover| cover.has(link.from, link.to));
    let slow = observation.links.iter().filter(is_slow);
    let slow: BTreeMap<_, _> = slow.map(|link| ((link.from, link.to), link.rate)).collect();
    observation.predicted(&observation.capacities, &slow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fabric::Place;
    use crate::judge::fabric::tests::of_hosts;
    use crate::judge::filling::Flow;

    /// One permutation of four ports that carry 1 each way. `rates` holds the rate of each sender's link.
    fn permutation(test: usize, by: usize, rates: [f64; 4]) -> Observation {
        let pairs: Vec<(usize, usize)> = (0..4).map(|port| (port, (port + by) % 4)).collect();
        Observation {
            test,
            capacities: vec![1.0; 8],
            flows: pairs
                .iter()
                .map(|(from, to)| Flow {
                    route: vec![2 * from, 2 * to + 1],
                    weight: 1.0,
                    cap: f64::INFINITY,
                })
                .collect(),
            links: pairs
                .iter()
                .zip(rates)
                .map(|((from, to), rate)| Seen {
                    from: *from,
                    to: *to,
                    rate,
                    ..Seen::default()
                })
                .collect(),
            pairs,
            ..Observation::default()
        }
    }

    #[test]
    fn senders_to_a_port_that_loses_are_not_left_undecided_and_others_are() {
        let fabric = of_hosts(4);
        // Ports 1, 0 and 3 send to port 2, one after the other. Port 0 is also slow to port 3.
        let observations = [
            permutation(0, 1, [1.0, 0.4, 1.0, 1.0]),
            permutation(1, 2, [0.4, 1.0, 1.0, 1.0]),
            permutation(2, 3, [0.5, 1.0, 1.0, 0.4]),
        ];
        let short = [
            Place::Send(0),
            Place::Send(1),
            Place::Receive(2),
            Place::Send(3),
            Place::Receive(3),
        ];
        let mut decision = Decision {
            undecided: short
                .iter()
                .map(|place| (Fault::Place(*place), 0.4))
                .collect(),
            ..Decision::default()
        };
        let before = decision.clone();
        let none = Slowed::by(&fabric, &observations, &[]);
        none.leave_out(&fabric, &observations, &mut decision);
        assert_eq!(decision, before);
        let into = Slowed::by(&fabric, &observations, &[Fault::Place(Place::Receive(2))]);
        into.leave_out(&fabric, &observations, &mut decision);
        assert!(into.is_less_than_full(fabric.number(Place::Send(1)), 0));
        assert!(!into.is_less_than_full(fabric.number(Place::Send(0)), 2));
        let left: Vec<Fault> = decision
            .undecided
            .iter()
            .map(|(fault, _)| fault.clone())
            .collect();
        assert_eq!(left, [Place::Send(0), Place::Receive(3)].map(Fault::Place));
        // Losses of a pair explain only the deficit between its two ports.
        let mut decision = before;
        let pair = Slowed::by(&fabric, &observations, &[Fault::Pair(1, 2)]);
        pair.leave_out(&fabric, &observations, &mut decision);
        let left: Vec<Fault> = decision
            .undecided
            .iter()
            .map(|(fault, _)| fault.clone())
            .collect();
        assert_eq!(left.len(), 4);
        assert!(!left.contains(&Fault::Place(Place::Send(1))));
    }
}
