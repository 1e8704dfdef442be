//! One test as the judge sees it: what every place should have carried, what it carried, and how sure that comparison is.

use super::fabric::{Fabric, Observation, Place};
use super::fault::{Cover, Fault};
use super::filling::{Flow, fill};
use super::thresholds::{COMPETE, EXCEEDS, FOREIGN, FULL};

/// One test, with the rates that it should have shown.
pub(super) struct Look<'a> {
    pub(super) observation: &'a Observation,
    /// Expected rate of each flow.
    pub(super) rates: Vec<f64>,
    /// Rate that should pass each place.
    pub(super) expected: Vec<f64>,
    /// Rate that passed each place.
    pub(super) seen: Vec<f64>,
    /// For each place, true if this test judges it.
    pub(super) judged: Vec<bool>,
    /// For each place, the share of the expected rate that must pass it in this test.
    pub(super) floors: Vec<f64>,
    /// True if each port has at most one link each way: then the rate of a link describes its pair.
    pub(super) single: bool,
    /// True if ports send (first), or receive (second), more than they should be able to. Then their speed does not limit them, and chance
    /// decides how links share what does.
    pub(super) exceeded: [bool; 2],
    /// For each flow, true if its share of an uplink is left to chance: more links compete for the uplink than it can carry.
    pub(super) by_chance: Vec<bool>,
    /// For each place that is no uplink, true if such a flow passes it.
    pub(super) left_to_chance: Vec<bool>,
    /// For each place, the only flow through it. `None` if flows share a place.
    pub(super) apart: Option<Vec<Option<usize>>>,
}

impl<'a> Look<'a> {
    /// Judges each place that should be full: what passes other places depends on how links share the full ones, which is never quite fair.
    /// For the same reason it does not judge ports behind an uplink for which more links compete than it can carry. There it judges the uplink, by
    /// its sum.
    pub(super) fn new(fabric: &Fabric, observation: &'a Observation) -> Self {
        let rates = fill(&observation.capacities, &observation.flows);
        let expected = observation.sums(&rates);
        let is_uplink = |place: usize| matches!(fabric.place(place), Place::Up(_) | Place::Down(_));
        let competing = competing(fabric, observation);
        let by_chance: Vec<bool> = observation
            .flows
            .iter()
            .map(|flow| flow.route.iter().any(|place| competing[*place]))
            .collect();
        let mut left_to_chance = vec![false; fabric.places()];
        for (flow, chance) in observation.flows.iter().zip(&by_chance) {
            for place in flow.route.iter().filter(|place| !is_uplink(**place)) {
                left_to_chance[*place] |= *chance;
            }
        }
        let judged = |place: usize| {
            let capacity = observation.capacities[place];
            let known = capacity.is_finite() && expected[place] > 0.0;
            let foreign = observation.foreign.get(place).copied().unwrap_or(0.0);
            let own = foreign <= (capacity + foreign) * FOREIGN;
            let full = own && expected[place] >= capacity * FULL && !left_to_chance[place];
            match observation.only {
                Some(only) => known && fabric.place(place) == only,
                None => known && full && !observation.paced,
            }
        };
        let floor = |place: usize| {
            let capacity = observation.capacities.get(place);
            fabric.floor_at(place, capacity.copied().unwrap_or(f64::INFINITY))
        };
        let places = 0..observation.capacities.len();
        let seen = observation.seen(fabric);
        let exceeds = |place: &usize| seen[*place] > observation.capacities[*place] * EXCEEDS;
        let ports = 2 * fabric.ports.len();
        let known = ports <= observation.capacities.len();
        let exceeded =
            [0, 1].map(|back| known && (back..ports).step_by(2).any(|place| exceeds(&place)));
        Self {
            observation,
            seen,
            exceeded,
            judged: places.map(judged).collect(),
            floors: (0..fabric.places()).map(floor).collect(),
            single: observation.is_single(fabric),
            rates,
            expected,
            by_chance,
            left_to_chance,
            apart: apart(fabric, observation),
        }
    }

    /// True if the test is evidence of what ports carry: it held nothing back, and congested no port on purpose.
    pub(super) fn tells_rates(&self) -> bool {
        !self.observation.paced && self.observation.only.is_none()
    }

    /// True if the test loaded the fabric as planned.
    pub(super) fn loads(&self) -> bool {
        !self.observation.isolated
    }

    /// Share of the expected rate that passed a place, judged or not.
    pub(super) fn share(&self, place: usize) -> Option<f64> {
        let expected = *self.expected.get(place)?;
        (expected > 0.0 && expected.is_finite()).then(|| self.seen[place] / expected)
    }

    /// The same, without what exceeds the capacity of the place: bursts, or a port that is faster than specified.
    pub(super) fn share_within(&self, place: usize) -> Option<f64> {
        let share = self.share(place)?;
        Some(share.min((self.observation.capacities[place] / self.expected[place]).max(1.0)))
    }

    /// The same, if the place is judged.
    pub(super) fn judged_share(&self, place: usize) -> Option<f64> {
        self.share(place).filter(|_| self.judged[place])
    }

    /// True if a place is below its floor, judged or not.
    pub(super) fn is_short(&self, place: usize) -> bool {
        let share = self.share(place);
        share.is_some_and(|share| share < self.floors[place])
    }

    /// Rate that passed a fault.
    pub(super) fn seen_at(&self, fabric: &Fabric, fault: &Fault, cover: &Cover) -> f64 {
        if let Some(rate) = self.sum_at(fabric, fault, &self.seen) {
            return rate;
        }
        let links = self.observation.links.iter();
        let through = links.filter(|link| cover.has(link.from, link.to));
        through.map(|link| link.rate).sum()
    }

    /// Rate that should have passed the fault if it were sound.
    pub(super) fn expected_at(&self, fabric: &Fabric, fault: &Fault, cover: &Cover) -> f64 {
        if let Some(rate) = self.sum_at(fabric, fault, &self.expected) {
            return rate;
        }
        let flows = self.observation.flows.iter().zip(&self.rates);
        let through = flows.map(|(flow, rate)| cover.count(fabric, flow) as f64 * rate);
        through.sum()
    }

    /// Sum of the rates of places at a fault. `None` if links or flows say more.
    fn sum_at(&self, fabric: &Fabric, fault: &Fault, rates: &[f64]) -> Option<f64> {
        if let Fault::Place(place) = fault {
            return Some(rates[fabric.number(*place)]);
        }
        let places = fabric.port_places();
        let own = places.filter(|place| fault.takes_all_of(fabric, *place));
        let own = own.map(|place| rates[fabric.number(place)]);
        self.has_sums()
            .then(|| own.sum::<f64>() / self.ends_at(fabric, fault))
    }

    /// Number of times that a flow goes through a fault.
    pub(super) fn count(
        &self,
        fabric: &Fabric,
        fault: &Fault,
        cover: &Cover,
        flow: &Flow,
    ) -> usize {
        match (self.has_sums(), &flow.route[..]) {
            (false, _) => cover.count(fabric, flow),
            (true, [place]) => usize::from(fault.takes_all_of(fabric, fabric.place(*place))),
            (true, _) => 0,
        }
    }

    /// Number of places that count each link through a fault: both ends of all links, if the test knows only sums of places.
    pub(super) fn ends_at(&self, fabric: &Fabric, fault: &Fault) -> f64 {
        match self.has_sums() && fault.is_all(fabric) {
            true => 2.0,
            false => 1.0,
        }
    }

    /// True if the test knows only sums of places.
    pub(super) fn has_sums(&self) -> bool {
        !self.observation.passed.is_empty()
    }

    /// True if the host of a port was at its own limit.
    pub(super) fn host_is_limited(&self, fabric: &Fabric, place: Place) -> bool {
        let host = host_of(fabric, place);
        host.and_then(|host| self.observation.host_limited.get(host)) == Some(&true)
    }

    /// Share of the time that the host of a port waited for a processor.
    pub(super) fn waiting(&self, fabric: &Fabric, place: Place) -> f64 {
        let waiting = host_of(fabric, place).and_then(|host| self.observation.waiting.get(host));
        waiting.copied().unwrap_or(0.0)
    }
}

/// Host of a port direction; `None` for an uplink.
fn host_of(fabric: &Fabric, place: Place) -> Option<usize> {
    place.port().map(|(port, _)| fabric.ports[port].host)
}

/// For each place, the only flow through it. `None` if flows share a place.
fn apart(fabric: &Fabric, observation: &Observation) -> Option<Vec<Option<usize>>> {
    let mut through = vec![None; fabric.places()];
    for (number, flow) in observation.flows.iter().enumerate() {
        for place in &flow.route {
            if through[*place].replace(number).is_some() {
                return None;
            }
        }
    }
    Some(through)
}

/// For each place, true for an uplink for which more links compete than it can carry.
fn competing(fabric: &Fabric, observation: &Observation) -> Vec<bool> {
    let mut competing = vec![false; observation.capacities.len()];
    let uplinks = 2 * fabric.ports.len();
    if fabric.groups == 0 || uplinks >= competing.len() {
        return competing;
    }
    let mut free = observation.capacities.clone();
    free[uplinks..].fill(f64::INFINITY);
    let wanted = observation.sums(&fill(&free, &observation.flows));
    for place in uplinks..competing.len() {
        competing[place] = wanted[place] > observation.capacities[place] * COMPETE;
    }
    competing
}
