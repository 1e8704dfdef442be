//! Chooses the partners of a suspect, and the retests that run at the same time.

use std::collections::BTreeSet;

use numbers::whole;

use super::confirm::{Request, Said, Second, link};
use super::fabric::Place;
use super::fault::Fault;

/// Maximum number of suspects that are each measured alone from the start.
const FEW: usize = 8;

impl Second<'_> {
    pub(super) fn capacity(&self, place: Place) -> f64 {
        let known = self.capacities.get(self.fabric.number(place));
        known.copied().unwrap_or(f64::INFINITY)
    }

    /// Highest rate that a port can be shown to carry: its own capacity, or that of its fastest possible partner if that is less.
    pub(super) fn reach(&self, place: Place) -> f64 {
        let ports = 0..self.fabric.ports.len();
        let partners = ports.filter_map(|other| {
            let (port, sends) = place.port()?;
            let may_send = self.fabric.may_send(link(port, sends, other));
            may_send.then_some(Place::of_port(other, !sends))
        });
        let fastest = partners.map(|place| self.capacity(place));
        self.capacity(place).min(fastest.fold(0.0, f64::max))
    }

    /// Partners to measure a port with, the best first: as fast as the port, not blamed, in its group, and with the smallest deficit.
    /// Leaves out ports of its own host and of other rails.
    pub(super) fn partners(&self, port: usize, sends: bool, blamed: &[Fault]) -> Vec<usize> {
        let place = |other| Place::of_port(other, !sends);
        let own = self.fabric.ports[port];
        let reach = self.reach(Place::of_port(port, sends));
        let mut all: Vec<(bool, bool, bool, u64, usize)> = (0..self.fabric.ports.len())
            .filter(|other| {
                let other = self.fabric.ports[*other];
                other.host != own.host && other.rail == own.rail
            })
            .map(|other| {
                let is_blamed = blamed.iter().any(|fault| match fault {
                    Fault::Place(blamed) => *blamed == place(other),
                    Fault::Pair(from, to) => (*from, *to) == link(port, sends, other),
                    Fault::BothWays(port) => *port == other,
                    Fault::Shared { .. } | Fault::Path(_) => false,
                });
                let share = self.case.least_share(place(other)).unwrap_or(1.0);
                // Steps of five per cent keep noise from choosing.
                let short = whole((1.0 - share).clamp(0.0, 1.0) * 20.0);
                let apart = self.fabric.ports[other].group != own.group;
                let slow = self.capacity(place(other)) < reach;
                (slow, is_blamed, apart, short, other)
            })
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(.., other)| other).collect()
    }

    /// The best partner and a second one. If the best was never full with the port, the second is one that was: a faulty port falls short with that
    /// one as well. Otherwise it is the second best.
    pub(super) fn two_of(&self, partners: Vec<usize>, full: &BTreeSet<usize>) -> Vec<usize> {
        let [first, rest @ ..] = &partners[..] else {
            return partners;
        };
        let was_full = |partner: &&usize| full.contains(partner);
        let telling = match full.contains(first) {
            true => None,
            false => rest.iter().find(was_full),
        };
        let second = telling.or(rest.first()).copied();
        std::iter::once(*first).chain(second).collect()
    }

    /// Combines requests of single links if there are many, so that no port carries more than one each way. The first look has all of
    /// them, the next ones half as many as fell short together, and so on until each was alone.
    pub(crate) fn packed(&self, requests: Vec<Request>) -> Vec<Request> {
        let (single, others): (Vec<Request>, Vec<Request>) = requests
            .into_iter()
            .partition(|request| request.pairs.len() == 1 && request.again.is_none());
        let mut pairs: Vec<(usize, usize)> = single
            .into_iter()
            .flat_map(|request| request.pairs)
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        let before = |pair: &(usize, usize)| match self.said(*pair) {
            Said::Short(width) => width,
            _ => usize::MAX,
        };
        let narrowest = pairs.iter().map(before).min().unwrap_or(usize::MAX);
        let width = match narrowest {
            usize::MAX if pairs.len() <= FEW => 1,
            usize::MAX => pairs.len(),
            width => width / 2,
        };
        let mut packed: Vec<Request> = Vec::new();
        for pair in pairs {
            let meets = |request: &&mut Request| {
                // A look at a pair of ports uses all rails of their hosts.
                let host = |port: usize| self.fabric.ports[port].host;
                let mut others = request.pairs.iter();
                let free = others
                    .all(|(from, to)| host(*from) != host(pair.0) && host(*to) != host(pair.1));
                request.pairs.len() < width.max(1) && free
            };
            match packed.iter_mut().find(meets) {
                Some(request) => request.pairs.push(pair),
                None => packed.push(Request::of(vec![pair])),
            }
        }
        for request in &mut packed {
            request.pairs.sort_unstable();
        }
        packed.extend(others);
        packed
    }
}
