//! Blame: the smallest set of faults whose filled rates explain what was seen at every place.
//!
//! A slow port takes innocent ones down with it, so what is below its floor is a suspect and no more. A set of faults is
//! tried by giving each of its members what was seen to pass it, and filling the fabric again: if all that
//! falls short is then predicted, and nothing is predicted to fall that did not, the set explains what was seen.

use std::collections::{BTreeMap, BTreeSet};

use super::fabric::{Fabric, Observation, Place};

/// One thing that may be at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A direction of a port or uplink.
    Place(Place),
    /// What goes from one port to another, though both are well with others.
    Pair(usize, usize),
}

/// A place is full from this part of what it can carry on.
pub(super) const FULL: f64 = 0.98;
/// A prediction this far above what was seen does not explain it.
const NEAR: f64 = 0.07;
/// Nor does one that is further above than this part of what the floor leaves: what is below a high floor is not explained by nothing.
const NEAR_FLOOR: f64 = 0.7;
/// A prediction this far below what was seen is wrong.
const WRONG: f64 = 0.10;
/// Where both are below the floor, the depth may differ: connections that share what is left never do so quite fairly.
const DEPTH: f64 = 0.20;
/// Time without a processor explains what is missing if it is this part of it.
const EXPLAINS: f64 = 0.5;
/// Sets that are tried in full have as many members at most; larger ones grow by their best member.
const TRIED_IN_FULL: usize = 2;
/// Suspects that are tried against each other, worst first.
const MOST_CANDIDATES: usize = 24;
/// Sets do not grow beyond this.
const MOST_FAULTS: usize = 64;

/// What was seen, with what was to be expected.
pub struct Case<'a> {
    fabric: &'a Fabric,
    looks: Vec<Look<'a>>,
    /// Places that fell short while their host was at its own limit.
    limited: BTreeSet<Place>,
}

struct Look<'a> {
    observation: &'a Observation,
    expected: Vec<f64>,
    seen: Vec<f64>,
    /// Places that are judged here.
    judged: Vec<bool>,
    /// Share of what is expected that must pass each place here.
    floors: Vec<f64>,
    /// What nothing explains if there are no faults: how many places, and how far off in all.
    sound: (usize, f64),
}

impl<'a> Look<'a> {
    /// A place is judged where it should be full: what passes others depends on how connections share the full ones, which
    /// is never quite fair. Uplinks are judged by their sum, where many links share them; and what goes through a full uplink
    /// leaves the ports behind it to chance, too.
    fn new(fabric: &Fabric, observation: &'a Observation) -> Self {
        let (expected, seen) = (observation.expected(), observation.seen(fabric));
        let single = observation.is_single(fabric);
        let is_uplink = |place: usize| matches!(fabric.place(place), Place::Up(_) | Place::Down(_));
        let is_full = |place: usize| expected[place] >= observation.capacities[place] * FULL;
        let mut by_chance = vec![false; fabric.places()];
        for flow in &observation.flows {
            if flow
                .route
                .iter()
                .any(|place| is_uplink(*place) && is_full(*place))
            {
                for place in flow.route.iter().filter(|place| !is_uplink(**place)) {
                    by_chance[*place] = true;
                }
            }
        }
        let judged = |place: usize| {
            let capacity = observation.capacities[place];
            let uplink = is_uplink(place);
            let known = capacity.is_finite() && expected[place] > 0.0;
            let full = is_full(place) && !by_chance[place];
            match observation.only {
                Some(only) => known && fabric.place(place) == only,
                None => known && full && !observation.paced && !(uplink && single),
            }
        };
        let judged = (0..fabric.places()).map(judged).collect();
        let floor = |place: usize| {
            let capacity = observation.capacities.get(place);
            fabric.floor_at(place, capacity.copied().unwrap_or(f64::INFINITY))
        };
        let mut look = Self {
            observation,
            expected,
            seen,
            judged,
            floors: (0..fabric.places()).map(floor).collect(),
            sound: (0, 0.0),
        };
        look.sound = look.compare_with(&look.expected);
        look
    }

    /// Whether the host behind a port was at its own limit.
    fn host_is_limited(&self, fabric: &Fabric, place: Place) -> bool {
        let (Place::Send(port) | Place::Receive(port)) = place else {
            return false;
        };
        let host = fabric.ports[port].host;
        let limited = self.observation.host_limited.get(host);
        limited.is_some_and(|limited| *limited)
    }

    /// For what part of the time the host behind a port waited for a processor.
    fn waiting(&self, fabric: &Fabric, place: Place) -> f64 {
        let (Place::Send(port) | Place::Receive(port)) = place else {
            return 0.0;
        };
        let host = fabric.ports[port].host;
        self.observation.waiting.get(host).copied().unwrap_or(0.0)
    }

    /// Share of what was expected, whether or not it is judged.
    fn share(&self, place: usize) -> Option<f64> {
        let expected = self.expected[place];
        (expected > 0.0 && expected.is_finite()).then(|| self.seen[place] / expected)
    }

    /// Whether less passed a place than must, judged or not.
    fn is_short(&self, place: usize) -> bool {
        let share = self.share(place);
        share.is_some_and(|share| share < self.floors[place])
    }

    fn judged_share(&self, place: usize) -> Option<f64> {
        self.share(place).filter(|_| self.judged[place])
    }

    /// How many judged places a prediction leaves open, and how far it is off in all.
    fn compare_with(&self, predicted: &[f64]) -> (usize, f64) {
        let (mut open, mut off_in_all) = (0, 0.0);
        for (place, predicted) in predicted.iter().enumerate() {
            let Some(share) = self.share(place) else {
                continue;
            };
            let foreseen = predicted / self.expected[place];
            let is_open = leaves_open(share, foreseen, self.floors[place]);
            open += usize::from(self.judged[place] && is_open);
            off_in_all += (foreseen - share).abs();
        }
        (open, off_in_all)
    }
}

/// Whether a prediction leaves open what was seen, both as shares of what a sound fabric would show.
fn leaves_open(seen: f64, foreseen: f64, floor: f64) -> bool {
    let off = foreseen - seen;
    match (seen < floor, foreseen < floor) {
        (true, true) => off.abs() > DEPTH,
        (true, false) => off > NEAR.min((1.0 - floor) * NEAR_FLOOR),
        (false, _) => off < -WRONG,
    }
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

/// What a set of faults leaves open.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The set.
    pub faults: Vec<Fault>,
    /// Places that fall short and are not predicted to, or the reverse.
    pub open: usize,
    /// Members whose hosts give no reason to think that it is them.
    strange: usize,
    /// Members that carried clearly more at one time than what limited them at another: a fault that is steady does not.
    swings: usize,
    /// How far predictions are off in all.
    off: f64,
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

    /// The least share of what was expected that passed a place, in all tests that load the fabric; none if it was not loaded.
    pub fn least_share(&self, place: Place) -> Option<f64> {
        let number = self.fabric.number(place);
        let loading = self.looks.iter().filter(|look| !look.observation.isolated);
        loading
            .filter_map(|look| look.judged_share(number))
            .reduce(f64::min)
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

    /// Places below the floor, the worst first.
    pub fn suspects(&self) -> Vec<(Place, f64)> {
        let all = (0..self.fabric.places()).map(|number| self.fabric.place(number));
        let short = |place: &Place| {
            let number = self.fabric.number(*place);
            let mut loading = self.looks.iter().filter(|look| !look.observation.isolated);
            loading.any(|look| look.judged[number] && look.is_short(number))
        };
        let mut suspects: Vec<(Place, f64)> = all
            .filter(short)
            .filter_map(|place| Some((place, self.least_share(place)?)))
            .collect();
        suspects.sort_by(|a, b| a.1.total_cmp(&b.1));
        suspects
    }

    /// Places that fell short while their host was at its own limit: it may be the host, if something is at fault there at all.
    pub fn limited(&self) -> &BTreeSet<Place> {
        &self.limited
    }

    /// Whether a place fell short by itself only while its host was at its limit, or waited for a processor long enough to explain it: then
    /// that says nothing of the switch.
    pub fn limited_alone(&self, place: Place) -> bool {
        let number = self.fabric.number(place);
        let alone = self.looks.iter().filter(|look| {
            let observation = look.observation;
            observation.isolated && !observation.paced && look.is_short(number)
        });
        let explained = |look: &Look<'_>| {
            let missing = 1.0 - look.share(number).unwrap_or(1.0);
            let waiting = look.waiting(self.fabric, place);
            look.host_is_limited(self.fabric, place) || waiting >= missing * EXPLAINS
        };
        let mut alone = alone;
        self.limited_mostly(place) || alone.all(explained)
    }

    /// The pair with which a port fell short under load, if it was one of several and the only one; where ports carry one link each.
    pub fn only_slow_pair(&self, place: Place) -> Option<(usize, usize)> {
        let number = self.fabric.number(place);
        let loads = self.looks.iter().filter(|look| {
            let one = look.observation;
            !one.isolated && !one.paced && look.seen[number] > 0.0 && one.is_single(self.fabric)
        });
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
        let short = |look: &Look<'_>, place: Place| look.is_short(self.fabric.number(place));
        let limited = |look: &Look<'_>, place: Place| {
            look.host_is_limited(self.fabric, place) && short(look, place)
        };
        places
            .filter(|place| self.looks.iter().any(|look| limited(look, *place)))
            .collect()
    }

    /// The smallest set of faults, beside `given`, that explains what was seen; the one that comes nearest if none does.
    /// `cleared` are those that were proven not to be.
    pub fn explain(&self, given: &[Fault], cleared: &BTreeSet<Fault>) -> Explanation {
        let nothing = self.try_set(given);
        if nothing.open == 0 {
            return nothing;
        }
        let candidates: Vec<Fault> = self
            .candidates()
            .into_iter()
            .filter(|fault| !cleared.contains(fault) && !given.contains(fault))
            .collect();
        let mut best = nothing;
        for size in 1..=TRIED_IN_FULL {
            let found = self.best_of_size(given, &candidates, size);
            if let Some(found) = found.filter(|found| is_better(found, &best)) {
                best = found;
            }
            if best.open == 0 {
                return best;
            }
        }
        // More than two at once: the best one more, again and again, and then without what turned out to be needless.
        let mut grown = self.try_set(given);
        while grown.open > 0 && grown.faults.len() < MOST_FAULTS {
            let with = |fault: &Fault| {
                let mut faults = grown.faults.clone();
                faults.push(*fault);
                self.try_set(&faults)
            };
            let more = candidates
                .iter()
                .filter(|fault| !grown.faults.contains(fault))
                .map(with)
                .min_by(compare);
            match more.filter(|more| is_better(more, &grown)) {
                Some(more) => grown = more,
                None => break,
            }
        }
        let grown = self.without_the_needless(grown, given);
        if is_better(&grown, &best) {
            grown
        } else {
            best
        }
    }

    fn best_of_size(
        &self,
        given: &[Fault],
        candidates: &[Fault],
        size: usize,
    ) -> Option<Explanation> {
        let tried = |faults: &[Fault]| self.try_set(&[given, faults].concat());
        match size {
            1 => candidates.iter().map(|one| tried(&[*one])).min_by(compare),
            _ => {
                let few = &candidates[..candidates.len().min(MOST_CANDIDATES)];
                let pairs = few
                    .iter()
                    .enumerate()
                    .flat_map(|(at, one)| few[at + 1..].iter().map(move |other| [*one, *other]));
                pairs.map(|pair| tried(&pair)).min_by(compare)
            }
        }
    }

    fn without_the_needless(&self, mut set: Explanation, given: &[Fault]) -> Explanation {
        let mut at = given.len();
        while at < set.faults.len() {
            let mut fewer = set.faults.clone();
            fewer.remove(at);
            let without = self.try_set(&fewer);
            if without.open <= set.open {
                set = without;
            } else {
                at += 1;
            }
        }
        set
    }

    /// What may be at fault: places that fall short, and pairs that do where ports carry one link each. Those that missed most come first, all
    /// tests together: what is slow with one partner only has missed less than what is slow with each of them.
    fn candidates(&self) -> Vec<Fault> {
        // A place need not be full to be at fault.
        let loading = || self.looks.iter().filter(|look| !look.observation.isolated);
        let missed = |number: usize| -> f64 {
            let short = loading().filter(|look| look.is_short(number));
            let shares = short.filter_map(|look| look.share(number));
            // From zero: the sum of nothing would be its negative.
            shares.fold(0.0, |sum, share| sum + (1.0 - share))
        };
        let mut all: Vec<(Fault, f64)> = (0..self.fabric.places())
            .map(|number| (Fault::Place(self.fabric.place(number)), missed(number)))
            .filter(|(_, missed)| *missed > 0.0)
            .collect();
        let most_first = |a: &(Fault, f64), b: &(Fault, f64)| b.1.total_cmp(&a.1);
        all.sort_by(most_first);
        let mut pairs: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for look in &self.looks {
            if !look.observation.is_single(self.fabric) {
                continue;
            }
            for link in &look.observation.links {
                let number = self.fabric.number(Place::Send(link.from));
                let floor = look.floors[number]
                    .max(look.floors[self.fabric.number(Place::Receive(link.to))]);
                let share = look.share(number).filter(|share| *share < floor);
                if let Some(share) = share {
                    *pairs.entry((link.from, link.to)).or_default() += 1.0 - share;
                }
            }
        }
        let pairs = pairs.into_iter();
        let mut pairs: Vec<(Fault, f64)> = pairs
            .map(|((from, to), missed)| (Fault::Pair(from, to), missed))
            .collect();
        pairs.sort_by(most_first);
        all.truncate(MOST_FAULTS);
        // Places explain more with less; pairs come behind those that missed as much.
        all.extend(pairs.into_iter().take(MOST_FAULTS));
        all.sort_by(most_first);
        all.into_iter().map(|(fault, _)| fault).collect()
    }

    fn try_set(&self, faults: &[Fault]) -> Explanation {
        let mut explanation = Explanation {
            faults: faults.to_vec(),
            open: 0,
            strange: faults
                .iter()
                .filter(|fault| !self.is_limited(fault))
                .count(),
            swings: faults.iter().filter(|fault| self.swings(**fault)).count(),
            off: 0.0,
        };
        for look in &self.looks {
            self.try_on(look, faults, &mut explanation);
        }
        explanation
    }

    /// What these faults predict to fall short, test by test.
    pub fn foreseen(&self, faults: &[Fault]) -> Foreseen {
        let mut short: BTreeMap<usize, Vec<bool>> = BTreeMap::new();
        for look in &self.looks {
            let Some(predicted) = self.predict(look, faults) else {
                continue;
            };
            let all = predicted.iter().zip(&look.expected).enumerate();
            let own = all.map(|(number, (is, should))| *is < look.floors[number] * should);
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

    /// Places that fall short though nothing among these faults predicts it, with their least share.
    pub fn unexplained(&self, faults: &[Fault]) -> Vec<(Place, f64)> {
        let mut open: BTreeMap<Place, f64> = BTreeMap::new();
        for look in self.looks.iter().filter(|look| !look.observation.isolated) {
            let predicted = self.predict(look, faults);
            let predicted = predicted.as_deref().unwrap_or(&look.expected);
            for (number, predicted) in predicted.iter().enumerate() {
                let Some(share) = look.judged_share(number) else {
                    continue;
                };
                let (floor, foreseen) = (look.floors[number], predicted / look.expected[number]);
                if share < floor && leaves_open(share, foreseen, floor) {
                    let known = open.entry(self.fabric.place(number)).or_insert(share);
                    *known = known.min(share);
                }
            }
        }
        open.into_iter().collect()
    }

    fn is_limited(&self, fault: &Fault) -> bool {
        matches!(fault, Fault::Place(place) if self.limited.contains(place))
    }

    fn swings(&self, fault: Fault) -> bool {
        const CLEARLY: f64 = 1.15;
        let Fault::Place(place) = fault else {
            return false;
        };
        let number = self.fabric.number(place);
        let seen = |look: &Look<'_>| look.seen[number];
        let falls_short = |look: &&Look<'_>| look.is_short(number);
        let least = self
            .looks
            .iter()
            .filter(falls_short)
            .map(seen)
            .fold(f64::INFINITY, f64::min);
        let most = self.looks.iter().map(seen).fold(0.0, f64::max);
        most > least * CLEARLY
    }

    /// Faults that explain what was seen as well as this member of a set does: hosts cannot tell them apart.
    pub fn rivals(&self, set: &[Fault], member: Fault, cleared: &BTreeSet<Fault>) -> Vec<Fault> {
        /// Two predictions that differ by less in all are as good.
        const ALIKE: f64 = 0.1;
        let own = self.try_set(set);
        let candidates = self.candidates().into_iter();
        let free = candidates.filter(|fault| !cleared.contains(fault) && !set.contains(fault));
        free.filter(|rival| {
            let swap = |fault: &Fault| if *fault == member { *rival } else { *fault };
            let other = self.try_set(&set.iter().map(swap).collect::<Vec<_>>());
            (other.open, other.swings) <= (own.open, own.swings) && other.off <= own.off + ALIKE
        })
        .collect()
    }

    fn try_on(&self, look: &Look<'_>, faults: &[Fault], explanation: &mut Explanation) {
        let (open, off) = match self.predict(look, faults) {
            Some(predicted) => look.compare_with(&predicted),
            None => look.sound,
        };
        explanation.open += open;
        explanation.off += off;
    }

    /// What would pass each place if these were the faults, each as bad as it was seen; none if none of them showed.
    fn predict(&self, look: &Look<'_>, faults: &[Fault]) -> Option<Vec<f64>> {
        let mut capacities = look.observation.capacities.clone();
        let mut pairs = Vec::new();
        let mut shows = false;
        for fault in faults {
            match fault {
                Fault::Place(place) => {
                    let number = self.fabric.number(*place);
                    if look.is_short(number) {
                        capacities[number] = capacities[number].min(look.seen[number]);
                        shows = true;
                    }
                }
                Fault::Pair(from, to) => {
                    let rate = look.observation.rate_of((*from, *to));
                    if rate > 0.0 {
                        pairs.push(((*from, *to), rate));
                        shows = true;
                    }
                }
            }
        }
        shows.then(|| look.observation.predicted(&capacities, &pairs))
    }
}

fn compare(a: &Explanation, b: &Explanation) -> std::cmp::Ordering {
    let open = a.open.cmp(&b.open);
    open.then(a.faults.len().cmp(&b.faults.len()))
        .then(a.strange.cmp(&b.strange))
        .then(a.swings.cmp(&b.swings))
        .then(a.off.total_cmp(&b.off))
}

/// Fewer open places; a larger set must pay for each of its members.
fn is_better(new: &Explanation, old: &Explanation) -> bool {
    new.open < old.open
}
