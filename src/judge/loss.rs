//! Judges losses in tests without contention: links held below what their ports carry should lose nothing.
//!
//! A retransmission under load is TCP at work; one in a paced permutation is a lost frame. Losses are counted, so a link is a
//! suspect only if chance causes as many in less than one of ten thousand runs. The judge blames what the losses have in common,
//! and measures that alone, like every suspect.

use std::collections::{BTreeMap, BTreeSet};

use super::confirm::Request;
use super::decide::Decision;
use super::fabric::{Fabric, Observation, Place};
use super::fault::{Cover, Fault};
use super::thresholds::{LOSS_CHANCE, LOSSES_TO_SEE, NOT_NARROW, OF_A_PORT, REACHED};
use crate::units::sum;

/// Losses of a pair: lost and sent segments.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Count {
    /// Segments retransmitted because they were lost.
    pub lost: u64,
    /// Segments sent.
    pub segments: u64,
}

impl Count {
    /// Share of segments that were lost.
    pub(crate) fn share(self) -> f64 {
        self.lost as f64 / self.segments.max(1) as f64
    }

    fn add(&mut self, lost: u64, segments: u64) {
        self.lost = self.lost.saturating_add(lost);
        self.segments = self.segments.saturating_add(segments);
    }
}

/// Result for losses. Shares are of segments, or of frames for broken ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Losses {
    /// Faults that lost more than permitted, also alone; with their share under load.
    pub confirmed: Vec<(Fault, f64)>,
    /// Faults that lost more than permitted once and not again, with their share.
    pub undecided: Vec<(Fault, f64)>,
    /// Ports that received broken frames, also alone; with the share of broken frames under load.
    pub broken: Vec<(Fault, f64)>,
    /// Ports that received broken frames once and not again, with the share of broken frames.
    pub broken_once: Vec<(Fault, f64)>,
    /// Faults that lost no more than the receiving host had no room for, with their share: the fabric had carried that.
    pub in_host: Vec<(Fault, f64)>,
    /// Requests to measure first.
    pub open: Vec<Request>,
}

impl Losses {
    /// Drops faults that lost segments under load and not alone, if their links cross a narrow place that several ports share: a full place
    /// drops segments of all its links.
    pub(crate) fn leave_to(&mut self, decision: &Decision, fabric: &Fabric) {
        let confirmed = decision.confirmed.iter().map(|one| &one.fault);
        let undecided = decision.undecided.iter().map(|(fault, _)| fault);
        let shared = |fault: &&Fault| {
            let is_uplink = matches!(fault, Fault::Place(Place::Up(_) | Place::Down(_)));
            is_uplink || fault.is_shared()
        };
        let narrow = confirmed.chain(undecided).filter(shared);
        let narrow: Vec<Cover> = narrow.map(|fault| fault.cover(fabric)).collect();
        if narrow.is_empty() {
            return;
        }
        let ports = fabric.ports.len();
        self.undecided.retain(|(fault, _)| {
            let own = fault.cover(fabric);
            let mut pairs = (0..ports).flat_map(|from| (0..ports).map(move |to| (from, to)));
            !pairs.any(|(from, to)| {
                own.has(from, to) && narrow.iter().any(|narrow| narrow.has(from, to))
            })
        });
    }
}

/// True if there are more losses than chance explains for a permitted share of `limit`.
pub(crate) fn is_lossy(count: Count, limit: f64) -> bool {
    const LEAST: u64 = 3;
    count.lost >= LEAST && poisson_tail(count.lost, count.segments as f64 * limit) < LOSS_CHANCE
}

/// Probability of `least` events or more if `mean` are expected.
fn poisson_tail(least: u64, mean: f64) -> f64 {
    if mean > 700.0 {
        // The normal distribution is close enough for this purpose.
        let sigmas = (least as f64 - mean) / mean.sqrt();
        return if sigmas > 4.0 { 0.0 } else { 1.0 };
    }
    let (mut term, mut below) = ((-mean).exp(), 0.0);
    for number in 0..least.min(2000) {
        below += term;
        term *= mean / (number + 1) as f64;
    }
    (1.0 - below).max(0.0)
}

/// Judges losses. `limit` is the permitted share of segments.
pub(crate) fn judge(fabric: &Fabric, observations: &[Observation], limit: f64) -> Losses {
    let (mut loaded, mut alone) = (BTreeMap::new(), BTreeMap::new());
    let mut segments_per_look = 0;
    let mut best: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    let unheld = observations
        .iter()
        .filter(|one| !one.paced && one.is_single(fabric));
    for observation in unheld {
        for (pair, share) in observation.shares() {
            let known = best.entry(pair).or_default();
            *known = known.max(share.part());
        }
    }
    for observation in observations.iter().filter(|one| one.paced) {
        let shares = observation.shares();
        for link in &observation.links {
            // A link that does not reach the rate to which it is limited, and was not faster in any other test, meets something narrower: there is
            // contention.
            let pair = (link.from, link.to);
            let reached = shares.get(&pair);
            let free = best.get(&pair).is_some_and(|share| *share >= NOT_NARROW);
            if !free && reached.is_some_and(|share| share.part() < REACHED) {
                if observation.isolated {
                    // This look proves nothing, and another one would not either.
                    alone.entry(pair).or_default();
                }
                continue;
            }
            let counts: &mut BTreeMap<(usize, usize), Count> = match observation.isolated {
                true => &mut alone,
                false => &mut loaded,
            };
            let count = counts.entry(pair).or_default();
            count.add(link.lost, link.segments);
            if !observation.isolated {
                segments_per_look = segments_per_look.max(link.segments);
            }
        }
    }
    let mut losses = Losses::default();
    // The fabric carried what a host dropped.
    let under_load = discarded(observations, false);
    let by_itself = discarded(observations, true);
    let rest = |fault: &Fault, count: Count, thrown: &BTreeMap<(usize, usize), u64>| {
        // Nothing is known for a sending port: its segments go to many hosts.
        let sends = matches!(fault, Fault::Place(Place::Send(_) | Place::Up(_)));
        let cover = fault.cover(fabric);
        let own = thrown
            .iter()
            .filter(|((from, to), _)| !sends && cover.has(*from, *to));
        Count {
            lost: count
                .lost
                .saturating_sub(sum(own.map(|(_, segments)| *segments))),
            ..count
        }
    };
    for (fault, count) in blame(fabric, &loaded, limit) {
        let partners = partners(fabric, &fault, &loaded, limit);
        let wanted = LOSSES_TO_SEE / count.share().max(1e-9);
        let times = wanted / segments_per_look.max(1) as f64;
        let told: Vec<bool> = partners
            .iter()
            .filter_map(|pair| {
                let count = rest(&Fault::Pair(pair.0, pair.1), *alone.get(pair)?, &by_itself);
                Some(is_lossy(count, limit))
            })
            .collect();
        let open: Vec<Request> = partners
            .iter()
            .filter(|pair| !alone.contains_key(pair))
            .map(|pair| Request::for_losses(*pair, times))
            .collect();
        if !open.is_empty() {
            losses.open.extend(open);
        } else if !told.is_empty() && told.iter().all(|lossy| *lossy) {
            losses.confirmed.push((fault, count.share()));
        } else if !is_lossy(rest(&fault, count, &under_load), limit) {
            losses.in_host.push((fault, count.share()));
        } else {
            losses.undecided.push((fault, count.share()));
        }
    }
    add_broken(fabric, observations, &mut losses);
    losses
}

/// Upper bound of the segments that hosts had no room for in loss tests, by pair. `isolated` selects retests, else tests under load.
fn discarded(observations: &[Observation], isolated: bool) -> BTreeMap<(usize, usize), u64> {
    let mut all: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let looks = observations
        .iter()
        .filter(|one| one.paced && one.isolated == isolated);
    for observation in looks {
        for link in &observation.links {
            let frames = observation.frames.get(link.to).copied().unwrap_or_default();
            let known = all.entry((link.from, link.to)).or_default();
            // At most what the link lost: the host dropped the rest from other links.
            *known = known.saturating_add(frames.discarded.min(link.lost));
        }
    }
    all
}

/// Judges broken frames. They are below what TCP sees, and below chance: a sound port has none. A port already reported for lost segments is left
/// out.
fn add_broken(fabric: &Fabric, observations: &[Observation], losses: &mut Losses) {
    const PARTNERS: usize = 2;
    let told = |losses: &Losses, fault: &Fault| {
        let mut all = losses.confirmed.iter().chain(&losses.undecided);
        all.any(|(known, _)| known == fault)
    };
    // Each test with the ports that received in it.
    let receivers = |one: &Observation| -> BTreeSet<usize> {
        let links = one.links.iter();
        links.map(|link| link.to).collect()
    };
    let paced = observations.iter().filter(|one| one.paced);
    let paced: Vec<_> = paced.map(|one| (one, receivers(one))).collect();
    for port in 0..fabric.ports.len() {
        let fault = Fault::Place(Place::Receive(port));
        let seen = |isolated: bool| {
            let looks = paced
                .iter()
                .filter(move |(one, into)| one.isolated == isolated && into.contains(&port));
            looks.filter_map(move |(one, _)| one.frames.get(port))
        };
        let received = sum(seen(false).map(|frames| frames.received));
        let broken = sum(seen(false).map(|frames| frames.broken));
        if broken == 0 || told(losses, &fault) {
            continue;
        }
        let share = broken as f64 / received.max(broken) as f64;
        let again: Vec<bool> = seen(true).map(|frames| frames.broken > 0).collect();
        if again.is_empty() {
            let single = paced.iter().filter(|(one, _)| !one.isolated);
            let single = single.flat_map(|(one, _)| &one.links);
            let mut pairs: Vec<(usize, usize)> = single
                .filter(|link| link.to == port && !fabric.ports[link.from].gone)
                .map(|link| (link.from, link.to))
                .collect();
            pairs.sort_unstable();
            pairs.dedup();
            // `LOSSES_TO_SEE` broken frames should arrive if the rate stays as before.
            let looks = seen(false).count().max(1) as f64;
            let times = (LOSSES_TO_SEE * looks / broken as f64).max(1.0);
            let pairs = pairs.into_iter().take(PARTNERS);
            let requests = pairs.map(|pair| Request::for_losses(pair, times));
            losses.open.extend(requests);
        } else if again.iter().all(|broken| *broken) {
            losses.broken.push((fault, share));
        } else {
            losses.broken_once.push((fault, share));
        }
    }
}

/// Finds what the losses have in common: the place with the highest loss share, counted over all pairs through it, or one pair if that lost nearly
/// all of it. Repeats this without the losses that it explains.
fn blame(
    fabric: &Fabric,
    loaded: &BTreeMap<(usize, usize), Count>,
    limit: f64,
) -> Vec<(Fault, Count)> {
    let mut left = loaded.clone();
    let mut blamed = Vec::new();
    loop {
        let mut through = vec![Count::default(); fabric.places()];
        for ((from, to), count) in &left {
            for number in fabric.way(*from, *to) {
                through[number].add(count.lost, count.segments);
            }
        }
        let sums = through.into_iter().enumerate();
        let lossy = sums.filter(|(_, sum)| is_lossy(*sum, limit));
        // Between an uplink and the only port behind it, the port is blamed.
        let is_port = |number: usize| number < 2 * fabric.ports.len();
        let worst = lossy.max_by(|a, b| {
            let shares = a.1.share().total_cmp(&b.1.share());
            shares.then(is_port(a.0).cmp(&is_port(b.0)))
        });
        let Some((number, sum)) = worst else {
            return blamed;
        };
        let on_way = |pair: &(usize, usize)| fabric.way(pair.0, pair.1).contains(&number);
        let own = || left.iter().filter(|(pair, _)| on_way(pair));
        let most = own().max_by_key(|(_, count)| count.lost);
        let alone = most.filter(|(_, count)| {
            own().count() > 1 && count.lost as f64 >= OF_A_PORT * sum.lost as f64
        });
        match alone.map(|(pair, count)| (*pair, *count)) {
            Some((pair, count)) => {
                left.remove(&pair);
                blamed.push((Fault::Pair(pair.0, pair.1), count));
            }
            None => {
                left.retain(|pair, _| !on_way(pair));
                blamed.push((Fault::Place(fabric.place(number)), sum));
            }
        }
    }
}

/// Pairs that show a fault alone: two through a place, whose other ends lose nothing else.
fn partners(
    fabric: &Fabric,
    fault: &Fault,
    loaded: &BTreeMap<(usize, usize), Count>,
    limit: f64,
) -> Vec<(usize, usize)> {
    const PARTNERS: usize = 2;
    let place = match fault {
        Fault::Place(place) => *place,
        Fault::Pair(from, to) => return vec![(*from, *to)],
        // Losses are blamed only on places and pairs.
        Fault::BothWays(_) | Fault::Shared { .. } | Fault::Path(_) => return Vec::new(),
    };
    let number = fabric.number(place);
    let lossy_ends = |pair: &(usize, usize)| {
        let other = match place {
            Place::Send(_) => fabric.number(Place::Receive(pair.1)),
            _ => fabric.number(Place::Send(pair.0)),
        };
        let shares = loaded.iter().filter(|(other_pair, count)| {
            let apart = !fabric.way(other_pair.0, other_pair.1).contains(&number);
            let meets = fabric.way(other_pair.0, other_pair.1).contains(&other);
            apart && meets && is_lossy(**count, limit)
        });
        shares.count()
    };
    let mut pairs: Vec<(usize, usize)> = loaded
        .keys()
        .filter(|pair| fabric.way(pair.0, pair.1).contains(&number))
        .filter(|pair| !fabric.ports[pair.0].gone && !fabric.ports[pair.1].gone)
        .copied()
        .collect();
    // Of similar pairs, those that lost most come first.
    let lost = |pair: &(usize, usize)| loaded.get(pair).map_or(0, |count| count.lost);
    pairs.sort_by_key(|pair| (lossy_ends(pair), std::cmp::Reverse(lost(pair))));
    pairs.truncate(PARTNERS);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fabric::tests::of_hosts;
    use crate::judge::fabric::{Frames, Seen};
    use crate::judge::filling::Flow;

    fn paced(
        isolated: bool,
        pairs: &[(usize, usize)],
        lost: impl Fn(usize, usize) -> u64,
    ) -> Observation {
        let seen = |(from, to): &(usize, usize)| Seen {
            from: *from,
            to: *to,
            rate: 1.0,
            segments: 100_000,
            lost: lost(*from, *to),
            ..Seen::default()
        };
        Observation {
            isolated,
            paced: true,
            links: pairs.iter().map(seen).collect(),
            ..Observation::default()
        }
    }

    fn judged(ports: usize, lost: impl Fn(usize, usize) -> u64 + Copy) -> Losses {
        let fabric = of_hosts(ports);
        let mut seen: Vec<Observation> = (1..ports)
            .map(|by| {
                let pairs: Vec<_> = (0..ports).map(|port| (port, (port + by) % ports)).collect();
                paced(false, &pairs, lost)
            })
            .collect();
        for _ in 0..5 {
            let losses = judge(&fabric, &seen, 1e-5);
            if losses.open.is_empty() {
                return losses;
            }
            for request in losses.open {
                seen.push(paced(true, &request.pairs, lost));
            }
        }
        panic!("asks without end");
    }

    #[test]
    fn a_pair_that_does_not_reach_its_rate_alone_is_looked_at_once() {
        let fabric = of_hosts(3);
        let look = |isolated: bool, rate: f64| {
            let mut one = paced(isolated, &[(0, 1)], |_, _| 50);
            one.links[0].rate = rate;
            one.pairs = vec![(0, 1)];
            one.capacities = vec![100.0; 6];
            one.flows = vec![Flow {
                route: fabric.way(0, 1),
                weight: 1.0,
                cap: 95.0,
            }];
            one
        };
        let mut seen = vec![look(false, 95.0)];
        let asked = judge(&fabric, &seen, 1e-5).open;
        assert_eq!(asked.len(), 1);
        seen.push(look(true, 60.0));
        let losses = judge(&fabric, &seen, 1e-5);
        assert_eq!(
            (losses.open, losses.undecided),
            (Vec::new(), vec![(Fault::Place(Place::Receive(1)), 5e-4)])
        );
    }

    #[test]
    fn losses_of_a_full_uplink_are_not_charged_to_a_pair() {
        let fabric = of_hosts(4);
        let once = |fault| Losses {
            undecided: vec![(fault, 1e-3)],
            ..Losses::default()
        };
        let across = Fault::Shared {
            from: vec![0, 1],
            to: vec![2, 3],
        };
        let decision = Decision {
            undecided: vec![(across, 0.6)],
            ..Decision::default()
        };
        let left = |fault: Fault| {
            let mut losses = once(fault);
            losses.leave_to(&decision, &fabric);
            losses.undecided.len()
        };
        assert_eq!(left(Fault::Pair(0, 2)), 0);
        assert_eq!(left(Fault::Place(Place::Receive(3))), 0);
        assert_eq!(left(Fault::Pair(2, 0)), 1, "back, it is not full");
        // A pair that lost segments alone as well has nothing to do with the uplink.
        let mut losses = Losses {
            confirmed: vec![(Fault::Pair(0, 2), 1e-3)],
            ..Losses::default()
        };
        losses.leave_to(&decision, &fabric);
        assert_eq!(losses.confirmed.len(), 1);
    }

    #[test]
    fn what_losses_have_in_common_is_blamed() {
        let receive = judged(5, |_, to| if to == 3 { 12 } else { 0 });
        assert_eq!(
            receive.confirmed,
            [(Fault::Place(Place::Receive(3)), 1.2e-4)]
        );
        let send = judged(5, |from, _| if from == 0 { 100 } else { 1 });
        assert_eq!(send.confirmed, [(Fault::Place(Place::Send(0)), 1e-3)]);
        let pair = judged(5, |from, to| if (from, to) == (1, 4) { 50 } else { 0 });
        assert_eq!(pair.confirmed, [(Fault::Pair(1, 4), 5e-4)]);
        let two = judged(6, |from, to| if from == 0 || to == 3 { 30 } else { 0 });
        let mut faults: Vec<Fault> = two
            .confirmed
            .iter()
            .map(|(fault, _)| fault.clone())
            .collect();
        faults.sort_unstable();
        assert_eq!(
            faults,
            [
                Fault::Place(Place::Send(0)),
                Fault::Place(Place::Receive(3))
            ]
        );
        assert_eq!(judged(5, |_, _| 2), Losses::default());
    }

    #[test]
    fn broken_frames_are_a_fault_of_the_port_they_came_to_if_they_come_again() {
        let fabric = of_hosts(4);
        let test = |isolated: bool, pairs: &[(usize, usize)], broken: u64| Observation {
            frames: (0..4)
                .map(|port| Frames {
                    received: 1_000_000,
                    broken: if port == 2 { broken } else { 0 },
                    ..Frames::default()
                })
                .collect(),
            ..paced(isolated, pairs, |_, _| 0)
        };
        let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
        let first = vec![test(false, &ring, 9)];
        let losses = judge(&fabric, &first, 1e-5);
        assert!(losses.broken.is_empty() && losses.open.len() == 1);
        assert_eq!(losses.open[0].pairs, [(1, 2)]);
        assert!(losses.open[0].paced.is_some_and(|times| times > 2.0));
        let fault = Fault::Place(Place::Receive(2));
        let again = |broken| [first.clone(), vec![test(true, &[(1, 2)], broken)]].concat();
        assert_eq!(
            judge(&fabric, &again(4), 1e-5).broken,
            [(fault.clone(), 9e-6)]
        );
        let once = judge(&fabric, &again(0), 1e-5);
        assert_eq!(
            (once.broken, once.broken_once),
            (Vec::new(), vec![(fault, 9e-6)])
        );
        // A look at another link does not replace a look at that port alone.
        let elsewhere = [first.clone(), vec![test(true, &[(0, 1)], 5)]].concat();
        assert_eq!(judge(&fabric, &elsewhere, 1e-5).open.len(), 1);
        assert_eq!(
            judge(&fabric, &[test(false, &ring, 0)], 1e-5),
            Losses::default()
        );
    }

    #[test]
    fn what_a_host_had_no_room_for_is_no_loss_of_the_fabric() {
        let fabric = of_hosts(4);
        let lost = |_: usize, to: usize| if to == 2 { 50 } else { 0 };
        let test = |by: usize, discarded: u64| Observation {
            frames: (0..4)
                .map(|port| Frames {
                    discarded: if port == 2 { discarded } else { 0 },
                    ..Frames::default()
                })
                .collect(),
            ..paced(
                false,
                &(0..4)
                    .map(|port| (port, (port + by) % 4))
                    .collect::<Vec<_>>(),
                lost,
            )
        };
        // Retests in which the host drops `alone` of the 50 lost segments.
        let judged = |discarded: u64, alone: u64| {
            let mut seen: Vec<Observation> = [1, 2, 3].map(|by| test(by, discarded)).to_vec();
            loop {
                let losses = judge(&fabric, &seen, 1e-5);
                if losses.open.is_empty() {
                    return losses;
                }
                assert!(seen.len() < 10, "asks without end");
                for request in losses.open {
                    let look = Observation {
                        frames: test(1, alone).frames,
                        ..paced(true, &request.pairs, lost)
                    };
                    seen.push(look);
                }
            }
        };
        let fault = vec![(Fault::Place(Place::Receive(2)), 5e-4)];
        let excused = judged(50, 50);
        assert_eq!((&excused.in_host, &excused.confirmed), (&fault, &vec![]));
        // A rest that chance explains does not count.
        assert_eq!(judged(49, 48).in_host, fault);
        // Losses that continue where the host drops nothing belong to the fabric, even if the host dropped segments under load.
        let real = judged(50, 0);
        assert_eq!((&real.confirmed, &real.in_host), (&fault, &vec![]));
        // If the host explains the losses alone and not under load, the cause is unknown.
        let unknown = judged(30, 50);
        assert_eq!((&unknown.undecided, &unknown.confirmed), (&fault, &vec![]));
    }

    #[test]
    fn losses_that_chance_makes_are_none() {
        let count = |lost, segments| Count { lost, segments };
        assert!(!is_lossy(count(2, 1000), 1e-5));
        assert!(is_lossy(count(3, 1000), 1e-5));
        assert!(!is_lossy(count(5, 200_000), 1e-5));
        assert!(is_lossy(count(12, 200_000), 1e-5));
        assert!(!is_lossy(count(1_050, 100_000_000), 1e-5));
        assert!(is_lossy(count(1_200, 100_000_000), 1e-5));
        assert!((poisson_tail(3, 1.0) - 0.0803).abs() < 1e-4);
    }
}
