//! Everything that was seen, with what was to be expected of it.

use std::collections::{BTreeMap, BTreeSet};

use super::explain::Explanation;
use super::fabric::{Fabric, Observation, Place};
use super::fault::Fault;
use super::look::Look;
use super::predict::{Model, leaves_open};

/// Time without a processor explains what is missing if it is this part of it.
const EXPLAINS: f64 = 0.5;

/// What was seen, with what was to be expected.
pub struct Case<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) looks: Vec<Look<'a>>,
    /// Places that fell short while their host was at its own limit.
    limited: BTreeSet<Place>,
}

/// What passed a place in one test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pass {
    /// Index of the test.
    pub test: usize,
    /// Nothing but suspects was loaded.
    pub isolated: bool,
    /// The place should have been full.
    pub judged: bool,
    /// What passed.
    pub rate: f64,
    /// What was to be expected.
    pub expected: f64,
    /// What passed of what was to be expected.
    pub share: Option<f64>,
    /// What the place can carry.
    pub capacity: f64,
    /// Share of what was to be expected that must have passed.
    pub floor: f64,
}

impl Pass {
    /// Whether less passed than must.
    pub fn is_short(&self) -> bool {
        self.share.is_some_and(|share| share < self.floor)
    }

    /// This measurement, told by the share that shows the place to be well: of what was to be expected where that was all it can carry, of what
    /// it can carry elsewhere.
    pub fn well(&self) -> Option<Self> {
        if self.judged && self.share.is_some_and(|share| share >= self.floor) {
            return Some(*self);
        }
        let by_capacity = Self {
            judged: true,
            expected: self.capacity,
            share: Some(self.rate / self.capacity),
            ..*self
        };
        (self.rate >= self.floor * self.capacity).then_some(by_capacity)
    }
}

/// What a set of faults predicts to fall short.
pub struct Foreseen {
    /// By test, for each place by its number.
    short: BTreeMap<usize, Vec<bool>>,
}

impl Foreseen {
    /// Whether the place of a number falls short in a test.
    pub fn is_short(&self, number: usize, test: usize) -> bool {
        let of_test = self.short.get(&test);
        of_test
            .and_then(|all| all.get(number))
            .is_some_and(|is| *is)
    }
}

impl<'a> Case<'a> {
    /// Looks at what was seen.
    pub fn new(fabric: &'a Fabric, observations: &'a [Observation]) -> Self {
        let look = |observation: &'a Observation| Look::new(fabric, observation);
        let mut case = Self {
            fabric,
            looks: observations.iter().map(look).collect(),
            limited: BTreeSet::new(),
        };
        case.limited = case.at_limit();
        case
    }

    fn loading(&self) -> impl Iterator<Item = &Look<'a>> {
        self.looks.iter().filter(|look| look.loads())
    }

    /// Which place has a number.
    pub(super) fn place(&self, number: usize) -> Place {
        self.fabric.place(number)
    }

    /// A list for each test under load, direction and speed: the places that were judged, by number, each with its share of what was expected. Leaves
    /// out hosts at their limit, and places that `held_down` names in that test.
    pub(super) fn alike(&self, held_down: &dyn Fn(Place, usize) -> bool) -> Vec<Vec<(usize, f64)>> {
        /// Acknowledgements make capacities of one speed differ by less.
        const SAME: f64 = 1.05;
        let mut classes = Vec::new();
        for (look, back) in self.loading().flat_map(|look| [(look, 0), (look, 1)]) {
            let one = look.observation;
            let directions = (back..2 * self.fabric.ports.len()).step_by(2);
            let own = directions.filter(|number| {
                let host = self.fabric.ports[number / 2].host;
                let at_limit = one.host_limited.get(host).is_some_and(|at| *at);
                !at_limit && !held_down(self.place(*number), one.test)
            });
            let shares = own.filter_map(|number| {
                Some((number, look.judged_share(number)?, one.capacities[number]))
            });
            let mut shares: Vec<(usize, f64, f64)> = shares.collect();
            shares.sort_by(|a, b| a.2.total_cmp(&b.2));
            let of_speed = shares.chunk_by(|a, b| b.2 <= a.2 * SAME);
            classes.extend(of_speed.map(|all| all.iter().map(|one| (one.0, one.1)).collect()));
        }
        classes
    }

    /// The least share of what was expected that passed a place, in all tests that load the fabric; none if it was not loaded.
    pub fn least_share(&self, place: Place) -> Option<f64> {
        let number = self.fabric.number(place);
        let shares = self.loading().filter_map(|look| look.judged_share(number));
        shares.reduce(f64::min)
    }

    /// What passed a place, in every test that did not hold its links back.
    pub fn passes(&self, place: Place) -> Vec<Pass> {
        let number = self.fabric.number(place);
        let looks = self.looks.iter().filter(|look| !look.observation.paced);
        let pass = |look: &Look<'_>| Pass {
            test: look.observation.test,
            isolated: look.observation.isolated,
            judged: look.judged[number],
            rate: look.seen[number],
            expected: look.expected[number],
            share: look.share(number),
            capacity: look.observation.capacities[number],
            floor: look.floors[number],
        };
        looks.map(pass).collect()
    }

    /// What passed a fault, in every test that did not hold its links back; judged where more should have passed than ever did.
    pub fn passes_of(&self, fault: &Fault) -> Vec<Pass> {
        if let Fault::Place(place) = fault {
            return self.passes(*place);
        }
        /// A place is full by the most that ever passed it.
        const MORE: f64 = 1.02;
        let cover = fault.cover(self.fabric);
        let telling = || self.looks.iter().filter(|look| look.tells_rates());
        let most = telling().map(|look| look.seen_at(self.fabric, fault, &cover));
        let most = most.fold(0.0, f64::max);
        let through = |look: &&Look<'_>| match fault {
            Fault::Pair(..) => look.single,
            _ => true,
        };
        let pass = |look: &Look<'_>| {
            let rate = look.seen_at(self.fabric, fault, &cover);
            let expected = look.expected_at(self.fabric, &cover);
            let known = expected > 0.0 && expected.is_finite();
            known.then(|| Pass {
                test: look.observation.test,
                isolated: look.observation.isolated,
                judged: expected > most * MORE,
                rate,
                expected,
                share: Some(rate / expected),
                capacity: f64::INFINITY,
                floor: self.fabric.uplink_floor,
            })
        };
        telling().filter(through).filter_map(pass).collect()
    }

    /// Places below the floor, the worst first.
    pub fn suspects(&self) -> Vec<(Place, f64)> {
        let all = (0..self.fabric.places()).map(|number| self.fabric.place(number));
        let short = |place: &Place| {
            let number = self.fabric.number(*place);
            let mut loading = self.loading();
            loading.any(|look| look.judged[number] && look.is_short(number))
        };
        let mut suspects: Vec<(Place, f64)> = all
            .filter(short)
            .filter_map(|place| Some((place, self.least_share(place)?)))
            .collect();
        suspects.sort_by(|a, b| a.1.total_cmp(&b.1));
        suspects
    }

    /// The test under load in which a place carried least, if it was not repeated as it was.
    pub fn not_repeated(&self, place: Place) -> Option<usize> {
        let (least, repeats) = self.repeats(place)?;
        repeats.is_empty().then_some(least.observation.test)
    }

    /// Whether a place fell short each time the test was repeated in which it carried least.
    pub fn is_short_again(&self, place: Place) -> bool {
        let number = self.fabric.number(place);
        self.repeats(place).is_some_and(|(_, repeats)| {
            !repeats.is_empty() && repeats.iter().all(|look| look.is_short(number))
        })
    }

    /// The test under load in which a place carried least, and its repeats.
    fn repeats(&self, place: Place) -> Option<(&Look<'a>, Vec<&Look<'a>>)> {
        let number = self.fabric.number(place);
        let judged = self
            .loading()
            .filter_map(|look| Some((look.judged_share(number)?, look)));
        let (_, least) = judged.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let links = |look: &Look<'_>| -> BTreeSet<(usize, usize)> {
            let links = look.observation.links.iter();
            links.map(|link| (link.from, link.to)).collect()
        };
        let own = links(least);
        let others = self.looks.iter();
        let others = others.filter(|look| !look.loads() && look.tells_rates());
        Some((least, others.filter(|look| links(look) == own).collect()))
    }

    /// Whether chance has a say in what passes a place in a test: more links compete for an uplink than it can carry, or several links share a
    /// port.
    pub(super) fn by_chance(&self, place: Place, test: usize) -> bool {
        let number = self.fabric.number(place);
        let mut own = self
            .looks
            .iter()
            .filter(|look| look.observation.test == test);
        if matches!(place, Place::Send(_) | Place::Receive(_)) {
            return own.any(|look| !look.single);
        }
        let mut flows = own.flat_map(|look| look.observation.flows.iter().zip(&look.by_chance));
        flows.any(|(flow, by_chance)| *by_chance && flow.route.contains(&number))
    }

    /// In how many of the tests that should fill it a place fell short.
    pub fn short_in(&self, place: Place) -> (usize, usize) {
        let number = self.fabric.number(place);
        let judged = || self.loading().filter(|look| look.judged[number]);
        let short = judged().filter(|look| look.is_short(number));
        (short.count(), judged().count())
    }

    /// Places that fell short while their host was at its own limit: it may be the host, if something is at fault there at all.
    pub fn limited(&self) -> &BTreeSet<Place> {
        &self.limited
    }

    /// Whether a place fell short by itself only while its host was at its limit, or waited for a processor long enough to explain it: then
    /// that says nothing of the switch.
    pub fn limited_alone(&self, place: Place) -> bool {
        let number = self.fabric.number(place);
        let mut alone = self.looks.iter().filter(|look| {
            let observation = look.observation;
            observation.isolated && !observation.paced && look.is_short(number)
        });
        let explained = |look: &Look<'_>| {
            let missing = 1.0 - look.share(number).unwrap_or(1.0);
            let waiting = look.waiting(self.fabric, place);
            look.host_is_limited(self.fabric, place) || waiting >= missing * EXPLAINS
        };
        self.limited_mostly(place) || alone.all(explained)
    }

    /// Ports with which a port carried what it should, at least once; where ports carried one link each.
    pub fn full_with(&self, place: Place) -> BTreeSet<usize> {
        let number = self.fabric.number(place);
        let telling = self.looks.iter();
        let telling = telling.filter(|look| look.tells_rates() && look.single);
        let well = telling.filter(|look| look.seen[number] > 0.0 && !look.is_short(number));
        let partner = |look: &Look<'_>| {
            let mut links = look.observation.links.iter();
            links.find_map(|link| match place {
                Place::Send(port) => (link.from == port).then_some(link.to),
                Place::Receive(port) => (link.to == port).then_some(link.from),
                Place::Up(_) | Place::Down(_) => None,
            })
        };
        well.filter_map(partner).collect()
    }

    /// The pair with which a port fell short under load, if it was one of several and the only one; where ports carry one link each.
    pub fn only_slow_pair(&self, place: Place) -> Option<(usize, usize)> {
        let number = self.fabric.number(place);
        let loads = self
            .loading()
            .filter(|look| !look.observation.paced && look.seen[number] > 0.0 && look.single);
        let (short, well): (Vec<&Look<'_>>, Vec<&Look<'_>>) =
            loads.partition(|look| look.is_short(number));
        let [short] = short[..] else { return None };
        let mut links = short.observation.links.iter();
        let through = links.find(|link| match place {
            Place::Send(port) => link.from == port,
            Place::Receive(port) => link.to == port,
            Place::Up(_) | Place::Down(_) => false,
        });
        through
            .filter(|_| well.len() >= 2)
            .map(|link| (link.from, link.to))
    }

    /// Whether the host behind a port was at its limit, and its port fell short, in most of the tests in which it had something to do: waits for
    /// a processor are lumps, and a short test may miss them. Waits that cost nothing explain nothing.
    fn limited_mostly(&self, place: Place) -> bool {
        let (Place::Send(port) | Place::Receive(port)) = place else {
            return false;
        };
        let both = [Place::Send(port), Place::Receive(port)].map(|place| self.fabric.number(place));
        let busy = self
            .looks
            .iter()
            .filter(|look| both.iter().any(|place| look.seen[*place] > 0.0));
        let (mut all, mut limited) = (0, 0);
        for look in busy {
            all += 1;
            let short = both.iter().any(|place| look.is_short(*place));
            limited += usize::from(short && look.host_is_limited(self.fabric, place));
        }
        limited * 2 > all
    }

    fn at_limit(&self) -> BTreeSet<Place> {
        let ports = 0..self.fabric.ports.len();
        let places = ports.flat_map(|port| [Place::Send(port), Place::Receive(port)]);
        let limited = |look: &Look<'_>, place: Place| {
            let short = look.is_short(self.fabric.number(place));
            short && look.host_is_limited(self.fabric, place)
        };
        places
            .filter(|place| self.looks.iter().any(|look| limited(look, *place)))
            .collect()
    }

    /// What explains what was seen.
    pub(super) fn explain(&self, ruled_out: &[Fault]) -> Explanation {
        Model::new(self, ruled_out).explain()
    }

    /// What explains it as well as one of these faults.
    pub(super) fn rivals(&self, found: &Explanation, fault: &Fault) -> Vec<Fault> {
        Model::new(self, &[]).rivals(found, fault)
    }

    /// Hosts that were at their limit in most of the tests in which what they share fell short: then that says nothing of the switch.
    pub fn limited_together(&self, fault: &Fault) -> Vec<Place> {
        let cover = fault.cover(self.fabric);
        let short = self.looks.iter().filter(|look| {
            let expected = look.expected_at(self.fabric, &cover);
            let seen = look.seen_at(self.fabric, fault, &cover);
            look.tells_rates() && expected > 0.0 && seen < expected * self.fabric.uplink_floor
        });
        let (mut all, mut excused) = (0, 0);
        let mut places = BTreeSet::new();
        for look in short {
            let links = look.observation.links.iter();
            let links = links.filter(|link| cover.has(link.from, link.to));
            let ends = links.flat_map(|link| [Place::Send(link.from), Place::Receive(link.to)]);
            let ends: BTreeSet<Place> = ends.collect();
            let limited = ends
                .iter()
                .filter(|place| look.host_is_limited(self.fabric, **place));
            let limited: Vec<Place> = limited.copied().collect();
            let waiting = ends
                .iter()
                .map(|place| look.waiting(self.fabric, *place))
                .sum::<f64>();
            let expected = look.expected_at(self.fabric, &cover);
            let missing = 1.0 - look.seen_at(self.fabric, fault, &cover) / expected;
            let is_excused = limited.len() * 2 >= ends.len()
                || waiting >= missing * EXPLAINS * ends.len() as f64;
            all += 1;
            excused += usize::from(is_excused);
            places.extend(if is_excused { limited } else { Vec::new() });
        }
        match excused * 2 > all {
            true => places.into_iter().collect(),
            false => Vec::new(),
        }
    }

    /// Whether a test loaded all ports at once, in both directions.
    pub fn loads_all(&self) -> bool {
        let mut loads = self.loading().filter(|look| look.tells_rates());
        loads.any(|look| {
            let mut ports = self.fabric.ports.iter().enumerate();
            ports.all(|(port, spec)| {
                let both = [Place::Send(port), Place::Receive(port)];
                let mut seen = both
                    .iter()
                    .map(|place| look.seen[self.fabric.number(*place)]);
                spec.gone || seen.all(|rate| rate > 0.0)
            })
        })
    }

    /// Whether links through a port shared an uplink, in a test under load, for which more of them competed than it can carry.
    pub fn is_left_to_chance(&self, place: Place) -> bool {
        let number = self.fabric.number(place);
        let mut loads = self.loading().filter(|look| look.tells_rates());
        loads.any(|look| {
            let mut flows = look.observation.flows.iter().zip(&look.by_chance);
            flows.any(|(flow, chance)| *chance && flow.route.contains(&number))
        })
    }

    /// Connections through a fault in the tests in which it fell short, and those of them that waited for their way and not for hosts.
    pub fn waits(&self, fault: &Fault) -> (usize, usize) {
        let cover = fault.cover(self.fabric);
        let short = self.looks.iter().filter(|look| {
            let expected = look.expected_at(self.fabric, &cover);
            let seen = look.seen_at(self.fabric, fault, &cover);
            look.tells_rates() && expected > 0.0 && seen < expected * self.fabric.uplink_floor
        });
        let links = short.flat_map(|look| &look.observation.links);
        let through = links.filter(|link| cover.has(link.from, link.to));
        through.fold((0, 0), |(links, limiting), one| {
            (links + one.links, limiting + one.limiting)
        })
    }

    /// The least share of what was expected that passed a fault under load.
    pub fn least_share_of(&self, fault: &Fault) -> f64 {
        let passes = self.passes_of(fault).into_iter();
        let shares = passes
            .filter(|pass| !pass.isolated)
            .filter_map(|pass| pass.share);
        shares.fold(1.0, f64::min)
    }

    /// What these faults predict to fall short, test by test.
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
            let own = all.map(|(place, (is, should))| *is < look.floors[place] * should);
            match short.get_mut(&look.observation.test) {
                None => {
                    short.insert(look.observation.test, own.collect());
                }
                Some(known) => known
                    .iter_mut()
                    .zip(own)
                    .for_each(|(known, own)| *known |= own),
            }
        }
        Foreseen { short }
    }

    /// Places that fall short under load by more than these faults predict.
    pub fn unexplained(&self, faults: &[Fault]) -> Vec<Open> {
        /// What passes all ports together is as predicted from this part of it on.
        const AS_PREDICTED: f64 = 0.97;
        let model = Model::new(self, &[]);
        let members = model.members(faults);
        let members: Vec<_> = members.iter().collect();
        let mut open: BTreeMap<Place, Open> = BTreeMap::new();
        for (number, look) in self
            .looks
            .iter()
            .enumerate()
            .filter(|(_, look)| look.loads())
        {
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

/// A place that falls short by more than is explained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Open {
    /// Where.
    pub place: Place,
    /// Its least share of what was expected.
    pub share: f64,
    /// All ports together carried less than predicted, too; else others carried what it lacks, as links share it.
    pub lacks: bool,
}
