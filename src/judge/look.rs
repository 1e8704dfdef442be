//! One test as the judge sees it: what every place should have carried, what it did, and how sure that comparison is.

use super::fabric::{Fabric, Observation, Place};
use super::fault::{Cover, Fault};
use super::filling::fill;

/// A place is full from this part of what it can carry on.
pub(super) const FULL: f64 = 0.98;
/// What bore more of other traffic than this part of what it can carry is not judged.
pub(super) const FOREIGN: f64 = 0.02;
/// A port that carries this many times what it can is not limited by that.
pub(super) const EXCEEDS: f64 = 1.08;
/// Links compete for a place if they would carry more than it can by this factor.
const COMPETE: f64 = 1.02;

/// One test, with what was to be expected.
pub(super) struct Look<'a> {
    pub(super) observation: &'a Observation,
    /// What each flow should carry.
    pub(super) rates: Vec<f64>,
    /// What should pass each place.
    pub(super) expected: Vec<f64>,
    /// What did.
    pub(super) seen: Vec<f64>,
    /// Places that are judged here.
    pub(super) judged: Vec<bool>,
    /// Share of what is expected that must pass each place here.
    pub(super) floors: Vec<f64>,
    /// Each port has one link each way at most: a link says something of its pair.
    pub(super) single: bool,
    /// Ports send, or receive, more than they should be able to: their speed is not what limits them, and how links share what does is
    /// left to chance.
    pub(super) exceeded: [bool; 2],
    /// Flows whose share of an uplink is left to chance: more links compete for it than it can carry.
    pub(super) by_chance: Vec<bool>,
    /// For each place the one flow through it; none where flows share a place.
    pub(super) apart: Option<Vec<Option<usize>>>,
}

impl<'a> Look<'a> {
    /// A place is judged where it should be full: what passes others depends on how links share the full ones, which is
    /// never quite fair. So are ports behind an uplink for which more links compete than it can carry: there the uplink is
    /// judged, by its sum.
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
            apart: apart(fabric, observation),
        }
    }

    /// Whether it is evidence of what ports carry: nothing was held back, and no port was congested on purpose.
    pub(super) fn tells_rates(&self) -> bool {
        !self.observation.paced && self.observation.only.is_none()
    }

    /// Whether it loaded the fabric as the plan has it.
    pub(super) fn loads(&self) -> bool {
        !self.observation.isolated
    }

    /// Share of what was expected, whether or not it is judged.
    pub(super) fn share(&self, place: usize) -> Option<f64> {
        let expected = *self.expected.get(place)?;
        (expected > 0.0 && expected.is_finite()).then(|| self.seen[place] / expected)
    }

    /// The same, without what passed beyond what the place can carry: bursts, or a port that is faster than was said.
    pub(super) fn share_within(&self, place: usize) -> Option<f64> {
        let share = self.share(place)?;
        Some(share.min((self.observation.capacities[place] / self.expected[place]).max(1.0)))
    }

    /// The same where it is judged.
    pub(super) fn judged_share(&self, place: usize) -> Option<f64> {
        self.share(place).filter(|_| self.judged[place])
    }

    /// Whether less passed a place than must, judged or not.
    pub(super) fn is_short(&self, place: usize) -> bool {
        let share = self.share(place);
        share.is_some_and(|share| share < self.floors[place])
    }

    /// What passed a fault.
    pub(super) fn seen_at(&self, fabric: &Fabric, fault: &Fault, cover: &Cover) -> f64 {
        if let Fault::Place(place) = fault {
            return self.seen[fabric.number(*place)];
        }
        let links = self.observation.links.iter();
        let through = links.filter(|link| cover.has(link.from, link.to));
        through.map(|link| link.rate).sum()
    }

    /// What should have passed it if it were sound.
    pub(super) fn expected_at(&self, fabric: &Fabric, cover: &Cover) -> f64 {
        let flows = self.observation.flows.iter().zip(&self.rates);
        let through = flows.map(|(flow, rate)| cover.count(fabric, flow) as f64 * rate);
        through.sum()
    }

    /// Whether the host behind a port was at its own limit.
    pub(super) fn host_is_limited(&self, fabric: &Fabric, place: Place) -> bool {
        let limited =
            host_of(fabric, place).and_then(|host| self.observation.host_limited.get(host));
        limited.is_some_and(|limited| *limited)
    }

    /// For what part of the time the host behind a port waited for a processor.
    pub(super) fn waiting(&self, fabric: &Fabric, place: Place) -> f64 {
        let waiting = host_of(fabric, place).and_then(|host| self.observation.waiting.get(host));
        waiting.copied().unwrap_or(0.0)
    }
}

/// Host of a port's direction.
fn host_of(fabric: &Fabric, place: Place) -> Option<usize> {
    match place {
        Place::Send(port) | Place::Receive(port) => Some(fabric.ports[port].host),
        Place::Up(_) | Place::Down(_) => None,
    }
}

/// For each place the one flow through it; none where flows share a place.
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

/// Uplinks for which more links compete than they can carry.
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
