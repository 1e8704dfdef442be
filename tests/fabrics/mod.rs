//! Fabrics that exist as numbers only, with resources hidden from the judge. Links share each resource max-min fair, with
//! weights that are uneven by 10 %. The judge's findings are compared with the hidden faults.
//!
//! The filling here is not the judge's own, and knows no places: a resource is a set of links and their total capacity.

#![allow(dead_code, reason = "the test and the benchmark each use their part")]

use std::collections::{BTreeMap, BTreeSet};

use pipebench::internals::judge::fabric::{Fabric, Observation, Place, Seen};
use pipebench::internals::judge::fault::Fault;
use pipebench::internals::judge::filling::Flow;
use pipebench::internals::judge::peers::raised;
use pipebench::internals::judge::{Decision, Step, decide};

pub mod unlisted;

/// From port to port.
pub type Pair = (usize, usize);

/// A small generator (xorshift64*), so that a seed determines a case.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        let mut draw = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        draw.next();
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits fit") % limit
    }

    /// A random number between two numbers.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `count` different numbers below `limit`, sorted.
    fn some(&mut self, count: usize, limit: usize) -> Vec<usize> {
        let mut all: BTreeSet<usize> = BTreeSet::new();
        while all.len() < count {
            all.insert(self.below(limit));
        }
        all.into_iter().collect()
    }
}

/// A resource that links share.
pub struct Hidden {
    /// The links, from port to port.
    pub links: BTreeSet<Pair>,
    /// Total capacity of these links.
    pub capacity: f64,
    /// Probability that the resource limits a test.
    pub often: f64,
    /// Faults that name it correctly.
    pub names: Vec<Fault>,
    /// True if it is a fault, and not as declared.
    pub wrong: bool,
}

/// The kind of fault of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Sound,
    Port,
    BothWays,
    Pair,
    TwoPorts,
    ThreeFaults,
    /// A declared uplink, as fast as its ports together.
    FullUplink,
    /// A declared uplink, half as fast.
    HalfUplink,
    /// The same uplinks, sound.
    SoundFullUplink,
    SoundHalfUplink,
    /// An uplink that is not declared.
    HiddenUplink,
    /// Total sending of some ports, or total receiving, or both.
    Chip,
    /// One of two members of a declared uplink, which takes more than its half.
    MemberByPort,
    MemberByAddress,
    Backplane,
    SharedPath,
    HalfDuplex,
    ComesAndGoes,
    PortBesideBackplane,
    PairBesidePort,
    PortBesideUplink,
}

impl Kind {
    pub const WRONG: [Self; 18] = [
        Self::Port,
        Self::BothWays,
        Self::Pair,
        Self::TwoPorts,
        Self::ThreeFaults,
        Self::FullUplink,
        Self::HalfUplink,
        Self::HiddenUplink,
        Self::Chip,
        Self::MemberByPort,
        Self::MemberByAddress,
        Self::Backplane,
        Self::SharedPath,
        Self::HalfDuplex,
        Self::ComesAndGoes,
        Self::PortBesideBackplane,
        Self::PairBesidePort,
        Self::PortBesideUplink,
    ];

    pub fn is_sound(self) -> bool {
        matches!(
            self,
            Self::Sound | Self::SoundFullUplink | Self::SoundHalfUplink
        )
    }
}

/// A fabric with its hidden resources.
pub struct World {
    pub fabric: Fabric,
    /// Capacity of each declared place.
    pub declared: Vec<f64>,
    pub hidden: Vec<Hidden>,
    /// True if a run has only the mesh, without permutations.
    pub mesh_only: bool,
    /// True if ports are also judged by similar ports.
    pub peers: bool,
    /// Largest difference from one of the weights of links that share a resource.
    pub uneven: f64,
    /// Ports whose links always get less of a shared resource, with the factor of their weights.
    pub meek: BTreeMap<usize, f64>,
}

/// Outcome of a run.
pub struct Outcome {
    pub decision: Decision,
    /// Number of second looks.
    pub looks: usize,
    /// The largest part that a port, an uplink or all ports together lacked in a test that should have filled them.
    pub deficit: f64,
    /// All observations.
    pub seen: Vec<Observation>,
}

const SPEED: f64 = 100.0;

impl World {
    /// A fabric of `ports` ports that carry 100 each way, with a fault of this kind that leaves the part `left` of the expected rate.
    pub fn new(kind: Kind, ports: usize, left: f64, draw: &mut Draw) -> Self {
        use Kind::*;
        let leaves = matches!(
            kind,
            FullUplink
                | HalfUplink
                | SoundFullUplink
                | SoundHalfUplink
                | MemberByPort
                | MemberByAddress
                | PortBesideUplink
        );
        let half = matches!(kind, HalfUplink | SoundHalfUplink)
            || kind == PortBesideUplink && draw.below(2) == 0;
        let ports = if leaves { ports.max(4) / 2 * 2 } else { ports };
        let groups = if leaves { 2 } else { 0 };
        let port = |host: usize| pipebench::internals::judge::fabric::Port {
            host,
            rail: 0,
            group: leaves.then_some(host * groups / ports),
            floor: 0.9,
            asked: None,
            gone: false,
        };
        let mut declared = vec![SPEED; 2 * ports];
        let uplink = ports as f64 / 2.0 * SPEED * if half { 0.5 } else { 1.0 };
        declared.extend(vec![uplink; 2 * groups]);
        let mut world = Self {
            fabric: Fabric {
                ports: (0..ports).map(port).collect(),
                groups,
                uplink_floor: 0.9,
                behind: std::collections::BTreeSet::new(),
            },
            declared,
            hidden: Vec::new(),
            mesh_only: false,
            peers: false,
            uneven: 0.1,
            meek: BTreeMap::new(),
        };
        for port in 0..ports {
            world.add(Fault::Place(Place::Send(port)), 1.0);
            world.add(Fault::Place(Place::Receive(port)), 1.0);
        }
        for group in 0..groups {
            world.add(Fault::Place(Place::Up(group)), 1.0);
            world.add(Fault::Place(Place::Down(group)), 1.0);
        }
        world.hide(kind, left, draw);
        world
    }

    fn hide(&mut self, kind: Kind, left: f64, draw: &mut Draw) {
        use Kind::*;
        let ports = self.fabric.ports.len();
        let one = draw.below(ports);
        let other = (one + 1 + draw.below(ports - 1)) % ports;
        let a_port = |port: usize, draw: &mut Draw| {
            Fault::Place(match draw.below(2) {
                0 => Place::Send(port),
                _ => Place::Receive(port),
            })
        };
        match kind {
            Sound | SoundFullUplink | SoundHalfUplink => {}
            Port => {
                let fault = a_port(one, draw);
                self.add(fault, left);
            }
            BothWays => {
                self.add(Fault::Place(Place::Send(one)), left);
                self.add(Fault::Place(Place::Receive(one)), left);
            }
            Pair => self.add(Fault::Pair(one, other), left),
            TwoPorts => {
                let faults = [a_port(one, draw), a_port(other, draw)];
                faults.into_iter().for_each(|fault| self.add(fault, left));
            }
            ThreeFaults => {
                let three = draw.some(3, ports);
                for port in &three[..2] {
                    let fault = a_port(*port, draw);
                    self.add(fault, left);
                }
                let to = (0..ports)
                    .find(|to| !three.contains(to))
                    .unwrap_or(three[0]);
                self.add(Fault::Pair(three[2], to), left);
            }
            FullUplink | HalfUplink => {
                let (up, down) = (draw.below(3), draw.below(2));
                // Traffic out of one group goes into the other; or both ways.
                if up != 1 {
                    self.add_uplink(down, left);
                }
                if up == 1 {
                    self.add_uplink(0, left);
                    self.add_uplink(1, left);
                }
            }
            HiddenUplink => {
                let group = self.some_ports(draw);
                let rest: Vec<usize> = (0..ports).filter(|port| !group.contains(port)).collect();
                let size = group.len().min(rest.len()) as f64 * SPEED;
                let there = Fault::Shared {
                    from: group.clone(),
                    to: rest.clone(),
                };
                let back = Fault::Shared {
                    from: rest,
                    to: group,
                };
                self.add_of(there, size * left);
                if draw.below(2) == 0 {
                    self.add_of(back, size * left);
                }
            }
            Chip => {
                let group = self.some_ports(draw);
                let all: Vec<usize> = (0..ports).collect();
                let size = group.len() as f64 * SPEED;
                let sends = draw.below(3);
                if sends != 1 {
                    self.add_of(
                        Fault::Shared {
                            from: group.clone(),
                            to: all.clone(),
                        },
                        size * left,
                    );
                }
                if sends != 0 {
                    self.add_of(
                        Fault::Shared {
                            from: all,
                            to: group,
                        },
                        size * left,
                    );
                }
            }
            MemberByPort | MemberByAddress => {
                // Two members, each with half of the capacity; one carries more than half of the ports.
                let half = ports / 2;
                let unlucky = (half / 2 + 1).min(half);
                let chosen = draw.some(unlucky, half);
                let sources: Vec<usize> = (0..half).collect();
                let targets: Vec<usize> = (half..ports).collect();
                let size = self.declared[2 * ports];
                let name = match kind {
                    MemberByPort => Fault::Shared {
                        from: chosen,
                        to: targets,
                    },
                    _ => Fault::Shared {
                        from: sources,
                        to: chosen.iter().map(|port| port + half).collect(),
                    },
                };
                self.add_of(name, size / 2.0);
                let last = self.hidden.last_mut().expect("it was just added");
                last.names
                    .extend([Fault::Place(Place::Up(0)), Fault::Place(Place::Down(1))]);
            }
            Backplane => self.add_of(Fault::of_all(&self.fabric), ports as f64 * SPEED * left),
            SharedPath => {
                let by = 1 + draw.below(ports - 1);
                let count = 2 + draw.below(2);
                let from = draw.some(count.min(ports - 1), ports);
                let pairs: Vec<_> = from
                    .iter()
                    .map(|from| (*from, (from + by) % ports))
                    .collect();
                let size = pairs.len() as f64 * SPEED;
                self.add_of(Fault::Path(pairs), size * left.clamp(0.53, 0.9));
            }
            HalfDuplex => self.add_of(Fault::BothWays(one), 2.0 * SPEED * left.max(0.52)),
            ComesAndGoes => {
                let fault = a_port(one, draw);
                self.add(fault, left.min(0.75));
                self.hidden.last_mut().expect("it was just added").often = 0.5;
            }
            PortBesideBackplane => {
                let fault = a_port(one, draw);
                self.add(fault, left);
                self.add_of(
                    Fault::of_all(&self.fabric),
                    ports as f64 * SPEED * (left - 0.1),
                );
            }
            PairBesidePort => {
                let fault = a_port(one, draw);
                self.add(fault, left);
                let third = (0..ports).find(|port| *port != one && *port != other);
                self.add(Fault::Pair(other, third.unwrap_or(one)), left);
            }
            PortBesideUplink => {
                let fault = a_port(one, draw);
                self.add(fault, left);
                self.add_uplink(draw.below(2), left);
            }
        }
    }

    /// Some ports: neighbours, or any.
    fn some_ports(&self, draw: &mut Draw) -> Vec<usize> {
        let ports = self.fabric.ports.len();
        let size = 2 + draw.below((ports / 2).saturating_sub(1).max(1));
        match draw.below(2) {
            0 => {
                let start = draw.below(ports - size + 1);
                (start..start + size).collect()
            }
            _ => draw.some(size, ports),
        }
    }

    fn add_uplink(&mut self, group: usize, left: f64) {
        self.add(Fault::Place(Place::Up(group)), left);
        let last = self.hidden.last_mut().expect("it was just added");
        // With two groups, traffic out of one goes into the other.
        last.names.push(Fault::Place(Place::Down(1 - group)));
    }

    /// Adds a place or a pair that carries the part `left` of its capacity.
    fn add(&mut self, fault: Fault, left: f64) {
        let capacity = match &fault {
            Fault::Place(place) => self.declared[self.fabric.number(*place)],
            _ => SPEED,
        };
        self.add_of(fault, capacity * left);
        let last = self.hidden.last_mut().expect("it was just added");
        last.wrong = left < 1.0;
    }

    pub fn add_of(&mut self, fault: Fault, capacity: f64) {
        self.hidden.push(Hidden {
            links: self.links_of(&fault),
            capacity,
            often: 1.0,
            names: vec![fault],
            wrong: true,
        });
    }

    pub fn observe(
        &self,
        pairs: &[Pair],
        isolated: bool,
        test: usize,
        draw: &mut Draw,
    ) -> Observation {
        let here: Vec<&Hidden> = self
            .hidden
            .iter()
            .filter(|one| one.often >= 1.0 || draw.between(0.0, 1.0) < one.often)
            .collect();
        let weights = pairs.iter().map(|(from, _)| {
            let meek = self.meek.get(from).copied().unwrap_or(1.0);
            meek * draw.between(1.0 - self.uneven, 1.0 + self.uneven)
        });
        let weights: Vec<f64> = weights.collect();
        let rates = share(pairs, &weights, &here);
        let links = pairs.iter().zip(rates).map(|(pair, rate)| Seen {
            from: pair.0,
            to: pair.1,
            rate: rate * draw.between(0.965, 1.0),
            links: 1,
            limiting: 1,
            ..Seen::default()
        });
        let hosts = self.fabric.ports.len();
        Observation {
            test,
            isolated,
            links: links.collect(),
            capacities: self.declared.clone(),
            flows: pairs
                .iter()
                .map(|(from, to)| Flow {
                    route: self.fabric.way(*from, *to),
                    weight: 1.0,
                    cap: f64::INFINITY,
                })
                .collect(),
            pairs: pairs.to_vec(),
            host_limited: vec![false; hosts],
            waiting: vec![0.0; hosts],
            ..Observation::default()
        }
    }

    /// The loads of a run: all permutations and the mesh.
    fn loads(&self) -> Vec<Vec<Pair>> {
        let ports = self.fabric.ports.len();
        let shift = |by: usize| -> Vec<Pair> {
            (0..ports).map(|port| (port, (port + by) % ports)).collect()
        };
        let mesh = (1..ports).flat_map(shift).collect();
        let mut loads: Vec<Vec<Pair>> = match self.mesh_only {
            true => Vec::new(),
            false => (1..ports).map(shift).collect(),
        };
        loads.push(mesh);
        loads
    }

    /// A whole run: the plan's tests, then all measurements that the judge asks for.
    pub fn judge(&self, draw: &mut Draw) -> Outcome {
        const MOST_ROUNDS: usize = 60;
        let loads = self.loads();
        let mut seen: Vec<Observation> = Vec::new();
        for (number, pairs) in loads.iter().enumerate() {
            seen.push(self.observe(pairs, false, number, draw));
        }
        let deficit = self.deficit(&seen);
        let mut looks = 0;
        let mut fabric = self.fabric.clone();
        for _ in 0..MOST_ROUNDS {
            match decide(&fabric, &seen) {
                Step::Done(decision) => {
                    let behind = match self.peers && fabric.behind.is_empty() {
                        true => raised(&fabric, &seen, &decision),
                        false => BTreeSet::new(),
                    };
                    if !behind.is_empty() {
                        fabric.behind = behind;
                        continue;
                    }
                    return Outcome {
                        decision,
                        looks,
                        deficit,
                        seen,
                    };
                }
                Step::Measure(requests) => {
                    assert!(!requests.is_empty(), "a step of no measurements");
                    for request in requests {
                        looks += 1;
                        let pairs = match request.again {
                            Some(test) => loads[test].clone(),
                            None => request.pairs,
                        };
                        seen.push(self.observe(&pairs, true, loads.len() + looks, draw));
                    }
                }
            }
        }
        panic!("the judge asks without end");
    }

    /// Largest part that a port, an uplink, or all ports together fell short where they should have been full.
    fn deficit(&self, seen: &[Observation]) -> f64 {
        let mut most = 0.0_f64;
        for one in seen {
            let (expected, passed) = (one.expected(), one.seen(&self.fabric));
            for (place, capacity) in self.declared.iter().enumerate() {
                if expected[place] >= capacity * 0.98 {
                    most = most.max(1.0 - passed[place] / capacity);
                }
            }
        }
        most
    }

    /// The index of the hidden fault that a named fault matches, exactly or as nearly the same group.
    fn names(&self, named: &Fault) -> Option<usize> {
        let is_it = |hidden: &Hidden| {
            hidden.wrong && hidden.names.iter().any(|name| self.is_alike(name, named))
        };
        self.hidden.iter().position(is_it)
    }

    /// True if nearly the same links use both: at least 75 % for groups, all for other faults.
    fn is_alike(&self, hidden: &Fault, named: &Fault) -> bool {
        const ALIKE: f64 = 0.75;
        let (one, other) = (self.links_of(hidden), self.links_of(named));
        let both = one.intersection(&other).count() as f64;
        let is_group = hidden.is_shared() && named.is_shared();
        both >= if is_group { ALIKE } else { 1.0 } * one.union(&other).count() as f64
    }

    fn links_of(&self, fault: &Fault) -> BTreeSet<Pair> {
        let ports = self.fabric.ports.len();
        let cover = fault.cover(&self.fabric);
        let all = (0..ports).flat_map(|from| (0..ports).map(move |to| (from, to)));
        let links = all.filter(|(from, to)| from != to && cover.has(*from, *to));
        links.collect()
    }

    /// Faults that a plain vote blames (007, NSDI 2018). Each link below its floor votes for every element on its way, and the elements share
    /// the weight of its vote. The element with most votes is blamed, and its links vote no more.
    pub fn vote(&self, seen: &[Observation]) -> Vec<Fault> {
        const FLOOR: f64 = 0.9;
        let mut bad: Vec<Pair> = Vec::new();
        for one in seen.iter().filter(|one| !one.isolated) {
            let shares = one.shares();
            let short = shares.iter().filter(|(_, share)| share.part() < FLOOR);
            bad.extend(short.map(|(pair, _)| *pair));
        }
        let mut blamed = Vec::new();
        while !bad.is_empty() {
            let mut votes: BTreeMap<Fault, f64> = BTreeMap::new();
            for (from, to) in &bad {
                let way = self.fabric.way(*from, *to);
                let places = way
                    .iter()
                    .map(|number| Fault::Place(self.fabric.place(*number)));
                let elements: Vec<Fault> = places.chain([Fault::Pair(*from, *to)]).collect();
                for element in &elements {
                    *votes.entry(element.clone()).or_default() += 1.0 / elements.len() as f64;
                }
            }
            let most = votes.iter().max_by(|a, b| a.1.total_cmp(b.1));
            let Some((worst, _)) = most.map(|(fault, votes)| (fault.clone(), *votes)) else {
                break;
            };
            let cover = worst.cover(&self.fabric);
            bad.retain(|(from, to)| !cover.has(*from, *to));
            blamed.push(worst);
        }
        blamed
    }

    /// True if the vote alone blames what was hidden.
    pub fn is_right_vote(&self, blamed: &[Fault], outcome: &Outcome) -> bool {
        let decision = Decision {
            confirmed: blamed
                .iter()
                .map(|fault| pipebench::internals::judge::Blamed {
                    fault: fault.clone(),
                    or: Vec::new(),
                })
                .collect(),
            ..Decision::default()
        };
        self.is_right_of(&decision, &outcome.seen)
    }

    /// True if an innocent part is blamed.
    pub fn blames_innocents(&self, decision: &Decision) -> bool {
        let guilty = |fault: &Fault| self.names(fault).is_some();
        let mut confirmed = decision.confirmed.iter();
        !confirmed.all(|one| guilty(&one.fault) || one.or.iter().any(guilty))
    }

    /// True if every hidden fault is blamed, and nothing else.
    pub fn is_right(&self, outcome: &Outcome) -> bool {
        self.is_right_of(&outcome.decision, &outcome.seen)
    }

    fn is_right_of(&self, decision: &Decision, seen: &[Observation]) -> bool {
        if self.blames_innocents(decision) {
            return false;
        }
        let named = self.named(decision);
        let wrong = self.hidden.iter().enumerate().filter(|(_, one)| one.wrong);
        let mut left = wrong.filter(|(at, _)| !named.contains(at));
        left.all(|(at, _)| self.is_covered(at) || !self.was_loaded(at, seen))
    }

    /// Indexes of the hidden faults that are blamed.
    pub fn named(&self, decision: &Decision) -> BTreeSet<usize> {
        let confirmed = decision.confirmed.iter();
        let all = confirmed.flat_map(|one| std::iter::once(&one.fault).chain(&one.or));
        all.filter_map(|fault| self.names(fault)).collect()
    }

    /// True if a test of the plan filled a hidden resource, so that it could show.
    fn was_loaded(&self, at: usize, seen: &[Observation]) -> bool {
        let own = &self.hidden[at];
        let through = |one: &Observation| -> f64 {
            let links = one.links.iter();
            let links = links.filter(|link| own.links.contains(&(link.from, link.to)));
            links.map(|link| link.rate).sum()
        };
        let expected = |one: &Observation| -> f64 {
            let shares = one.shares();
            let own = shares.iter().filter(|(pair, _)| own.links.contains(pair));
            own.map(|(_, share)| share.expected).sum()
        };
        let mut loads = seen.iter().filter(|one| !one.isolated);
        loads.any(|one| through(one) >= 0.93 * own.capacity && through(one) < 0.9 * expected(one))
    }

    /// True if another hidden fault masks this one: it limits the same links to the same capacity or less.
    fn is_covered(&self, at: usize) -> bool {
        let own = &self.hidden[at];
        let mut others = self
            .hidden
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        others.any(|(_, other)| {
            other.wrong && other.links == own.links && other.capacity <= own.capacity
        })
    }
}

/// Max-min fair rates of links with these weights, in the resources of this test.
fn share(pairs: &[Pair], weights: &[f64], hidden: &[&Hidden]) -> Vec<f64> {
    let members: Vec<Vec<usize>> = hidden
        .iter()
        .map(|one| {
            (0..pairs.len())
                .filter(|at| one.links.contains(&pairs[*at]))
                .collect()
        })
        .collect();
    let mut rates = vec![0.0; pairs.len()];
    let mut grows = vec![true; pairs.len()];
    while grows.iter().any(|one| *one) {
        let mut least = (f64::INFINITY, usize::MAX);
        for (number, own) in members.iter().enumerate() {
            let fixed: f64 = own
                .iter()
                .filter(|at| !grows[**at])
                .map(|at| rates[*at])
                .sum();
            let weight: f64 = own
                .iter()
                .filter(|at| grows[**at])
                .map(|at| weights[*at])
                .sum();
            if weight > 0.0 {
                let level = (hidden[number].capacity - fixed).max(0.0) / weight;
                if level < least.0 {
                    least = (level, number);
                }
            }
        }
        assert!(least.1 != usize::MAX, "every link goes through a port");
        for at in &members[least.1] {
            if std::mem::replace(&mut grows[*at], false) {
                rates[*at] = least.0 * weights[*at];
            }
        }
    }
    rates
}

/// Counts for one kind.
#[derive(Default)]
pub struct Tally {
    pub all: usize,
    /// Every hidden and loaded fault was blamed, and nothing else; for a sound fabric, nothing was blamed.
    pub right: usize,
    /// An innocent part was blamed.
    pub innocent: usize,
    /// A fault was blamed, and no innocent part.
    pub named: usize,
    /// A plain vote was right.
    pub votes: usize,
    /// Nothing was blamed although a place lacked 15 % or more in a test.
    pub passed: usize,
    /// Second looks of each case.
    pub looks: Vec<usize>,
    /// Cases that were not right, in words.
    pub wrong: Vec<String>,
}

/// Tries draws of one kind, each with its own seed; faults leave the part `left`, or a drawn part.
pub fn trial(kind: Kind, seeds: std::ops::RangeInclusive<u64>, left: Option<f64>) -> Tally {
    trial_by(kind, seeds, left, false, 0.1)
}

/// The same, with ports also judged by similar ports if `peers`, and with weights uneven by `uneven`.
pub fn trial_by(
    kind: Kind,
    seeds: std::ops::RangeInclusive<u64>,
    left: Option<f64>,
    peers: bool,
    uneven: f64,
) -> Tally {
    /// A place that lacks this part must not pass.
    const DEFICIT: f64 = 0.15;
    /// A fault that lacks less need not be found: the floor is 90 %.
    const FLOOR: f64 = 0.1;
    let mut tally = Tally::default();
    for seed in seeds {
        let mut draw = Draw::new(seed * 1000 + kind as u64);
        let ports = 4 + draw.below(7);
        let drawn = draw.between(0.5, 0.82);
        let left = left.unwrap_or(drawn);
        let mut world = World::new(kind, ports.max(if peers { 6 } else { 0 }), left, &mut draw);
        (world.peers, world.uneven) = (peers, uneven);
        let outcome = world.judge(&mut draw);
        let decision = &outcome.decision;
        let is_pass = *decision == Decision::default();
        let is_right = match kind.is_sound() {
            true => is_pass,
            false => world.is_right(&outcome) || is_pass && outcome.deficit < FLOOR,
        };
        tally.all += 1;
        tally.right += usize::from(is_right);
        let is_named = !decision.confirmed.is_empty() && !world.blames_innocents(decision);
        tally.named += usize::from(is_named);
        let vote = world.vote(&outcome.seen);
        tally.votes += usize::from(world.is_right_vote(&vote, &outcome));
        tally.innocent += usize::from(world.blames_innocents(decision));
        tally.passed += usize::from(is_pass && outcome.deficit >= DEFICIT);
        tally.looks.push(outcome.looks);
        if !is_right {
            let hidden = world.hidden.iter().filter(|one| one.wrong);
            let hidden: Vec<_> = hidden.map(|one| (&one.names, one.capacity)).collect();
            let ports = world.fabric.ports.len();
            tally.wrong.push(format!(
                "{kind:?} seed {seed}, {ports} ports at {left:.2}, {:.2} short, {} looks: {hidden:?}: {decision:?}",
                outcome.deficit, outcome.looks
            ));
        }
    }
    tally
}
