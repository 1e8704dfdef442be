//! Separates deficits that faults explain from those that they leave open.

use std::collections::BTreeMap;

use super::case::Case;
use super::fabric::Place;
use super::fault::Fault;
use super::predict::{Model, leaves_open};
use super::thresholds::AS_PREDICTED;

/// Deficits that a set of faults predicts.
pub struct Foreseen {
    /// For each test, true for each place by number that falls short.
    short: BTreeMap<usize, Vec<bool>>,
}

impl Foreseen {
    /// True if the place with this number falls short in a test.
    pub fn is_short(&self, number: usize, test: usize) -> bool {
        let of_test = self.short.get(&test);
        of_test.and_then(|all| all.get(number)) == Some(&true)
    }
}

/// A place that falls short by more than is explained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Open {
    /// The place.
    pub place: Place,
    /// Its smallest share of the expected rate.
    pub share: f64,
    /// True if all ports together also carried less than predicted, or had one link each. Else others carried what it lacks, as links share it.
    pub lacks: bool,
}

impl Case<'_> {
    /// Deficits that these faults predict, test by test.
    pub fn foreseen(&self, faults: &[Fault]) -> Foreseen {
        let model = Model::new(self, &[]);
        let members = model.members(faults);
        let members: Vec<_> = members.iter().collect();
        let mut short: BTreeMap<usize, Vec<bool>> = BTreeMap::new();
        for (number, look) in self.looks.iter().enumerate() {
            let Some(predicted) = model.predict(number, &members) else {
                continue;
            };
            let all = predicted.sums.iter().zip(&look.expected).enumerate();
            let known = short.entry(look.observation.test).or_default();
            known.resize(known.len().max(look.expected.len()), false);
            for (place, (is, should)) in all {
                known[place] |= *is < look.floors[place] * should;
            }
        }
        Foreseen { short }
    }

    /// Places that fall short under load by more than these faults predict.
    pub fn unexplained(&self, faults: &[Fault]) -> Vec<Open> {
        let model = Model::new(self, &[]);
        let members = model.members(faults);
        let members: Vec<_> = members.iter().collect();
        let mut open: BTreeMap<Place, Open> = BTreeMap::new();
        let looks = self.looks.iter().enumerate();
        for (number, look) in looks.filter(|(_, look)| look.loads()) {
            let predicted = model.predict(number, &members);
            let of = |place: usize| match &predicted {
                Some(predicted) => (predicted.sums[place], predicted.vague[place]),
                None => (look.expected[place], 0.0),
            };
            let receiving = || (0..2 * self.fabric.ports.len()).filter(|place| place % 2 == 1);
            let foreseen: f64 = receiving().map(|place| of(place).0).sum();
            let seen: f64 = receiving().map(|place| look.seen[place]).sum();
            let lacks = look.single || seen < foreseen * AS_PREDICTED;
            for place in 0..self.fabric.places() {
                let Some(share) = look.judged_share(place) else {
                    continue;
                };
                let (foreseen, vague) = of(place);
                let of_expected = |rate: f64| rate / look.expected[place];
                let (foreseen, vague) = (of_expected(foreseen), of_expected(vague));
                if leaves_open(share, foreseen, look.floors[place], vague) {
                    let place = self.fabric.place(place);
                    let known = open.entry(place).or_insert(Open {
                        place,
                        share,
                        lacks: false,
                    });
                    known.share = known.share.min(share);
                    known.lacks |= lacks;
                }
            }
        }
        open.into_values().collect()
    }
}
