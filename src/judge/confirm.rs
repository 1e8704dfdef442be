//! A second look: no suspect is a fault before it fell short alone.
//!
//! A port is measured by itself with two partners that are well, since one partner's fault would look the same; then the
//! other direction, and the partners with each other, as evidence. A pair is measured, and each of its ports with
//! another partner. An uplink is measured with nothing but what crosses it. What several links share is measured with as many of
//! them as can be loaded at once, and then with half as many and so on, until so few are left that all of them are well. Where
//! there are many suspects, those that do not meet are measured at the same time, and those that fall short again by half as
//! many, until each was alone.

use std::collections::{BTreeMap, BTreeSet};

use super::case::Case;
use super::fabric::{Fabric, Observation, Place};
use super::fault::Fault;

/// Links to measure at the same time, from port to port, with nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Who sends to whom.
    pub pairs: Vec<(usize, usize)>,
    /// Held to less than their ports carry, to look for losses; for so many times as long as the looks that found some.
    pub paced: Option<f64>,
    /// Not these pairs, but this test of the plan once more, as it was.
    pub again: Option<usize>,
}

impl Request {
    /// These pairs, at full rate.
    pub fn of(pairs: Vec<(usize, usize)>) -> Self {
        Self {
            pairs,
            paced: None,
            again: None,
        }
    }
}

/// What is known of a fault that was blamed.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// It fell short alone, as often as it takes.
    Confirmed,
    /// This must be measured first.
    Open(Vec<Request>),
    /// Everything that could be measured was, and it does not tell.
    Undecided,
}

/// Second looks until now.
pub struct Second<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) case: &'a Case<'a>,
    /// What each place can carry by itself, as far as is known.
    pub(super) capacities: Vec<f64>,
    pairs: BTreeMap<(usize, usize), Looked>,
    /// Uplinks whose crossing links were measured alone, with their share.
    uplinks: BTreeMap<Place, f64>,
    /// What was measured at the same time, by hosts.
    sets: BTreeMap<Vec<(usize, usize)>, Together>,
}

/// Links that were measured at the same time.
#[derive(Debug, Clone, Copy)]
struct Together {
    /// The best share of what was expected of all.
    share: f64,
    /// Each of them reached its floor.
    well: bool,
}

/// Ports of a pair are well with others if they carried so many times as much with them.
const CLEARLY: f64 = 1.04;

/// Second looks at a pair.
#[derive(Debug, Clone, Copy)]
struct Looked {
    /// The best share of what was expected.
    share: f64,
    /// The best rate.
    rate: f64,
    /// Of looks that fell short the least number of links at the same time.
    width: usize,
    /// It reached its floor at least once.
    well: bool,
    /// How often it was alone, and how often it fell short then.
    alone: (usize, usize),
}

/// What second looks say of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Said {
    Nothing,
    /// It reached the floor.
    Well,
    /// It fell short while so many links were measured; alone if one.
    Short(usize),
}

impl<'a> Second<'a> {
    /// Collects what the isolated ones of these observations say.
    pub fn of(fabric: &'a Fabric, case: &'a Case<'a>, observations: &[Observation]) -> Self {
        // What acknowledgements took in one test they need not take in another.
        let most = |place: usize| {
            let all = observations
                .iter()
                .filter_map(|one| one.capacities.get(place));
            all.copied().reduce(f64::max).unwrap_or(f64::INFINITY)
        };
        let mut second = Self {
            fabric,
            case,
            capacities: (0..fabric.places()).map(most).collect(),
            pairs: BTreeMap::new(),
            uplinks: BTreeMap::new(),
            sets: BTreeMap::new(),
        };
        for observation in observations.iter().filter(|one| one.isolated) {
            second.add(observation);
        }
        second
    }

    fn add(&mut self, observation: &Observation) {
        if observation.paced || observation.only.is_some() {
            return; // It looked for losses, or for what a congested port does to another.
        }
        let shares = observation.shares();
        let expected: f64 = shares.values().map(|share| share.expected).sum();
        if expected > 0.0 {
            let rate: f64 = shares.values().map(|share| share.rate).sum();
            let mut each = shares.iter();
            let well =
                each.all(|(pair, share)| share.part() >= observation.floor_of(self.fabric, *pair));
            let pairs: Vec<(usize, usize)> = shares.keys().copied().collect();
            let known = self.sets.entry(self.by_hosts(&pairs)).or_insert(Together {
                share: 0.0,
                well: false,
            });
            known.share = known.share.max(rate / expected);
            known.well |= well;
        }
        if observation.is_single(self.fabric) {
            for (pair, seen) in shares {
                let (share, rate) = (seen.part(), seen.rate);
                let known = self.pairs.entry(pair).or_insert(Looked {
                    share,
                    rate,
                    width: usize::MAX,
                    well: false,
                    alone: (0, 0),
                });
                known.share = known.share.max(share);
                known.rate = known.rate.max(rate);
                let width = observation.width(self.fabric, pair);
                let is_short = share < observation.floor_of(self.fabric, pair);
                if width == 1 {
                    known.alone.0 += 1;
                    known.alone.1 += usize::from(is_short);
                }
                match is_short {
                    true => known.width = known.width.min(width),
                    false => known.well = true,
                }
            }
            return;
        }
        let (seen, expected) = (observation.seen(self.fabric), observation.expected());
        for group in 0..self.fabric.groups {
            for place in [Place::Up(group), Place::Down(group)] {
                let number = self.fabric.number(place);
                if is_crossing(self.fabric, place, observation) && expected[number] > 0.0 {
                    let share = seen[number] / expected[number];
                    let known = self.uplinks.entry(place).or_insert(share);
                    *known = known.max(share);
                }
            }
        }
    }

    pub(super) fn said(&self, pair: (usize, usize)) -> Said {
        match self.pairs.get(&pair) {
            None => Said::Nothing,
            Some(looked) if looked.well => Said::Well,
            Some(looked) => Said::Short(looked.width),
        }
    }

    /// Faults that are none: they reached the floor when they were measured by themselves.
    pub fn cleared(&self) -> BTreeSet<Fault> {
        let mut cleared = BTreeSet::new();
        for (pair, looked) in &self.pairs {
            if looked.well {
                cleared.insert(Fault::Pair(pair.0, pair.1));
            }
            for place in [Place::Send(pair.0), Place::Receive(pair.1)] {
                // A slow partner proves little of a fast port.
                let floor = self.fabric.floor(self.fabric.number(place));
                if looked.rate >= floor * self.reach(place) {
                    cleared.insert(Fault::Place(place));
                }
            }
        }
        for (place, best) in &self.uplinks {
            if *best >= self.fabric.uplink_floor {
                cleared.insert(Fault::Place(*place));
            }
        }
        cleared
    }

    /// What is known of a fault, and what must be measured to know it; `blamed` are all of them.
    pub fn standing(&self, fault: &Fault, blamed: &[Fault]) -> Standing {
        match fault {
            Fault::Place(place @ (Place::Up(_) | Place::Down(_))) => self.uplink(*place),
            Fault::Place(Place::Send(port)) => self.port(*port, true, blamed),
            Fault::Place(Place::Receive(port)) => self.port(*port, false, blamed),
            Fault::Pair(from, to) => self.pair((*from, *to), blamed),
            Fault::BothWays(port) => self.both_ways(*port, blamed),
            Fault::Shared { .. } | Fault::Path(_) => self.shared(fault, blamed),
        }
    }

    fn by_hosts(&self, pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let host = |port: usize| self.fabric.ports[port].host;
        let all: BTreeSet<(usize, usize)> = pairs
            .iter()
            .map(|(from, to)| (host(*from), host(*to)))
            .collect();
        all.into_iter().collect()
    }

    fn together(&self, pairs: &[(usize, usize)]) -> Option<Together> {
        self.sets.get(&self.by_hosts(pairs)).copied()
    }

    /// A port that both sends and receives, with two partners; and each way alone.
    fn both_ways(&self, port: usize, blamed: &[Fault]) -> Standing {
        let (to, from) = (
            self.partners(port, true, blamed),
            self.partners(port, false, blamed),
        );
        let Some(first) = to.first().copied() else {
            return Standing::Undecided;
        };
        // With another partner for the way back, no other port is loaded both ways.
        let back = from.iter().copied().find(|other| *other != first);
        let looks = [
            vec![(port, first), (back.unwrap_or(first), port)],
            vec![(port, first)],
            vec![(back.unwrap_or(first), port)],
        ];
        let seen: Vec<Option<Together>> = looks.iter().map(|pairs| self.together(pairs)).collect();
        match seen[..] {
            [Some(both), Some(one), Some(other)] => {
                let floor = self.fabric.ports[port].floor;
                match both.share < floor && one.well && other.well {
                    true => Standing::Confirmed,
                    false => Standing::Undecided,
                }
            }
            _ => Standing::Open(
                looks
                    .into_iter()
                    .zip(seen)
                    .filter(|(_, seen)| seen.is_none())
                    .map(|(pairs, _)| Request::of(pairs))
                    .collect(),
            ),
        }
    }

    /// What several links share: all of them at once fall short, and each of them was well with fewer others.
    fn shared(&self, fault: &Fault, blamed: &[Fault]) -> Standing {
        /// With more parts than this a sample of them is measured.
        const MOST_PARTS: usize = 8;
        let all = self.at_once(fault, blamed);
        if all.len() < 2 {
            return Standing::Undecided;
        }
        // Where all of them together are well it is refuted, and no part of it need be measured.
        match self.together(&all) {
            None => return Standing::Open(vec![Request::of(all)]),
            Some(together) if together.well => return Standing::Undecided,
            Some(_) => {}
        }
        let mut sizes = vec![all.len()];
        while let Some(size) = sizes.last().copied().filter(|size| *size > 1) {
            sizes.push(size.div_ceil(2));
        }
        let mut open: Vec<Request> = Vec::new();
        let mut well = None;
        for size in &sizes {
            match self.together(&all[..*size]) {
                None => open.push(Request::of(all[..*size].to_vec())),
                Some(part) if part.well && well.is_none() => well = Some(*size),
                Some(_) => {}
            }
        }
        if !open.is_empty() {
            return Standing::Open(open);
        }
        let floor = self.fabric.floor_of(all[0]);
        let is_short = |part: Option<Together>| part.is_some_and(|part| part.share < floor);
        let (true, Some(well)) = (is_short(self.together(&all)), well) else {
            return Standing::Undecided;
        };
        let parts = || all.chunks(well).take(MOST_PARTS);
        let open: Vec<Request> = parts()
            .filter(|part| self.together(part).is_none())
            .map(|part| Request::of(part.to_vec()))
            .collect();
        if !open.is_empty() {
            return Standing::Open(open);
        }
        if let Fault::Path(pairs) = fault
            && let Some(wider) = self.wider(pairs, blamed)
        {
            return Standing::Open(vec![wider]);
        }
        let mut each = parts();
        match each.all(|part| self.together(part).is_some_and(|part| part.well)) {
            true => Standing::Confirmed,
            false => Standing::Undecided,
        }
    }

    /// What else a fault that these pairs share may be: what goes from all of their senders to all of their receivers.
    fn wider(&self, pairs: &[(usize, usize)], blamed: &[Fault]) -> Option<Request> {
        let (from, to): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
        let fault = Fault::Shared { from, to };
        let Fault::Shared { from, to } = &fault else {
            return None;
        };
        let shifted = |by: usize| -> Vec<(usize, usize)> {
            let pairs = from.iter().enumerate();
            pairs
                .map(|(at, from)| (*from, to[(at + by) % to.len()]))
                .collect()
        };
        let wider = (1..to.len()).map(shifted).find(|wider| {
            wider
                .iter()
                .all(|pair| self.may_send(*pair) && !blamed.contains(&Fault::Pair(pair.0, pair.1)))
        })?;
        self.together(&wider).is_none().then(|| Request::of(wider))
    }

    /// As many links through a fault as can be loaded without two of them meeting at a port, none of them at other faults.
    fn at_once(&self, fault: &Fault, blamed: &[Fault]) -> Vec<(usize, usize)> {
        // Without a port that is well alone, what all of them share may have room for the rest.
        let cleared = self.cleared();
        let blamed = || blamed.iter().filter(|other| !cleared.contains(*other));
        let clean = |from: usize, to: usize| {
            self.may_send((from, to))
                && !blamed().any(|other| match other {
                    Fault::Place(Place::Send(port)) => *port == from,
                    Fault::Place(Place::Receive(port)) => *port == to,
                    Fault::Pair(a, b) => (*a, *b) == (from, to),
                    _ => false,
                })
        };
        match fault {
            Fault::Path(pairs) => pairs.clone(),
            Fault::Shared { from, to } => {
                let shifted = |by: usize| -> Vec<(usize, usize)> {
                    let pairs = from.iter().enumerate().take(to.len());
                    let pairs = pairs.map(|(at, from)| (*from, to[(at + by) % to.len()]));
                    pairs.filter(|(from, to)| clean(*from, *to)).collect()
                };
                // Of equally many the first.
                let all = (0..to.len()).map(shifted);
                all.rev().max_by_key(Vec::len).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn uplink(&self, place: Place) -> Standing {
        match self.uplinks.get(&place) {
            Some(share) if *share < self.fabric.uplink_floor => Standing::Confirmed,
            Some(_) => Standing::Undecided,
            None => Standing::Open(vec![Request::of(crossing(self.fabric, place))]),
        }
    }

    fn port(&self, port: usize, sends: bool, blamed: &[Fault]) -> Standing {
        let partners = self.partners(port, sends, blamed);
        let pair = |partner: usize| match sends {
            true => (port, partner),
            false => (partner, port),
        };
        // With a partner that is at fault itself, it says nothing to fall short.
        let is_blamed = |partner: usize| {
            let place = match sends {
                true => Place::Receive(partner),
                false => Place::Send(partner),
            };
            blamed.contains(&Fault::Place(place))
        };
        let sound = || {
            partners
                .iter()
                .copied()
                .filter(|partner| !is_blamed(*partner))
        };
        let short: Vec<usize> = sound()
            .filter(|partner| self.said(pair(*partner)) == Said::Short(1))
            .collect();
        let place = match sends {
            true => Place::Send(port),
            false => Place::Receive(port),
        };
        let (reach, full) = (self.reach(place), self.case.full_with(place));
        let as_fast = |partner: &usize| {
            let place = match sends {
                true => Place::Receive(*partner),
                false => Place::Send(*partner),
            };
            self.capacity(place) >= reach * 0.99
        };
        let chosen = self.two_of(sound().filter(as_fast).collect(), &full);
        let mut all = chosen.iter();
        let refuted = all.any(|one| !short.contains(one) && full.contains(one));
        if !chosen.is_empty() && short.len() >= chosen.len() && !refuted {
            return Standing::Confirmed;
        }
        let mut wanted: Vec<(usize, usize)> = chosen.iter().map(|partner| pair(*partner)).collect();
        // As evidence: the other direction, and the partners with each other.
        let told = |pair: &(usize, usize)| self.said(*pair) != Said::Nothing;
        if let [first, rest @ ..] = &chosen[..] {
            let (from, to) = pair(*first);
            let between = rest.first().map(|second| (*first, *second));
            let evidence = [Some((to, from)), between];
            let evidence = evidence.into_iter().flatten();
            let may = |pair: &(usize, usize)| self.may_send(*pair) && !told(pair);
            wanted.extend(evidence.filter(may));
        }
        self.open(wanted)
    }

    /// A port that comes and goes: it is looked at until it fell short twice, with two partners if there are two that it was well with
    /// or that were well with others.
    pub fn standing_of_varying(&self, place: Place, blamed: &[Fault]) -> Standing {
        /// Looks at a port that comes and goes.
        const MOST_LOOKS: usize = 8;
        const OFTEN: usize = 2;
        let (port, sends) = match place {
            Place::Send(port) => (port, true),
            Place::Receive(port) => (port, false),
            Place::Up(_) | Place::Down(_) => return self.standing(&Fault::Place(place), blamed),
        };
        let partners = self.partners(port, sends, blamed);
        let pair = |partner: usize| match sends {
            true => (port, partner),
            false => (partner, port),
        };
        let alone = |partner: usize| {
            let looked = self.pairs.get(&pair(partner));
            looked.map_or((0, 0), |looked| looked.alone)
        };
        let chosen = self.two_of(partners, &self.case.full_with(place));
        let (mut all, mut short, mut both) = (0, 0, true);
        for partner in &chosen {
            let own = alone(*partner);
            (all, short) = (all + own.0, short + own.1);
            both &= own.1 > 0;
        }
        if short >= OFTEN && both {
            return Standing::Confirmed;
        }
        // The one that was looked at least.
        let next = chosen
            .into_iter()
            .min_by_key(|partner| (alone(*partner).1, alone(*partner).0));
        match next.filter(|_| all < MOST_LOOKS) {
            Some(partner) => Standing::Open(vec![Request::of(vec![pair(partner)])]),
            None => Standing::Undecided,
        }
    }

    fn pair(&self, pair: (usize, usize), blamed: &[Fault]) -> Standing {
        let (from, to) = pair;
        // Those that are at fault themselves cannot show that a port of the pair is well.
        let others = |sends: bool, port: usize, not: usize| -> Vec<usize> {
            let end = |other| match sends {
                true => Place::Receive(other),
                false => Place::Send(other),
            };
            let sound =
                |other: &usize| *other != not && !blamed.contains(&Fault::Place(end(*other)));
            let all = self.partners(port, sends, blamed);
            all.into_iter().filter(sound).collect()
        };
        let (onward, back) = (others(true, from, to), others(false, to, from));
        if self.said(pair) == Said::Short(1) {
            // Near the floor one look falls short and the next one does not, with whomever: that is no fault of a pair.
            let own = self.pairs.get(&pair).map_or(0.0, |looked| looked.share);
            let well = |pair: (usize, usize)| {
                let share = self.pairs.get(&pair).map_or(0.0, |looked| looked.share);
                self.said(pair) == Said::Well && share >= own * CLEARLY
            };
            // A port that is suspected itself must have been well with another one.
            let unsuspected = |end: Place| !blamed.contains(&Fault::Place(end));
            let sends = onward.iter().any(|other| well((from, *other)))
                || onward.is_empty() && unsuspected(Place::Send(from));
            let receives = back.iter().any(|other| well((*other, to)))
                || back.is_empty() && unsuspected(Place::Receive(to));
            // A port that comes and goes looks like a pair once.
            let looked = self.pairs.get(&pair);
            match (
                sends && receives,
                looked.is_some_and(|looked| looked.alone.1 > 1),
            ) {
                (true, true) => return Standing::Confirmed,
                (true, false) => return Standing::Open(vec![Request::of(vec![pair])]),
                (false, _) => {}
            }
        }
        let mut wanted = vec![pair];
        wanted.extend(onward.first().map(|other| (from, *other)));
        wanted.extend(back.first().map(|other| (*other, to)));
        self.open(wanted)
    }

    /// The pair that fell short alone though the same port carried clearly more with others, and what is known of it; the slowest of several.
    pub fn pair_behind(
        &self,
        place: Place,
        blamed: &[Fault],
    ) -> Option<((usize, usize), Standing)> {
        let through = |pair: &(usize, usize)| match place {
            Place::Send(port) => pair.0 == port,
            Place::Receive(port) => pair.1 == port,
            Place::Up(_) | Place::Down(_) => false,
        };
        // The one with which it fell short while it was well with others must have been seen alone.
        let slow = self.case.only_slow_pair(place);
        if let Some(pair) = slow.filter(|pair| self.said(*pair) == Said::Nothing) {
            return Some((pair, self.pair(pair, blamed)));
        }
        let own = || self.pairs.iter().filter(|(pair, _)| through(pair));
        let well = own().filter(|(pair, _)| self.said(**pair) == Said::Well);
        let best = well.map(|(_, looked)| looked.share).reduce(f64::max)?;
        let short = own().filter(|(pair, _)| self.said(**pair) == Said::Short(1));
        let (pair, _) = short
            .filter(|(_, looked)| best >= looked.share * CLEARLY)
            .min_by(|a, b| a.1.share.total_cmp(&b.1.share))?;
        Some((*pair, self.pair(*pair, blamed)))
    }

    /// What of these pairs is still to be measured, one after the other or many at a time.
    fn open(&self, wanted: Vec<(usize, usize)>) -> Standing {
        let open: Vec<Request> = wanted
            .into_iter()
            .filter(|pair| matches!(self.said(*pair), Said::Nothing | Said::Short(2..)))
            .filter(|pair| self.may_send(*pair))
            .map(|pair| Request::of(vec![pair]))
            .collect();
        if open.is_empty() {
            Standing::Undecided
        } else {
            Standing::Open(open)
        }
    }

    pub(super) fn may_send(&self, pair: (usize, usize)) -> bool {
        self.fabric.may_send(pair)
    }
}

/// All that crosses an uplink, from port to port.
fn crossing(fabric: &Fabric, place: Place) -> Vec<(usize, usize)> {
    let all = 0..fabric.ports.len();
    let pairs = all
        .clone()
        .flat_map(|from| all.clone().map(move |to| (from, to)));
    let number = fabric.number(place);
    let crosses = |(from, to): &(usize, usize)| fabric.way(*from, *to).contains(&number);
    pairs
        .filter(|pair| fabric.may_send(*pair))
        .filter(crosses)
        .collect()
}

fn is_crossing(fabric: &Fabric, place: Place, observation: &Observation) -> bool {
    let number = fabric.number(place);
    let mut links = observation.links.iter();
    links.all(|link| fabric.way(link.from, link.to).contains(&number))
}
