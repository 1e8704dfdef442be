//! Kinds of faults: one place, or something that several links share.

use super::fabric::{Fabric, Flow, Place};

/// A possible fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A direction of a port or uplink.
    Place(Place),
    /// The link from one port to another, though both ports are well with others.
    Pair(usize, usize),
    /// A port that carries its expected rate in one direction, but less while the other direction is also loaded.
    BothWays(usize),
    /// Something that all links from the ports `from` to the ports `to` share: the fabric, a chip, an undeclared uplink, one member of a
    /// bundle. Both lists are sorted.
    Shared {
        /// Sending ports.
        from: Vec<usize>,
        /// Receiving ports.
        to: Vec<usize>,
    },
    /// Something that these pairs share.
    Path(Vec<(usize, usize)>),
}

impl Fault {
    /// The whole fabric.
    #[cfg(feature = "internals")]
    pub fn of_all(fabric: &Fabric) -> Self {
        let all: Vec<usize> = (0..fabric.ports.len()).collect();
        Self::Shared {
            from: all.clone(),
            to: all,
        }
    }

    /// True for the fabric as a whole: every port sends through it, and every port receives.
    pub fn is_all(&self, fabric: &Fabric) -> bool {
        let ports = fabric.ports.len();
        matches!(self, Self::Shared { from, to } if from.len() == ports && to.len() == ports)
    }

    /// True if several places share the fault, and none of them is at fault alone.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. } | Self::Path(_))
    }

    /// True if a port is at one of the fault's ends. If only one side of a shared fault is all ports, only the other side counts.
    pub fn concerns(&self, fabric: &Fabric, port: usize) -> bool {
        let all = fabric.ports.len();
        match self {
            Self::Place(Place::Send(own) | Place::Receive(own)) | Self::BothWays(own) => {
                *own == port
            }
            Self::Place(Place::Up(group) | Place::Down(group)) => {
                fabric.ports[port].group == Some(*group)
            }
            Self::Pair(from, to) => *from == port || *to == port,
            Self::Shared { from, to } => {
                let lists = [from, to].into_iter();
                let mut some = lists.filter(|list| list.len() < all || self.is_all(fabric));
                some.any(|list| list.contains(&port))
            }
            Self::Path(pairs) => pairs.iter().any(|(from, to)| *from == port || *to == port),
        }
    }

    /// True if all links at a place go through the fault, which then also takes part in a test that knows only sums of places.
    pub(super) fn takes_all_of(&self, fabric: &Fabric, place: Place) -> bool {
        match (self, place.port()) {
            (Self::BothWays(own), Some((port, _))) => *own == port,
            (Self::Shared { .. }, Some(_)) => self.is_all(fabric),
            _ => false,
        }
    }

    /// Links that go through the fault.
    pub fn cover(&self, fabric: &Fabric) -> Cover {
        let ports = fabric.ports.len();
        let of = |list: &[usize]| {
            let mut mask = vec![false; ports];
            for port in list {
                mask[*port] = true;
            }
            mask
        };
        let group = |group: usize| -> (Vec<bool>, Vec<bool>) {
            let inside = fabric.ports.iter().map(|port| port.group == Some(group));
            let inside: Vec<bool> = inside.collect();
            let outside = inside.iter().map(|is| !is).collect();
            (inside, outside)
        };
        let all = || vec![true; ports];
        let (from, to) = match self {
            Self::Place(Place::Send(port)) => (of(&[*port]), all()),
            Self::Place(Place::Receive(port)) => (all(), of(&[*port])),
            Self::Place(Place::Up(number)) => group(*number),
            Self::Place(Place::Down(number)) => {
                let (inside, outside) = group(*number);
                (outside, inside)
            }
            Self::Pair(from, to) => (of(&[*from]), of(&[*to])),
            Self::Shared { from, to } => (of(from), of(to)),
            Self::BothWays(port) => return Cover::Either(of(&[*port])),
            Self::Path(pairs) => return Cover::Pairs(pairs.clone()),
        };
        Cover::Both(from, to)
    }
}

/// Set of the links that go through a fault.
#[derive(Debug, Clone)]
pub enum Cover {
    /// Links from a marked sender to a marked receiver, both by port number.
    Both(Vec<bool>, Vec<bool>),
    /// Links from or to a marked port, by port number.
    Either(Vec<bool>),
    /// These links only.
    Pairs(Vec<(usize, usize)>),
}

impl Cover {
    /// True if a link between these ports goes through the fault.
    pub fn has(&self, from: usize, to: usize) -> bool {
        match self {
            Self::Both(senders, receivers) => senders[from] && receivers[to],
            Self::Either(ports) => ports[from] || ports[to],
            Self::Pairs(pairs) => pairs.contains(&(from, to)),
        }
    }

    /// Number of times that a flow goes through the fault.
    pub fn count(&self, fabric: &Fabric, flow: &Flow) -> usize {
        let hops = fabric.hops(flow);
        hops.filter(|(from, to)| self.has(*from, *to)).count()
    }
}
