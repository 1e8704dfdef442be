//! First guesses of what several links share, and the steps from one guess to the next.

use std::collections::BTreeSet;

use super::fabric::{Fabric, Place};
use super::fault::Fault;
use super::look::Look;
use super::predict::Model;

/// With more ports than this, the search does not vary groups port by port.
pub(super) const FEW_PORTS: usize = 32;
/// Number of looks, those with the largest deficit, from which guesses are taken.
const WORST: usize = 4;

impl Model<'_> {
    /// First guesses of groups of ports that share a fault.
    pub(super) fn groups(&self) -> Vec<Fault> {
        let ports = self.fabric.ports.len();
        let all: Vec<usize> = (0..ports).collect();
        let mut guesses: BTreeSet<(Vec<usize>, Vec<usize>)> = BTreeSet::new();
        guesses.insert((all.clone(), all.clone()));
        let mut group = |inside: Vec<usize>| {
            let outside = all.iter().copied();
            let outside: Vec<usize> = outside.filter(|one| !inside.contains(one)).collect();
            guesses.insert((inside.clone(), all.clone()));
            guesses.insert((all.clone(), inside.clone()));
            guesses.insert((inside.clone(), outside.clone()));
            guesses.insert((outside, inside));
        };
        // Neighbours in the list are often neighbours in the fabric.
        let mut size = ports / 2;
        while size >= 2 && ports / size <= FEW_PORTS {
            for start in (0..ports).step_by(size) {
                group((start..(start + size).min(ports)).collect());
            }
            size /= 2;
        }
        // Ports that fall short in most tests.
        let often = |place: fn(usize) -> Place| -> Vec<usize> {
            let is_often = |port: &usize| {
                let (short, judged) = self.case.short_in(place(*port));
                short * 2 > judged
            };
            all.iter().copied().filter(is_often).collect()
        };
        let (senders, receivers) = (often(Place::Send), often(Place::Receive));
        group(senders.clone());
        group(receivers.clone());
        guesses.insert((senders, receivers));
        // Links that fall short at the same time.
        let mut worst: Vec<(f64, Vec<(usize, usize)>)> = Vec::new();
        for look in self.looks().iter().filter(|look| look.tells_rates()) {
            let links = short_links(self.fabric, look);
            let missed = links.iter().map(|(_, share)| 1.0 - share).sum();
            worst.push((missed, links.into_iter().map(|(pair, _)| pair).collect()));
        }
        worst.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, links) in worst.into_iter().take(WORST) {
            let unique = |of: fn(&(usize, usize)) -> usize| -> Vec<usize> {
                let all: BTreeSet<usize> = links.iter().map(of).collect();
                all.into_iter().collect()
            };
            guesses.insert((unique(|pair| pair.0), unique(|pair| pair.1)));
        }
        for (one, other) in self.two_sides() {
            guesses.insert((one.clone(), other.clone()));
            guesses.insert((other, one));
        }
        let guesses = guesses.into_iter();
        guesses
            .filter(|(from, to)| from.len() > 1 && to.len() > 1)
            .map(|(from, to)| Fault::Shared { from, to })
            .collect()
    }

    /// Pairs of groups such that only links between the groups fall short: all ways to combine the parts that no such link joins.
    fn two_sides(&self) -> Vec<(Vec<usize>, Vec<usize>)> {
        /// With more parts than this, only one combination is returned.
        const MOST_PARTS: usize = 4;
        let pairs = self.short_pairs();
        let mut parts: Vec<[BTreeSet<usize>; 2]> = Vec::new();
        for (from, to) in pairs {
            let touches = |part: &[BTreeSet<usize>; 2]| {
                part.iter()
                    .any(|side| side.contains(&from) || side.contains(&to))
            };
            let (joined, others): (Vec<_>, Vec<_>) = parts.into_iter().partition(touches);
            parts = others;
            let mut whole = [BTreeSet::from([from]), BTreeSet::from([to])];
            for [one, other] in joined {
                let turned = one.contains(&to) || other.contains(&from);
                let [mine, yours] = if turned { [other, one] } else { [one, other] };
                whole[0].extend(mine);
                whole[1].extend(yours);
            }
            if !whole[0].is_disjoint(&whole[1]) {
                return Vec::new(); // A link joins two ports of one side.
            }
            parts.push(whole);
        }
        let Some((first, rest)) = parts.split_first() else {
            return Vec::new();
        };
        let ways = if rest.len() < MOST_PARTS {
            1 << rest.len()
        } else {
            1
        };
        let put = |way: usize| {
            let mut sides = first.clone();
            for (at, part) in rest.iter().enumerate() {
                let turned = usize::from(way >> at & 1 == 1);
                sides[0].extend(&part[turned]);
                sides[1].extend(&part[1 - turned]);
            }
            let [one, other] = sides.map(|side| side.into_iter().collect::<Vec<usize>>());
            (one, other)
        };
        let all = (0..ways).map(put);
        all.filter(|(one, other)| one.len() > 1 && other.len() > 1)
            .collect()
    }

    /// Pairs that fell short together, in a look in which other links were well.
    pub(super) fn paths(&self) -> Vec<Fault> {
        const MOST_PAIRS: usize = 4;
        let mut paths: BTreeSet<Vec<(usize, usize)>> = BTreeSet::new();
        for look in self.looks().iter().filter(|look| look.tells_rates()) {
            let links: Vec<(usize, usize)> = short_links(self.fabric, look)
                .into_iter()
                .map(|(pair, _)| pair)
                .collect();
            let some = 2..=MOST_PAIRS.min(look.observation.links.len().saturating_sub(1));
            if some.contains(&links.len()) {
                paths.insert(links);
            }
        }
        paths.into_iter().map(Fault::Path).collect()
    }
}

/// Links that fell short, with their shares. Empty unless each port had one link each way in the look.
pub(super) fn short_links(fabric: &Fabric, look: &Look<'_>) -> Vec<((usize, usize), f64)> {
    if !look.single {
        return Vec::new();
    }
    let links = look.observation.links.iter();
    let short = links.filter_map(|link| {
        let send = fabric.number(Place::Send(link.from));
        let receive = fabric.number(Place::Receive(link.to));
        let floor = look.floors[send].max(look.floors[receive]);
        let share = look.share(send).filter(|share| *share < floor)?;
        Some(((link.from, link.to), share))
    });
    let mut short: Vec<((usize, usize), f64)> = short.collect();
    short.sort_by_key(|one| one.0);
    short
}

/// The group in the reverse direction; `None` if that is the same.
pub(super) fn reversed(fault: &Fault) -> Option<Fault> {
    match fault {
        Fault::Shared { from, to } if from != to => Some(Fault::Shared {
            from: to.clone(),
            to: from.clone(),
        }),
        _ => None,
    }
}

/// Groups that differ from a group by one port, or by two ports that change sides.
pub(super) fn neighbours(fault: &Fault, ports: usize) -> Vec<Fault> {
    /// With more ports, no ports change sides.
    const FEW: usize = 16;
    let Fault::Shared { from, to } = fault else {
        return Vec::new();
    };
    let mut next: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for port in 0..ports {
        next.extend([
            (toggled(from, port), to.clone()),
            (from.clone(), toggled(to, port)),
            // A port on one side of a group's border is not on the other side, so it moves from one list to the other.
            (toggled(from, port), toggled(to, port)),
        ]);
    }
    if ports <= FEW {
        for one in from.iter().filter(|one| !to.contains(one)) {
            for other in to.iter().filter(|other| !from.contains(other)) {
                let swapped = |list: &[usize]| toggled(&toggled(list, *one), *other);
                next.push((swapped(from), swapped(to)));
            }
        }
    }
    let next = next
        .into_iter()
        .filter(|(from, to)| from.len() > 1 && to.len() > 1);
    next.map(|(from, to)| Fault::Shared { from, to }).collect()
}

fn toggled(list: &[usize], port: usize) -> Vec<usize> {
    let mut list = list.to_vec();
    match list.binary_search(&port) {
        Ok(at) => {
            list.remove(at);
        }
        Err(at) => list.insert(at, port),
    }
    list
}
