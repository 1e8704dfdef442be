//! What is judged: ports and the uplinks between groups of them, and what was seen of them in one test.
//!
//! Nothing here knows of nodes, processes or records: [`super::view`] makes it from a record, and tests make it from nothing.

use std::collections::{BTreeMap, BTreeSet};

pub use super::filling::Flow;
use super::filling::fill;

/// Ports of a switch, or of several that uplinks join.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fabric {
    /// Data interfaces of hosts.
    pub ports: Vec<Port>,
    /// Number of groups whose uplinks are known.
    pub groups: usize,
    /// Share of what is expected that every uplink must carry.
    pub uplink_floor: f64,
    /// Port directions with a floor of [`PEERS`]: they carry less than the others of their speed.
    pub behind: BTreeSet<Place>,
}

/// Share of what ports like it carry that a port must reach where it is judged by these.
pub const PEERS: f64 = 0.97;

/// A data interface of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Port {
    /// Number of its host: ports of one host do not send to each other.
    pub host: usize,
    /// Number of its rail: ports send to those of their own rail, and a look at two hosts is one at all of their rails.
    pub rail: usize,
    /// Number of its group, if that has a known uplink.
    pub group: Option<usize>,
    /// Share of what is expected that it must carry in each direction.
    pub floor: f64,
    /// The rate that is asked for in place of that, if one is.
    pub asked: Option<f64>,
    /// Its host was lost: nothing can be measured with it any more.
    pub gone: bool,
}

/// Where a rate can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A port, out of its host.
    Send(usize),
    /// A port, into its host.
    Receive(usize),
    /// The uplink of a group, out of it.
    Up(usize),
    /// The uplink of a group, into it.
    Down(usize),
}

impl Fabric {
    /// Places there are.
    pub fn places(&self) -> usize {
        2 * (self.ports.len() + self.groups)
    }

    /// Number of a place.
    pub fn number(&self, place: Place) -> usize {
        match place {
            Place::Send(port) => 2 * port,
            Place::Receive(port) => 2 * port + 1,
            Place::Up(group) => 2 * (self.ports.len() + group),
            Place::Down(group) => 2 * (self.ports.len() + group) + 1,
        }
    }

    /// The place of a number.
    pub fn place(&self, number: usize) -> Place {
        let (index, back) = (number / 2, number % 2 == 1);
        match (index.checked_sub(self.ports.len()), back) {
            (None, false) => Place::Send(index),
            (None, true) => Place::Receive(index),
            (Some(group), false) => Place::Up(group),
            (Some(group), true) => Place::Down(group),
        }
    }

    /// Share of what is expected that must pass a place.
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

    /// The same in a test in which it can carry this much: a rate that is asked for is another part of it, the more comes back. What it cannot
    /// carry at all is asked of it one way.
    pub fn floor_at(&self, number: usize, capacity: f64) -> f64 {
        let asked = match self.place(number) {
            Place::Send(port) | Place::Receive(port) => self.ports[port].asked,
            Place::Up(_) | Place::Down(_) => None,
        };
        let within = asked.filter(|asked| *asked <= capacity && capacity.is_finite());
        within.map_or_else(|| self.floor(number), |asked| asked / capacity)
    }

    /// Share of what is expected that must go from port to port: where a rate is asked for, that of the slower port.
    pub fn floor_of(&self, (from, to): (usize, usize)) -> f64 {
        self.ports[from].floor.max(self.ports[to].floor)
    }

    /// Whether a port can be measured with another one.
    pub fn may_send(&self, (from, to): (usize, usize)) -> bool {
        let (from, to) = (self.ports[from], self.ports[to]);
        from.host != to.host && from.rail == to.rail && !from.gone && !to.gone
    }

    /// The links that a flow goes over, from port to port.
    pub fn hops<'a>(&self, flow: &'a Flow) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        // A way has a sending port before a receiving one, and uplinks behind both.
        let ports = 2 * self.ports.len();
        let mut of_ports = flow.route.iter().filter(move |place| **place < ports);
        std::iter::from_fn(move || Some((of_ports.next()? / 2, of_ports.next()? / 2)))
    }

    /// Numbers of the places on the way from port to port.
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

/// What was seen in one test. Rates are payload, in one unit throughout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Index of the test.
    pub test: usize,
    /// It was made to look at suspects: its links had the fabric for themselves.
    pub isolated: bool,
    /// Links were held to less than their ports carry, so that nothing should be lost.
    pub paced: bool,
    /// The one place that is judged, full or not; all that should be full if none is named.
    pub only: Option<Place>,
    /// What each place can carry, infinite where nobody knows; less what other traffic took.
    pub capacities: Vec<f64>,
    /// What other traffic took of each place; empty if there was none.
    pub foreign: Vec<f64>,
    /// What goes at one rate: links, or the chains of several phases.
    pub flows: Vec<Flow>,
    /// Ports at the ends of each flow's first link.
    pub pairs: Vec<(usize, usize)>,
    /// What was received, from port to port.
    pub links: Vec<Seen>,
    /// For each host, whether it was at its own limit.
    pub host_limited: Vec<bool>,
    /// For each port, frames that came to it and how many of them were broken.
    pub frames: Vec<Frames>,
    /// For each host, for what part of the time its processes were ready and waited for a processor, on average.
    pub waiting: Vec<f64>,
}

/// Frames that came to a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// All of them.
    pub received: u64,
    /// Those whose check sum was wrong, or that forward error correction gave up.
    pub broken: u64,
    /// Segments that its host had no room for, at most: those went through the fabric and were lost behind it.
    pub discarded: u64,
    /// What its interface dropped for any reason, frames that nobody asked for among them.
    pub dropped: u64,
}

/// What one port received from another, over all connections.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// Port that sent.
    pub from: usize,
    /// Port that received.
    pub to: usize,
    /// Payload rate.
    pub rate: f64,
    /// Segments sent.
    pub segments: u64,
    /// Segments sent again because they were lost.
    pub lost: u64,
    /// Connections.
    pub links: usize,
    /// Connections that waited for their way: the sender had data under way, and the reader room.
    pub limiting: usize,
    /// They carried more from stretch to stretch of the window, and a fifth more in the end: connections do that which have lost a segment and
    /// find their rate again.
    pub rising: bool,
}

/// What a pair received in a test, and should have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// What it should have received.
    pub expected: f64,
    /// What it received.
    pub rate: f64,
}

impl Share {
    /// The one of the other.
    pub fn part(self) -> f64 {
        self.rate / self.expected
    }
}

impl Observation {
    /// What passed each place.
    pub fn seen(&self, fabric: &Fabric) -> Vec<f64> {
        let mut sums = vec![0.0; fabric.places()];
        for link in &self.links {
            for place in fabric.way(link.from, link.to) {
                sums[place] += link.rate;
            }
        }
        sums
    }

    /// What would pass each place if the fabric were sound.
    pub fn expected(&self) -> Vec<f64> {
        self.sums(&fill(&self.capacities, &self.flows))
    }

    /// What would pass each place with these capacities and rates of pairs at most.
    pub fn predicted(&self, capacities: &[f64], pairs: &[((usize, usize), f64)]) -> Vec<f64> {
        if pairs.is_empty() {
            return self.sums(&fill(capacities, &self.flows));
        }
        let mut flows = self.flows.clone();
        for (flow, pair) in flows.iter_mut().zip(&self.pairs) {
            for (_, most) in pairs.iter().filter(|(faulty, _)| faulty == pair) {
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

    /// How many links were measured at the same time on the rail of a pair: alone if one. What other rails carry passes other ports.
    pub fn width(&self, fabric: &Fabric, (from, _): (usize, usize)) -> usize {
        let rail = |port: usize| fabric.ports[port].rail;
        let links = self.links.iter();
        links.filter(|link| rail(link.from) == rail(from)).count()
    }

    /// Share of what is expected that must go from port to port here.
    pub fn floor_of(&self, fabric: &Fabric, (from, to): (usize, usize)) -> f64 {
        let at = |place: Place| {
            let number = fabric.number(place);
            let capacity = self.capacities.get(number);
            fabric.floor_at(number, capacity.copied().unwrap_or(f64::INFINITY))
        };
        at(Place::Send(from)).max(at(Place::Receive(to)))
    }

    /// Whether each port carries one link each way at most: then a link says something of its pair.
    pub fn is_single(&self, fabric: &Fabric) -> bool {
        let mut count = vec![0_u32; fabric.places()];
        for link in &self.links {
            for place in [Place::Send(link.from), Place::Receive(link.to)] {
                count[fabric.number(place)] += 1;
            }
        }
        count.iter().all(|count| *count <= 1)
    }

    /// What a pair received.
    pub fn rate_of(&self, pair: (usize, usize)) -> f64 {
        let mut links = self.links.iter();
        let link = links.find(|link| (link.from, link.to) == pair);
        link.map_or(0.0, |link| link.rate)
    }

    /// What each pair received, and of what it should have; pairs whose ways are not known to be limited are left out.
    pub fn shares(&self) -> BTreeMap<(usize, usize), Share> {
        let mut expected: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (pair, rate) in self.pairs.iter().zip(fill(&self.capacities, &self.flows)) {
            *expected.entry(*pair).or_default() += rate;
        }
        let mut shares: BTreeMap<(usize, usize), Share> = expected
            .into_iter()
            .filter(|(_, expected)| *expected > 0.0 && expected.is_finite())
            .map(|(pair, expected)| {
                (
                    pair,
                    Share {
                        expected,
                        rate: 0.0,
                    },
                )
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

    /// A fabric of so many hosts with one port each, floors of 90 %, and no groups.
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
