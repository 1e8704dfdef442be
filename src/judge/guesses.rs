//! First guesses of what several links share, and how one guess leads to the next.

use std::collections::BTreeSet;

use super::fabric::{Fabric, Place};
use super::fault::Fault;
use super::look::Look;
use super::predict::Model;

/// With more ports than this, groups are not searched for port by port.
pub(super) const FEW_PORTS: usize = 32;
/// Looks in which most was missing at the same time, that guesses are taken from.
const WORST: usize = 4;

impl Model<'_> {
    /// First guesses of what groups of ports share.
    pub(super) fn groups(&self) -> Vec<Fault> {
        let ports = self.fabric.ports.len();
        let all: Vec<usize> = (0..ports).collect();
        let mut guesses: BTreeSet<(Vec<usize>, Vec<usize>)> = BTreeSet::new();
        guesses.insert((all.clone(), all.clone()));
        let mut group = |inside: Vec<usize>| {
            let outside: Vec<usize> = all
                .iter()
                .copied()
                .filter(|one| !inside.contains(one))
                .collect();
            guesses.insert((inside.clone(), all.clone()));
            guesses.insert((all.clone(), inside.clone()));
            guesses.insert((inside.clone(), outside.clone()));
            guesses.insert((outside, inside));
        };
        // Neighbours in the list often are in the fabric.
        let mut size = ports / 2;
        while size >= 2 && ports / size <= FEW_PORTS {
            for start in (0..ports).step_by(size) {
                group((start..(start + size).min(ports)).collect());
            }
            size /= 2;
        }
        // What falls short most of the time.
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
        // What falls short at the same time.
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
        if let Some((one, other)) = self.two_sides() {
            guesses.insert((one.clone(), other.clone()));
            guesses.insert((other, one));
        }
        let guesses = guesses.into_iter();
        guesses
            .filter(|(from, to)| from.len() > 1 && to.len() > 1)
            .map(|(from, to)| Fault::Shared { from, to })
            .collect()
    }

    /// Two groups such that only links between them fall short, if there are.
    fn two_sides(&self) -> Option<(Vec<usize>, Vec<usize>)> {
        let pairs = self.short_pairs();
        let mut side: Vec<Option<bool>> = vec![None; self.fabric.ports.len()];
        loop {
            let mut changed = false;
            for (from, to) in &pairs {
                match (side[*from], side[*to]) {
                    (Some(one), Some(other)) if one == other => return None,
                    (Some(_), Some(_)) => continue,
                    (Some(one), None) => side[*to] = Some(!one),
                    (None, Some(other)) => side[*from] = Some(!other),
                    (None, None) if !changed && side.iter().all(Option::is_none) => {
                        (side[*from], side[*to]) = (Some(false), Some(true));
                    }
                    (None, None) => continue,
                }
                changed = true;
            }
            if !changed {
                break;
            }
        }
        let of = |which: bool| -> Vec<usize> {
            let all = side.iter().enumerate();
            let own = all.filter(|(_, side)| **side == Some(which));
            own.map(|(port, _)| port).collect()
        };
        let (one, other) = (of(false), of(true));
        (one.len() > 1 && other.len() > 1).then_some((one, other))
    }

    /// Pairs that fell short together, in a look of which most was well.
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

/// Links that fell short in a look in which each port had one each way, with their shares.
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

pub(super) fn is_group(fault: &Fault) -> bool {
    matches!(fault, Fault::Shared { .. })
}

/// What goes back; none if that is the same.
pub(super) fn reversed(fault: &Fault) -> Option<Fault> {
    match fault {
        Fault::Shared { from, to } if from != to => Some(Fault::Shared {
            from: to.clone(),
            to: from.clone(),
        }),
        _ => None,
    }
}

/// Groups that differ by one port, or by two that change sides.
pub(super) fn neighbours(fault: &Fault, ports: usize) -> Vec<Fault> {
    /// With more ports, none are tried that change sides.
    const FEW: usize = 16;
    let Fault::Shared { from, to } = fault else {
        return Vec::new();
    };
    let mut next: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for port in 0..ports {
        next.extend([
            (toggled(from, port), to.clone()),
            (from.clone(), toggled(to, port)),
            // A port that is in a group does not cross its border.
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
