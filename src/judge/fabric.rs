//! Data model of the judge: ports, uplinks between groups of ports, and the measurements of one test.
//!
//! This module does not know nodes, processes or records. [`super::view`] builds these values from a record; tests build them from nothing.

use std::collections::{BTreeMap, BTreeSet};

pub use super::filling::Flow;
use super::filling::fill;
use super::thresholds::PEERS;

/// Ports of one switch, or of several switches that uplinks join.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fabric {
    /// Data interfaces of hosts.
    pub ports: Vec<Port>,
    /// Number of groups whose uplinks are known.
    pub groups: usize,
    /// Share of the expected rate that every uplink must carry.
    pub uplink_floor: f64,
    /// Port directions with a floor of at least [`PEERS`], because they carry less than the others of their speed.
    pub behind: BTreeSet<Place>,
}

/// A data interface of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Port {
    /// Number of its host. Ports of one host do not send to each other.
    pub host: usize,
    /// Number of its rail. Ports send only within their rail, and a look at two hosts measures all of their rails.
    pub rail: usize,
    /// Number of its group, if the group has a known uplink.
    pub group: Option<usize>,
    /// Share of the expected rate that the port must carry in each direction.
    pub floor: f64,
    /// Rate that the port must carry instead of that share, if the user requested one.
    pub asked: Option<f64>,
    /// True if its host was lost: no further measurement can use the port.
    pub gone: bool,
}

/// Direction of a port or uplink, which can limit a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A port in the direction out of its host.
    Send(usize),
    /// A port in the direction into its host.
    Receive(usize),
    /// The uplink of a group in the direction out of it.
    Up(usize),
    /// The uplink of a group in the direction into it.
    Down(usize),
}

impl Place {
    /// A direction of a port: out of its host, or into it.
    pub(super) fn of_port(port: usize, sends: bool) -> Self {
        match sends {
            true => Self::Send(port),
            false => Self::Receive(port),
        }
    }

    /// True for a port in the direction in which a link from the first port to the second uses it.
    pub(super) fn is_end_of(self, (from, to): (usize, usize)) -> bool {
        self == Self::Send(from) || self == Self::Receive(to)
    }

    /// Port, and true for the direction out of its host; `None` for an uplink.
    pub(super) fn port(self) -> Option<(usize, bool)> {
        match self {
            Self::Send(port) => Some((port, true)),
            Self::Receive(port) => Some((port, false)),
            Self::Up(_) | Self::Down(_) => None,
        }
    }
}

impl Fabric {
    /// Number of places.
    pub fn places(&self) -> usize {
        2 * (self.ports.len() + self.groups)
    }

    /// Number of a place. Ports come before uplinks, and each has two: send and receive, or up and down.
    pub fn number(&self, place: Place) -> usize {
        match place {
            Place::Send(port) => 2 * port,
            Place::Receive(port) => 2 * port + 1,
            Place::Up(group) => 2 * (self.ports.len() + group),
            Place::Down(group) => 2 * (self.ports.len() + group) + 1,
        }
    }

    /// Place with this number.
    pub fn place(&self, number: usize) -> Place {
        let (index, back) = (number / 2, number % 2 == 1);
        match (index.checked_sub(self.ports.len()), back) {
            (None, false) => Place::Send(index),
            (None, true) => Place::Receive(index),
            (Some(group), false) => Place::Up(group),
            (Some(group), true) => Place::Down(group),
        }
    }

    /// All places, in the order of their numbers.
    pub(super) fn all_places(&self) -> impl Iterator<Item = Place> {
        (0..self.places()).map(move |number| self.place(number))
    }

    /// Both directions of every port.
    pub(super) fn port_places(&self) -> impl Iterator<Item = Place> {
        let ports = 0..self.ports.len();
        ports.flat_map(|port| [Place::Send(port), Place::Receive(port)])
    }

    /// Share of the expected rate that must pass the place with this number.
    pub fn floor(&self, number: usize) -> f64 {
        let place = self.place(number);
        let own = match place {
            Place::Send(port) | Place::Receive(port) => self.ports[port].floor,
            Place::Up(_) | Place::Down(_) => self.uplink_floor,
        };
        match self.behind.contains(&place) {
            true => own.max(PEERS),
            false => own,
        }
    }

    /// The same in a test with this capacity. Reverse traffic lowers the capacity, so a requested rate becomes a larger share of it. A requested
    /// rate above the capacity cannot be reached in that test; then the one-way floor holds.
    pub fn floor_at(&self, number: usize, capacity: f64) -> f64 {
        let asked = match self.place(number) {
            Place::Send(port) | Place::Receive(port) => self.ports[port].asked,
            Place::Up(_) | Place::Down(_) => None,
        };
        let within = asked.filter(|asked| *asked <= capacity && capacity.is_finite());
        within.map_or_else(|| self.floor(number), |asked| asked / capacity)
    }

    /// Share of the expected rate that a link must carry. With a requested rate, that of the slower port.
    pub fn floor_of(&self, (from, to): (usize, usize)) -> f64 {
        self.ports[from].floor.max(self.ports[to].floor)
    }

    /// True if the first port can send to the second: other host, same rail, neither host lost.
    pub fn may_send(&self, (from, to): (usize, usize)) -> bool {
        let (from, to) = (self.ports[from], self.ports[to]);
        from.host != to.host && from.rail == to.rail && !from.gone && !to.gone
    }

    /// Links on the route of a flow, from port to port.
    pub fn hops<'a>(&self, flow: &'a Flow) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        // A route lists the sending port before the receiving one, and uplinks after both.
        let ports = 2 * self.ports.len();
        let mut of_ports = flow.route.iter().filter(move |place| **place < ports);
        std::iter::from_fn(move || Some((of_ports.next()? / 2, of_ports.next()? / 2)))
    }

    /// Numbers of the places on the route from port to port.
    pub fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let mut way = vec![
            self.number(Place::Send(from)),
            self.number(Place::Receive(to)),
        ];
        let groups = (self.ports[from].group, self.ports[to].group);
        if groups.0 != groups.1 {
            way.extend(groups.0.map(|group| self.number(Place::Up(group))));
            way.extend(groups.1.map(|group| self.number(Place::Down(group))));
        }
        way
    }
}

/// Measurements of one test. Rates are payload, in one unit throughout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Index of the test.
    pub test: usize,
    /// True for a second look at suspects: its links had the fabric for themselves.
    pub isolated: bool,
    /// True if links were limited to less than their ports carry, so that nothing should be lost.
    pub paced: bool,
    /// The only place that the test judges, full or not. `None` judges all places that should be full.
    pub only: Option<Place>,
    /// Rate that each place can carry, without the part that other traffic took; infinite if unknown.
    pub capacities: Vec<f64>,
    /// Rate that other traffic took of each place; empty without other traffic.
    pub foreign: Vec<f64>,
    /// Flows, each at one rate: links, or the chains of several phases.
    pub flows: Vec<Flow>,
    /// Ports at the ends of each flow's first link.
    pub pairs: Vec<(usize, usize)>,
    /// Received payload, from port to port.
    pub links: Vec<Seen>,
    /// Rate that passed each place, if the test has too many links to know each; empty otherwise. With it, `links` and `pairs` are empty, and
    /// each flow is that of one port direction, or of two groups.
    pub passed: Vec<f64>,
    /// For each host, true if it was at its own limit.
    pub host_limited: Vec<bool>,
    /// For each port, the frames that arrived, and how many of them were broken.
    pub frames: Vec<Frames>,
    /// For each host, the average share of the time that its processes were ready and waited for a processor.
    pub waiting: Vec<f64>,
}

/// Frames that arrived at a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// All frames.
    pub received: u64,
    /// Frames with a wrong checksum, or that forward error correction could not repair.
    pub broken: u64,
    /// Upper bound of the segments that its host had no room for: the fabric carried them, and the host lost them.
    pub discarded: u64,
    /// Frames that its interface dropped for any reason, including unsolicited frames.
    pub dropped: u64,
}

/// Payload and losses from one port to another, over all connections.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// Sending port.
    pub from: usize,
    /// Receiving port.
    pub to: usize,
    /// Payload rate.
    pub rate: f64,
    /// Segments sent.
    pub segments: u64,
    /// Segments retransmitted because they were lost.
    pub lost: u64,
    /// Number of connections.
    pub links: usize,
    /// Connections that waited for the network: the sender had data under way, and the reader had room.
    pub limiting: usize,
    /// True if the throughput rose from stretch to stretch of the window, by a fifth or more in the end. Connections that lost a segment do that
    /// while they recover their rate.
    pub rising: bool,
}

/// Expected and received rate of a pair in one test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Expected rate.
    pub expected: f64,
    /// Received rate.
    pub rate: f64,
}

impl Share {
    /// Received rate divided by expected rate.
    pub fn part(self) -> f64 {
        self.rate / self.expected
    }
}

impl Observation {
    /// Rate that passed each place.
    pub fn seen(&self, fabric: &Fabric) -> Vec<f64> {
        let mut sums = self.passed.clone();
        sums.resize(fabric.places(), 0.0);
        for link in &self.links {
            for place in fabric.way(link.from, link.to) {
                sums[place] += link.rate;
            }
        }
        sums
    }

    /// Rate that would pass each place if the fabric were sound.
    pub fn expected(&self) -> Vec<f64> {
        self.sums(&fill(&self.capacities, &self.flows))
    }

    /// Rate that would pass each place with these capacities and these maximum rates of pairs.
    pub fn predicted(&self, capacities: &[f64], pairs: &BTreeMap<(usize, usize), f64>) -> Vec<f64> {
        if pairs.is_empty() {
            return self.sums(&fill(capacities, &self.flows));
        }
        let mut flows = self.flows.clone();
        for (flow, pair) in flows.iter_mut().zip(&self.pairs) {
            if let Some(most) = pairs.get(pair) {
                flow.cap = flow.cap.min(*most);
            }
        }
        self.sums(&fill(capacities, &flows))
    }

    pub(super) fn sums(&self, rates: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.capacities.len()];
        for (flow, rate) in self.flows.iter().zip(rates) {
            for place in &flow.route {
                sums[*place] += rate;
            }
        }
        sums
    }

    /// Number of links measured at the same time on the rail of a pair; 1 means alone. Links of other rails use other ports.
    pub fn width(&self, fabric: &Fabric, (from, _): (usize, usize)) -> usize {
        let rail = |port: usize| fabric.ports[port].rail;
        let links = self.links.iter();
        links.filter(|link| rail(link.from) == rail(from)).count()
    }

    /// Share of the expected rate that a link must carry in this test.
    pub fn floor_of(&self, fabric: &Fabric, (from, to): (usize, usize)) -> f64 {
        let at = |place: Place| {
            let number = fabric.number(place);
            let capacity = self.capacities.get(number);
            fabric.floor_at(number, capacity.copied().unwrap_or(f64::INFINITY))
        };
        at(Place::Send(from)).max(at(Place::Receive(to)))
    }

    /// True if each port carries at most one link each way: then the rate of a link describes its pair.
    pub fn is_single(&self, fabric: &Fabric) -> bool {
        self.passed.is_empty() && self.links_at(fabric).iter().all(|count| *count <= 1)
    }

    /// Number of links at each port direction, by the number of the place.
    pub(super) fn links_at(&self, fabric: &Fabric) -> Vec<usize> {
        let mut counts = vec![0; fabric.places()];
        // Of many links a port has as many as its equals.
        for (count, rate) in counts.iter_mut().zip(&self.passed) {
            *count = usize::from(*rate > 0.0);
        }
        for link in &self.links {
            for place in [Place::Send(link.from), Place::Receive(link.to)] {
                counts[fabric.number(place)] += 1;
            }
        }
        counts
    }

    /// Expected and received rate of each pair. Leaves out pairs whose routes have no known limit.
    pub fn shares(&self) -> BTreeMap<(usize, usize), Share> {
        let mut expected: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (pair, rate) in self.pairs.iter().zip(fill(&self.capacities, &self.flows)) {
            *expected.entry(*pair).or_default() += rate;
        }
        let mut shares: BTreeMap<(usize, usize), Share> = expected
            .into_iter()
            .filter(|(_, expected)| *expected > 0.0 && expected.is_finite())
            .map(|(pair, expected)| {
                let rate = 0.0;
                (pair, Share { expected, rate })
            })
            .collect();
        for link in &self.links {
            if let Some(share) = shares.get_mut(&(link.from, link.to)) {
                share.rate += link.rate;
            }
        }
        shares
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A fabric of `hosts` hosts with one port each, floors of 90 %, and no groups.
    pub(crate) fn of_hosts(hosts: usize) -> Fabric {
        let port = |host| Port {
            host,
            rail: 0,
            group: None,
            floor: 0.9,
            asked: None,
            gone: false,
        };
        Fabric {
            ports: (0..hosts).map(port).collect(),
            groups: 0,
            uplink_floor: 0.9,
            behind: BTreeSet::new(),
        }
    }

    #[test]
    fn places_are_numbered_and_found_again() {
        let mut fabric = of_hosts(3);
        fabric.groups = 2;
        (fabric.ports[0].group, fabric.ports[1].group) = (Some(0), Some(1));
        let all: Vec<Place> = (0..fabric.places()).map(|n| fabric.place(n)).collect();
        for (number, place) in all.iter().enumerate() {
            assert_eq!(fabric.number(*place), number);
        }
        let way = |from, to| -> Vec<Place> {
            let way = fabric.way(from, to);
            way.into_iter().map(|n| fabric.place(n)).collect()
        };
        use Place::{Down, Receive, Send, Up};
        assert_eq!(way(0, 1), [Send(0), Receive(1), Up(0), Down(1)]);
        assert_eq!(way(0, 2), [Send(0), Receive(2), Up(0)]);
        assert_eq!(way(2, 1), [Send(2), Receive(1), Down(1)]);
    }
}
