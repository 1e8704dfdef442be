//! Retests: a suspect counts as a fault only after it fell short alone.
//!
//! A port is measured alone with two sound partners, since a fault of one partner would look the same. The other direction, and
//! the partners with each other, follow as evidence. A pair is measured, and each of its ports with another partner. An uplink is
//! measured with only the links that cross it. Something that several links share is measured with as many of them as can be loaded
//! at once, then with half as many and so on, until so few are left that all of them are healthy. If there are many suspects, those
//! without a common port are measured at the same time. Those that fall short are measured again in sets of half the size, until
//! each was alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::size::MOST_KEPT_LINKS;

use super::case::Case;
use super::fabric::{Fabric, Observation, Place};
use super::fault::Fault;
use super::thresholds::WELL_WITH_OTHERS;

/// Links to measure at the same time, from port to port, without other load.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Sending and receiving port of each link.
    pub pairs: Vec<(usize, usize)>,
    /// For a look for losses, with links limited to less than their ports carry: its duration as a multiple of the looks that found losses.
    pub paced: Option<f64>,
    /// Test of the plan to repeat unchanged, instead of `pairs`.
    pub again: Option<usize>,
}

impl Request {
    /// Requests these pairs, at full rate.
    pub fn of(pairs: Vec<(usize, usize)>) -> Self {
        Self {
            pairs,
            paced: None,
            again: None,
        }
    }

    /// Requests a look for losses at a pair, for `times` as long as the looks that found some.
    pub(super) fn for_losses(pair: (usize, usize), times: f64) -> Self {
        Self {
            paced: Some(times),
            ..Self::of(vec![pair])
        }
    }

    /// Requests that a test is repeated.
    pub(super) fn again(test: usize) -> Self {
        Self {
            again: Some(test),
            ..Self::of(Vec::new())
        }
    }
}

/// State of a blamed fault after the retests so far.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Standing {
    /// It fell short alone, as often as required.
    Confirmed,
    /// These requests must be measured first.
    Open(Vec<Request>),
    /// All possible measurements were made, and they do not decide.
    Undecided,
}

/// Results of the retests so far.
pub(crate) struct Second<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) case: &'a Case<'a>,
    /// Rate that each place can carry alone, as far as known.
    pub(super) capacities: Vec<f64>,
    pairs: BTreeMap<(usize, usize), Looked>,
    /// Uplinks that were measured with only the links that cross them, each with its best share.
    uplinks: BTreeMap<Place, f64>,
    /// Results of links measured at the same time, by their hosts.
    sets: BTreeMap<Vec<(usize, usize)>, Together>,
}

/// Result of links measured at the same time.
#[derive(Debug, Clone, Copy, Default)]
struct Together {
    /// Best share of the expected sum of all links.
    share: f64,
    /// True if each link reached its floor.
    well: bool,
}

/// Results of the retests of a pair.
#[derive(Debug, Clone, Copy, Default)]
struct Looked {
    /// Best share of the expected rate.
    share: f64,
    /// Best rate.
    rate: f64,
    /// Smallest number of links at the same time, of the looks that fell short.
    width: usize,
    /// True if the pair reached its floor at least once.
    well: bool,
    /// Number of looks alone, and number of those that fell short.
    alone: (usize, usize),
}

/// Result of the retests of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Said {
    Nothing,
    /// It reached the floor.
    Well,
    /// It never reached the floor; holds the smallest number of links at the same time, 1 if it was alone.
    Short(usize),
}

impl<'a> Second<'a> {
    /// Collects the results of the isolated observations.
    pub(crate) fn of(fabric: &'a Fabric, case: &'a Case<'a>, observations: &[Observation]) -> Self {
        // Acknowledgements lower a capacity in one test and not in another, so the highest one counts.
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
            return; // A look for losses or for head-of-line blocking.
        }
        let shares = observation.shares();
        let expected: f64 = shares.values().map(|share| share.expected).sum();
        if expected > 0.0 {
            let rate: f64 = shares.values().map(|share| share.rate).sum();
            let mut each = shares.iter();
            let well =
                each.all(|(pair, share)| share.part() >= observation.floor_of(self.fabric, *pair));
            let pairs: Vec<(usize, usize)> = shares.keys().copied().collect();
            let known = self.sets.entry(self.by_hosts(&pairs)).or_default();
            known.share = known.share.max(rate / expected);
            known.well |= well;
        }
        if observation.is_single(self.fabric) {
            for (pair, seen) in shares {
                let share = seen.part();
                let known = self.pairs.entry(pair).or_insert(Looked {
                    width: usize::MAX,
                    ..Looked::default()
                });
                known.share = known.share.max(share);
                known.rate = known.rate.max(seen.rate);
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

    /// Results of the retests of a pair; all zero without any.
    fn looked(&self, pair: (usize, usize)) -> Looked {
        self.pairs.get(&pair).copied().unwrap_or_default()
    }

    pub(super) fn said(&self, pair: (usize, usize)) -> Said {
        match self.pairs.get(&pair) {
            None => Said::Nothing,
            Some(looked) if looked.well => Said::Well,
            Some(looked) => Said::Short(looked.width),
        }
    }

    /// Faults that retests refute, because they reached the floor there.
    pub(crate) fn cleared(&self) -> BTreeSet<Fault> {
        let mut cleared = BTreeSet::new();
        for (pair, looked) in &self.pairs {
            if looked.well {
                cleared.insert(Fault::Pair(pair.0, pair.1));
            }
            for place in [Place::Send(pair.0), Place::Receive(pair.1)] {
                // With a slow partner a fast port proves little, so its rate counts and not its share.
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

    /// State of a fault, and the measurements that it still needs. `blamed` lists all faults.
    pub(crate) fn standing(&self, fault: &Fault, blamed: &[Fault]) -> Standing {
        match fault {
            Fault::Place(place) => match place.port() {
                Some((port, sends)) => self.port(port, sends, blamed),
                None => self.uplink(*place),
            },
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

    /// Judges a port that sends and receives at once, with two partners, and each direction alone.
    fn both_ways(&self, port: usize, blamed: &[Fault]) -> Standing {
        let to = self.partners(port, true, blamed);
        let from = self.partners(port, false, blamed);
        let Some(first) = to.first().copied() else {
            return Standing::Undecided;
        };
        // With a different partner for the way back, no other port is loaded both ways.
        let back = from.iter().copied().find(|other| *other != first);
        let looks = [
            vec![(port, first), (back.unwrap_or(first), port)],
            vec![(port, first)],
            vec![(back.unwrap_or(first), port)],
        ];
        match looks.each_ref().map(|pairs| self.together(pairs)) {
            [Some(both), Some(one), Some(other)] => {
                let floor = self.fabric.ports[port].floor;
                match both.share < floor && one.well && other.well {
                    true => Standing::Confirmed,
                    false => Standing::Undecided,
                }
            }
            _ => {
                let looks = looks.into_iter();
                let open = looks.filter(|pairs| self.together(pairs).is_none());
                Standing::Open(open.map(Request::of).collect())
            }
        }
    }

    /// Judges what several links share: all of them at once fall short, and each of them was well with fewer others.
    fn shared(&self, fault: &Fault, blamed: &[Fault]) -> Standing {
        /// Maximum number of parts to measure; of more parts, these are a sample.
        const MOST_PARTS: usize = 8;
        let all = self.at_once(fault, blamed);
        if all.len() < 2 {
            return Standing::Undecided;
        }
        // If all of them together are well, the fault is refuted, and no part need be measured.
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

    /// Request for a wider fault that these pairs can belong to: other links from the same senders to the same receivers.
    fn wider(&self, pairs: &[(usize, usize)], blamed: &[Fault]) -> Option<Request> {
        let (from, to): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
        let shifted = |by: usize| -> Vec<(usize, usize)> {
            let pairs = from.iter().enumerate();
            pairs
                .map(|(at, from)| (*from, to[(at + by) % to.len()]))
                .collect()
        };
        let is_clean = |(from, to): &(usize, usize)| {
            self.fabric.may_send((*from, *to)) && !blamed.contains(&Fault::Pair(*from, *to))
        };
        let mut all = (1..to.len()).map(shifted);
        let wider = all.find(|wider| wider.iter().all(is_clean))?;
        self.together(&wider).is_none().then(|| Request::of(wider))
    }

    /// The most links through a fault that can be loaded without two of them at one port, and without other faults.
    fn at_once(&self, fault: &Fault, blamed: &[Fault]) -> Vec<(usize, usize)> {
        // Without a port that is well alone, there can be room for the rest in what all of them share.
        let cleared = self.cleared();
        let blamed = || blamed.iter().filter(|other| !cleared.contains(*other));
        let clean = |from: usize, to: usize| {
            self.fabric.may_send((from, to))
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
                // Of several sets of equal size, the first counts.
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
        let pair = |partner: usize| link(port, sends, partner);
        let end = |partner: usize| Place::of_port(partner, !sends);
        // A deficit with a partner that is at fault itself proves nothing.
        let is_sound = |partner: &usize| !blamed.contains(&Fault::Place(end(*partner)));
        let sound = || partners.iter().copied().filter(is_sound);
        let short: Vec<usize> = sound()
            .filter(|partner| self.said(pair(*partner)) == Said::Short(1))
            .collect();
        let place = Place::of_port(port, sends);
        let (reach, full) = (self.reach(place), self.case.full_with(place));
        let as_fast = |partner: &usize| self.capacity(end(*partner)) >= reach * 0.99;
        let chosen = self.two_of(sound().filter(as_fast).collect(), &full);
        let mut all = chosen.iter();
        let refuted = all.any(|one| !short.contains(one) && full.contains(one));
        if !chosen.is_empty() && short.len() >= chosen.len() && !refuted {
            return Standing::Confirmed;
        }
        let mut wanted: Vec<(usize, usize)> = chosen.iter().map(|partner| pair(*partner)).collect();
        // Evidence: the other direction, and the partners with each other.
        let told = |pair: &(usize, usize)| self.said(*pair) != Said::Nothing;
        if let [first, rest @ ..] = &chosen[..] {
            let (from, to) = pair(*first);
            let between = rest.first().map(|second| (*first, *second));
            let evidence = [Some((to, from)), between];
            let evidence = evidence.into_iter().flatten();
            let may = |pair: &(usize, usize)| self.fabric.may_send(*pair) && !told(pair);
            wanted.extend(evidence.filter(may));
        }
        self.open(wanted)
    }

    /// State of a port whose fault comes and goes. It is measured until it fell short twice, with two partners if there are two with which it was
    /// well or that were well with others.
    pub(crate) fn standing_of_varying(&self, place: Place, blamed: &[Fault]) -> Standing {
        /// Maximum number of looks at such a port.
        const MOST_LOOKS: usize = 8;
        const OFTEN: usize = 2;
        let Some((port, sends)) = place.port() else {
            return self.uplink(place);
        };
        let partners = self.partners(port, sends, blamed);
        let pair = |partner: usize| link(port, sends, partner);
        let alone = |partner: usize| self.looked(pair(partner)).alone;
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
        // Next is the partner with the fewest deficits, and of equal ones the partner with the fewest looks.
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
        // A partner that is at fault itself cannot show that a port of the pair is well.
        let others = |sends: bool, port: usize, not: usize| -> Vec<usize> {
            let end = |other| Fault::Place(Place::of_port(other, !sends));
            let sound = |other: &usize| *other != not && !blamed.contains(&end(*other));
            let all = self.partners(port, sends, blamed);
            all.into_iter().filter(sound).collect()
        };
        let (onward, back) = (others(true, from, to), others(false, to, from));
        if self.said(pair) == Said::Short(1) {
            // Near the floor one look falls short and the next does not, with any partner. That is no fault of a pair.
            let looked = self.looked(pair);
            let well = |pair: (usize, usize)| {
                let share = self.looked(pair).share;
                self.said(pair) == Said::Well && share >= looked.share * WELL_WITH_OTHERS
            };
            // A port that is a suspect itself must have been well with another partner.
            let unsuspected = |end: Place| !blamed.contains(&Fault::Place(end));
            let sends = onward.iter().any(|other| well((from, *other)))
                || onward.is_empty() && unsuspected(Place::Send(from));
            let receives = back.iter().any(|other| well((*other, to)))
                || back.is_empty() && unsuspected(Place::Receive(to));
            // A port whose fault comes and goes looks like a slow pair once, so the pair must fall short twice.
            match (sends && receives, looked.alone.1 > 1) {
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

    /// The pair that fell short alone although its port carried clearly more with others, and the state of that pair. Of several pairs, the slowest.
    pub(crate) fn pair_behind(
        &self,
        place: Place,
        blamed: &[Fault],
    ) -> Option<((usize, usize), Standing)> {
        // If the port fell short with one partner only, that pair must be measured alone.
        let slow = self.case.only_slow_pair(place);
        if let Some(pair) = slow.filter(|pair| self.said(*pair) == Said::Nothing) {
            return Some((pair, self.pair(pair, blamed)));
        }
        let own = || {
            let all = self.pairs.iter();
            all.filter(|(pair, _)| place.is_end_of(**pair))
        };
        let well = own().filter(|(pair, _)| self.said(**pair) == Said::Well);
        let best = well.map(|(_, looked)| looked.share).reduce(f64::max)?;
        let short = own().filter(|(pair, _)| self.said(**pair) == Said::Short(1));
        let (pair, _) = short
            .filter(|(_, looked)| best >= looked.share * WELL_WITH_OTHERS)
            .min_by(|a, b| a.1.share.total_cmp(&b.1.share))?;
        Some((*pair, self.pair(*pair, blamed)))
    }

    /// Requests for those of these pairs that were not measured yet, or fell short only with others at the same time.
    fn open(&self, wanted: Vec<(usize, usize)>) -> Standing {
        let open: Vec<Request> = wanted
            .into_iter()
            .filter(|pair| matches!(self.said(*pair), Said::Nothing | Said::Short(2..)))
            .filter(|pair| self.fabric.may_send(*pair))
            .map(|pair| Request::of(vec![pair]))
            .collect();
        match open.is_empty() {
            true => Standing::Undecided,
            false => Standing::Open(open),
        }
    }
}

/// The link of a port to a partner, or from it.
pub(super) fn link(port: usize, sends: bool, partner: usize) -> (usize, usize) {
    match sends {
        true => (port, partner),
        false => (partner, port),
    }
}

/// Pairs of ports whose links cross an uplink: all, or as many with each port that the record keeps their links, since sums do not show which links
/// cross.
fn crossing(fabric: &Fabric, place: Place) -> Vec<(usize, usize)> {
    /// More pairs fill an uplink no better.
    const MOST_PAIRS: usize = MOST_KEPT_LINKS / 2;
    let all = 0..fabric.ports.len();
    let pairs = all
        .clone()
        .flat_map(|from| all.clone().map(move |to| (from, to)));
    let number = fabric.number(place);
    let crosses = |(from, to): &(usize, usize)| fabric.way(*from, *to).contains(&number);
    let pairs = pairs.filter(|pair| fabric.may_send(*pair)).filter(crosses);
    let mut pairs: Vec<(usize, usize)> = pairs.collect();
    let step = pairs.len().div_ceil(MOST_PAIRS).max(1);
    // Numbers within rail and group, so that each port keeps some partners however the groups stand in the list.
    let mut last: BTreeMap<(usize, Option<usize>), usize> = BTreeMap::new();
    let numbers = fabric.ports.iter().map(|port| {
        let number = last.entry((port.rail, port.group)).or_default();
        *number += 1;
        *number
    });
    let numbers: Vec<usize> = numbers.collect();
    pairs.retain(|(from, to)| (numbers[*from] + numbers[*to]).is_multiple_of(step));
    pairs
}

fn is_crossing(fabric: &Fabric, place: Place, observation: &Observation) -> bool {
    let number = fabric.number(place);
    let mut links = observation.links.iter();
    observation.passed.is_empty()
        && links.all(|link| fabric.way(link.from, link.to).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fabric::tests::of_hosts;

    /// Symptom: the retest of an uplink between many hosts had too many links to keep, so it decided nothing, and was made eight times.
    #[test]
    fn a_retest_of_an_uplink_has_links_that_are_kept_with_each_port() {
        let mut fabric = of_hosts(200);
        fabric.groups = 1;
        for port in fabric.ports.iter_mut().step_by(2) {
            port.group = Some(0);
        }
        let pairs = crossing(&fabric, Place::Up(0));
        assert!(pairs.len() <= MOST_KEPT_LINKS, "{}", pairs.len());
        for port in 0..200 {
            let own = pairs
                .iter()
                .filter(|(from, to)| [*from, *to].contains(&port));
            assert!((33..=34).contains(&own.count()), "port {port}");
        }
        fabric.ports.truncate(6);
        assert_eq!(crossing(&fabric, Place::Up(0)).len(), 9);
    }
}
