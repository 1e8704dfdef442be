//! All observations of a run, each with the rates that a sound fabric would show.

use std::collections::BTreeSet;

use super::fabric::{Fabric, Observation, Place};
use super::fault::{Cover, Fault};
use super::look::Look;
use super::thresholds::{FULL, FULLER, SAME_SPEED, WAIT_EXPLAINS};

/// Work that can last asks this now and then: true if its result is not wanted any more. What it returns then is incomplete.
pub(crate) type IsOver<'a> = &'a dyn Fn() -> bool;

/// All tests as the judge sees them.
pub struct Case<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) looks: Vec<Look<'a>>,
    /// Places that fell short while their host was at its own limit: a fault there can be the host's.
    pub(super) limited: BTreeSet<Place>,
    /// Ends searches.
    is_over: IsOver<'a>,
}

/// Measurement of a place or fault in one test. Rates are payload, in the unit of the observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pass {
    /// Index of the test.
    pub test: usize,
    /// True if the test loaded only suspects.
    pub isolated: bool,
    /// True if the test judges the place, as a rule because it should have been full.
    pub judged: bool,
    /// Rate that passed.
    pub rate: f64,
    /// Rate that should have passed.
    pub expected: f64,
    /// `rate` divided by `expected`; `None` if `expected` is zero or infinite.
    pub share: Option<f64>,
    /// Rate that the place can carry; infinite if unknown.
    pub capacity: f64,
    /// Smallest permitted share.
    pub floor: f64,
}

impl Pass {
    /// True if the share is below the floor.
    pub fn is_short(&self) -> bool {
        self.share.is_some_and(|share| share < self.floor)
    }

    /// True if the test should have filled the place. The pattern `hol` judges a port that it holds to half of its capacity.
    pub fn fills(&self) -> bool {
        self.expected >= self.capacity * FULL
    }

    /// This measurement with the share that proves the place sound: the share of `expected` if the test judges and fills the place and that share
    /// reaches the floor, else the share of `capacity`. Returns `None` if neither reaches the floor.
    pub fn well(&self) -> Option<Self> {
        let is_full = self.judged && self.fills();
        if is_full && self.share.is_some_and(|share| share >= self.floor) {
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

impl<'a> Case<'a> {
    /// Builds a look for each observation and finds the places that their hosts limited.
    pub fn new(fabric: &'a Fabric, observations: &'a [Observation]) -> Self {
        let look = |observation: &'a Observation| Look::new(fabric, observation);
        let mut case = Self {
            fabric,
            looks: observations.iter().map(look).collect(),
            limited: BTreeSet::new(),
            is_over: &|| false,
        };
        case.limited = case.at_limit();
        case
    }

    /// The same, for searches that end when `is_over` says so.
    pub(super) fn until(self, is_over: IsOver<'a>) -> Self {
        Self { is_over, ..self }
    }

    /// True if a search must end.
    pub(super) fn is_over(&self) -> bool {
        (self.is_over)()
    }

    fn loading(&self) -> impl Iterator<Item = &Look<'a>> {
        self.looks.iter().filter(|look| look.loads())
    }

    /// Judged port directions of each test under load, grouped by direction and speed: number of the place, and its share of the expected rate.
    /// Leaves out hosts at their limit, and places for which `held_down` is true in that test.
    pub(super) fn alike(&self, held_down: &dyn Fn(Place, usize) -> bool) -> Vec<Vec<(usize, f64)>> {
        let mut classes = Vec::new();
        for (look, back) in self.loading().flat_map(|look| [(look, 0), (look, 1)]) {
            let one = look.observation;
            let directions = (back..2 * self.fabric.ports.len()).step_by(2);
            let own = directions.filter(|number| {
                let host = self.fabric.ports[number / 2].host;
                let at_limit = one.host_limited.get(host) == Some(&true);
                !at_limit && !held_down(self.fabric.place(*number), one.test)
            });
            let shares = own.filter_map(|number| {
                Some((number, look.judged_share(number)?, one.capacities[number]))
            });
            let mut shares: Vec<(usize, f64, f64)> = shares.collect();
            shares.sort_by(|a, b| a.2.total_cmp(&b.2));
            let of_speed = shares.chunk_by(|a, b| b.2 <= a.2 * SAME_SPEED);
            classes.extend(of_speed.map(|all| all.iter().map(|one| (one.0, one.1)).collect()));
        }
        classes
    }

    /// Smallest share of the expected rate that a place carried in the tests that load the fabric. `None` if no such test judges it.
    pub fn least_share(&self, place: Place) -> Option<f64> {
        let number = self.fabric.number(place);
        let shares = self.loading().filter_map(|look| look.judged_share(number));
        shares.reduce(f64::min)
    }

    /// Measurements of a place in every test that did not hold its links back.
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

    /// Measurements of a fault in every test that did not hold its links back. A test judges a fault that is no place if it expected more than
    /// ever passed.
    pub fn passes_of(&self, fault: &Fault) -> Vec<Pass> {
        if let Fault::Place(place) = fault {
            return self.passes(*place);
        }
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
            let expected = look.expected_at(self.fabric, fault, &cover);
            let known = expected > 0.0 && expected.is_finite();
            known.then(|| Pass {
                test: look.observation.test,
                isolated: look.observation.isolated,
                judged: expected > most * FULLER,
                rate,
                expected,
                share: Some(rate / expected),
                capacity: f64::INFINITY,
                floor: self.fabric.uplink_floor,
            })
        };
        telling().filter(through).filter_map(pass).collect()
    }

    /// Places below their floor in a test under load, each with its smallest share; the worst first.
    pub fn suspects(&self) -> Vec<(Place, f64)> {
        let short = |place: &Place| {
            let number = self.fabric.number(*place);
            let mut loading = self.loading();
            loading.any(|look| look.judged[number] && look.is_short(number))
        };
        let all = self.fabric.all_places();
        let mut suspects: Vec<(Place, f64)> = all
            .filter(short)
            .filter_map(|place| Some((place, self.least_share(place)?)))
            .collect();
        suspects.sort_by(|a, b| a.1.total_cmp(&b.1));
        suspects
    }

    /// Test under load in which a place had its smallest share, if no retest repeated that test.
    pub fn not_repeated(&self, place: Place) -> Option<usize> {
        let (least, repeats) = self.repeats(place)?;
        repeats.is_empty().then_some(least.observation.test)
    }

    /// True if the test in which a place had its smallest share was repeated, and the place fell short each time.
    pub fn is_short_again(&self, place: Place) -> bool {
        let number = self.fabric.number(place);
        self.repeats(place).is_some_and(|(_, repeats)| {
            !repeats.is_empty() && repeats.iter().all(|look| look.is_short(number))
        })
    }

    /// Test under load in which a place had its smallest share, and the retests with the same links.
    fn repeats(&self, place: Place) -> Option<(&Look<'a>, Vec<&Look<'a>>)> {
        let number = self.fabric.number(place);
        let judged = self
            .loading()
            .filter_map(|look| Some((look.judged_share(number)?, look)));
        let (_, least) = judged.min_by(|a, b| a.0.total_cmp(&b.0))?;
        // A slow uplink leaves ports out of sums, so with uplinks only their flows are compared.
        let first = match self.fabric.groups {
            0 => 0,
            _ => 2 * self.fabric.ports.len(),
        };
        let links = |look: &Look<'_>| {
            let links = look.observation.links.iter();
            let links: BTreeSet<(usize, usize)> = links.map(|link| (link.from, link.to)).collect();
            // Tests with sums have no links. Their flows have the numbers of links.
            let flows = look.observation.flows.iter();
            let flows = flows
                .filter(|flow| look.has_sums() && flow.route.iter().all(|place| *place >= first));
            let flows = flows.map(|flow| (flow.route.clone(), flow.weight.to_bits()));
            (links, flows.collect::<Vec<_>>())
        };
        let own = links(least);
        let others = self.looks.iter();
        let others = others.filter(|look| !look.loads() && look.tells_rates());
        Some((least, others.filter(|look| links(look) == own).collect()))
    }

    /// True if chance influences what passes a place in a test: more links compete for an uplink than it can carry, or several links share a port.
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

    /// Number of tests under load in which a place fell short, and number of tests under load that should have filled it.
    pub fn short_in(&self, place: Place) -> (usize, usize) {
        let number = self.fabric.number(place);
        let judged = || self.loading().filter(|look| look.judged[number]);
        let short = judged().filter(|look| look.is_short(number));
        (short.count(), judged().count())
    }

    /// True if a place fell short alone only while its host was at its limit, or waited for a processor long enough to explain the deficit. Such a
    /// deficit says nothing about the switch. Also true if the host was at its limit in most tests.
    pub fn limited_alone(&self, place: Place) -> bool {
        let number = self.fabric.number(place);
        let mut alone = self.looks.iter().filter(|look| {
            let observation = look.observation;
            observation.isolated && !observation.paced && look.is_short(number)
        });
        let explained = |look: &Look<'_>| {
            let missing = 1.0 - look.share(number).unwrap_or(1.0);
            let waiting = look.waiting(self.fabric, place);
            look.host_is_limited(self.fabric, place) || waiting >= missing * WAIT_EXPLAINS
        };
        self.limited_mostly(place) || alone.all(explained)
    }

    /// Ports with which a port reached its floor at least once, in tests with one link per port.
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

    /// The only pair with which a port fell short under load, if the port reached its floor in at least two other tests. Counts only tests with one
    /// link per port.
    pub fn only_slow_pair(&self, place: Place) -> Option<(usize, usize)> {
        let number = self.fabric.number(place);
        let loads = self
            .loading()
            .filter(|look| !look.observation.paced && look.seen[number] > 0.0 && look.single);
        let (short, well): (Vec<&Look<'_>>, Vec<&Look<'_>>) =
            loads.partition(|look| look.is_short(number));
        let [short] = short[..] else { return None };
        let mut links = short.observation.links.iter();
        let through = links.find(|link| place.is_end_of((link.from, link.to)));
        through
            .filter(|_| well.len() >= 2)
            .map(|link| (link.from, link.to))
    }

    /// True if the host of a port was at its limit, and the port fell short, in most of the tests that used the port. Waits for a processor come in
    /// lumps, and a short test can miss them. Waits that cost nothing explain nothing.
    fn limited_mostly(&self, place: Place) -> bool {
        let Some((port, _)) = place.port() else {
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
        let limited = |look: &Look<'_>, place: Place| {
            let short = look.is_short(self.fabric.number(place));
            short && look.host_is_limited(self.fabric, place)
        };
        let places = self.fabric.port_places();
        places
            .filter(|place| self.looks.iter().any(|look| limited(look, *place)))
            .collect()
    }

    /// Places whose hosts were at their limit, if that excuses most of the tests in which a shared fault fell short: then the deficit says nothing
    /// about the switch. Empty otherwise.
    pub fn limited_together(&self, fault: &Fault) -> Vec<Place> {
        let cover = fault.cover(self.fabric);
        let (mut all, mut excused) = (0, 0);
        let mut places = BTreeSet::new();
        for look in self.short_looks(fault, &cover) {
            let links = look.observation.links.iter();
            let links = links.filter(|link| cover.has(link.from, link.to));
            let ends = links.flat_map(|link| [Place::Send(link.from), Place::Receive(link.to)]);
            let mut ends: BTreeSet<Place> = ends.collect();
            if look.has_sums() {
                let places = self.fabric.port_places();
                ends.extend(places.filter(|place| fault.takes_all_of(self.fabric, *place)));
            }
            let limited = ends.iter().copied();
            let limited = limited.filter(|place| look.host_is_limited(self.fabric, *place));
            let limited: Vec<Place> = limited.collect();
            let waiting = ends.iter().map(|place| look.waiting(self.fabric, *place));
            let waiting: f64 = waiting.sum();
            let expected = look.expected_at(self.fabric, fault, &cover);
            let missing = 1.0 - look.seen_at(self.fabric, fault, &cover) / expected;
            let is_excused = limited.len() * 2 >= ends.len()
                || waiting >= missing * WAIT_EXPLAINS * ends.len() as f64;
            all += 1;
            excused += usize::from(is_excused);
            places.extend(if is_excused { limited } else { Vec::new() });
        }
        match excused * 2 > all {
            true => places.into_iter().collect(),
            false => Vec::new(),
        }
    }

    /// True if one test loaded all ports at once, in both directions. Ports of lost hosts do not count.
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

    /// True if a flow through a port, in a test under load, crossed an uplink for which more links compete than it can carry.
    pub fn is_left_to_chance(&self, port: Place) -> bool {
        let number = self.fabric.number(port);
        let mut loads = self.loading().filter(|look| look.tells_rates());
        loads.any(|look| look.left_to_chance[number])
    }

    /// Connections through a fault in the tests in which it fell short: all of them, and those that waited for the network and not for a host.
    pub fn waits(&self, fault: &Fault) -> (usize, usize) {
        let cover = fault.cover(self.fabric);
        let short = self.short_looks(fault, &cover).into_iter();
        let links = short.flat_map(|look| &look.observation.links);
        let through = links.filter(|link| cover.has(link.from, link.to));
        through.fold((0, 0), |(links, limiting), one| {
            (links + one.links, limiting + one.limiting)
        })
    }

    /// Tests in which less passed a fault than should have.
    fn short_looks(&self, fault: &Fault, cover: &Cover) -> Vec<&Look<'a>> {
        let short = self.looks.iter().filter(|look| {
            let expected = look.expected_at(self.fabric, fault, cover);
            let seen = look.seen_at(self.fabric, fault, cover);
            look.tells_rates() && expected > 0.0 && seen < expected * self.fabric.uplink_floor
        });
        short.collect()
    }

    /// Smallest share of the expected rate that a fault carried under load, at most 1.
    pub fn least_share_of(&self, fault: &Fault) -> f64 {
        let passes = self.passes_of(fault).into_iter();
        let shares = passes
            .filter(|pass| !pass.isolated)
            .filter_map(|pass| pass.share);
        shares.fold(1.0, f64::min)
    }
}
