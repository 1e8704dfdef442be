//! Adds link tests to the view. In each turn of a step, every rank measures with one other rank. With one rank on each host, each port carries one
//! link each way, so single links can be judged.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::job::Round;
use crate::plan::linktest::{Kernel, Linktest};
use crate::record::{Effort, HostRecord, LinktestRecord, PairTime, RoundRecord};

use super::fabric::{Observation, Seen};
use super::filling::Flow;
use super::thresholds::{RANK_BUSY, RANK_WAITS, SHORTEST_LINK_S, SHORTEST_MESSAGE_S};
use super::view::View;

impl View {
    /// Adds the results of a link test.
    pub(super) fn add_links(
        &mut self,
        hosts: &[HostRecord],
        linktest: &Linktest,
        record: &LinktestRecord,
    ) {
        let rounds = record.rounds.iter().flat_map(turns);
        let rounds = rounds.map(|times| (linktest.kernel, times, false));
        let looks = record.looks.iter().filter_map(|look| match look.round {
            Round::Alone { kernel, .. } => Some((kernel, &look.times)),
            _ => None,
        });
        let looks = looks.flat_map(|(kernel, times)| {
            let each = times.iter();
            each.map(move |time| (kernel, vec![time], true))
        });
        for (number, (kernel, times, isolated)) in rounds.chain(looks).enumerate() {
            self.add_turn(hosts, record, linktest, kernel, number, &times, isolated);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one place, one caller above")]
    fn add_turn(
        &mut self,
        hosts: &[HostRecord],
        job: &LinktestRecord,
        linktest: &Linktest,
        kernel: Kernel,
        test: usize,
        times: &[&PairTime],
        isolated: bool,
    ) {
        let host_of = |rank: usize| Some(hosts.get(job.ranks.get(rank)?.node)?.host_index);
        let bits = linktest.message_bytes as f64 * 8.0;
        let mut observation = Observation {
            test,
            isolated,
            host_limited: vec![false; hosts.len()],
            waiting: vec![0.0; hosts.len()],
            // Both directions at once leave room only for each other's acknowledgements.
            capacities: match kernel {
                Kernel::Bidirectional => self.loaded_ceilings(),
                Kernel::Semidirectional | Kernel::Unidirectional => self.ceilings(),
            },
            ..Observation::default()
        };
        // Two bounced messages through one port take turns in any order, and each finds the port free. That proves nothing about the port.
        let bounced = kernel != Kernel::Unidirectional;
        let mut at_ports = BTreeSet::new();
        let ends = |time: &&PairTime| host_of(time.from).zip(host_of(time.to));
        let crossing = times
            .iter()
            .filter_map(ends)
            .filter(|(from, to)| from != to);
        let mut ends = crossing.flat_map(|(from, to)| [from, to]);
        if bounced && !ends.all(|host| at_ports.insert(host)) {
            return;
        }
        let mut seen: BTreeMap<(usize, usize), Seen> = BTreeMap::new();
        let mut limits = Vec::new();
        for time in times {
            let (Some(from), Some(to)) = (host_of(time.from), host_of(time.to)) else {
                continue;
            };
            for (rank, host, effort) in [
                (time.from, from, time.efforts[0]),
                (time.to, to, time.efforts[1]),
            ] {
                observation.waiting[host] = observation.waiting[host].max(effort.waiting);
                let why = if effort.busy >= RANK_BUSY {
                    format!(
                        "rank {rank} was busy moving bytes {:.0} % of the time",
                        effort.busy * 100.0
                    )
                } else if effort.waiting >= RANK_WAITS {
                    format!(
                        "rank {rank} was ready and waited for a processor {:.0} % of the time",
                        effort.waiting * 100.0
                    )
                } else {
                    continue;
                };
                observation.host_limited[host] = true;
                limits.push(((test, host), why));
            }
            let (Some(a), Some(b)) = (self.port_of(from), self.port_of(to)) else {
                continue;
            };
            if a == b || !self.is_long_enough(linktest, time, (a, b)) {
                continue;
            }
            // A bounced message moves at one rate both ways, in turn or at the same time.
            let ways: &[(usize, usize)] = match kernel {
                Kernel::Unidirectional => &[(a, b)],
                Kernel::Semidirectional | Kernel::Bidirectional => &[(a, b), (b, a)],
            };
            for (from, to) in ways {
                let pair = seen.entry((*from, *to)).or_insert(Seen {
                    from: *from,
                    to: *to,
                    ..Seen::default()
                });
                pair.rate += self.rate_of(kernel, time.seconds, bits, (a, b));
                pair.links += 1;
                // Neither end was busy all the time, so both waited for what was under way.
                let idle = |effort: &Effort| effort.busy < RANK_BUSY && effort.waiting < RANK_WAITS;
                pair.limiting += usize::from(time.efforts.iter().all(idle));
            }
            observation.flows.push(Flow {
                route: ways
                    .iter()
                    .flat_map(|(from, to)| self.fabric.way(*from, *to))
                    .collect(),
                weight: 1.0,
                cap: f64::INFINITY,
            });
            observation.pairs.push((a, b));
        }
        observation.links = seen.into_values().collect();
        if !observation.links.is_empty() {
            self.limits.extend(limits);
            self.observations.push(observation);
        }
    }

    /// Payload in bits per second that a link is assumed to have carried. If a message is bounced, one direction can be slow and the other fast. The
    /// judge looks for the slower one, so it assumes that the other one ran at its ceiling.
    fn rate_of(&self, kernel: Kernel, seconds: f64, bits: f64, (a, b): (usize, usize)) -> f64 {
        let plain = bits / seconds;
        let ceiling = match (kernel, self.ceiling(a), self.ceiling(b)) {
            (Kernel::Semidirectional, Some(a), Some(b)) => a.min(b),
            _ => return plain,
        };
        let slower_s = 2.0 * seconds - bits / ceiling;
        match slower_s > 0.0 {
            true => (bits / slower_s).min(2.0 * ceiling),
            false => plain,
        }
    }

    fn is_long_enough(&self, linktest: &Linktest, time: &PairTime, (a, b): (usize, usize)) -> bool {
        let ceiling = match (self.ceiling(a), self.ceiling(b)) {
            (Some(a), Some(b)) => a.min(b),
            // Nothing is judged if a speed is unknown.
            _ => return true,
        };
        let message_s = linktest.message_bytes as f64 * 8.0 / ceiling;
        message_s >= SHORTEST_MESSAGE_S
            && time.seconds * linktest.messages as f64 >= SHORTEST_LINK_S
    }
}

/// Times of a round, grouped by what was measured at the same time.
fn turns(round: &RoundRecord) -> Vec<Vec<&PairTime>> {
    let mut turns: BTreeMap<(usize, usize), Vec<&PairTime>> = BTreeMap::new();
    for time in &round.times {
        turns.entry((time.step, time.turn)).or_default().push(time);
    }
    turns.into_values().collect()
}

/// Reason why a link test judges nothing although speeds are known, if it does not.
pub(super) fn why_not(view: &View, linktest: &Linktest, record: &LinktestRecord) -> Option<String> {
    let nodes: BTreeSet<usize> = record.ranks.iter().map(|rank| rank.node).collect();
    if nodes.len() < 2 || !view.observations.is_empty() {
        return None;
    }
    let ports = 0..view.ports.len();
    let fastest = ports
        .filter_map(|port| view.ceiling(port))
        .reduce(f64::max)?;
    let bytes = fastest * SHORTEST_MESSAGE_S / 8.0;
    Some(format!(
        "{} messages of {} are too few or too short to judge a port (needed: messages of {}, and {} ms per link)",
        linktest.messages,
        crate::units::show_bytes(linktest.message_bytes as u64),
        crate::units::show_bytes(numbers::whole(bytes.ceil())),
        SHORTEST_LINK_S * 1e3
    ))
}
