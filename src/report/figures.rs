//! Figures that all reports share: sums per port, the weakest port, the total through the switch.
//!
//! Rates are delivered payload in decimal Gbit/s. In a timed run, the bytes of a link are divided by its receiver's own interval. In a volume run,
//! all bytes are divided by the time of the last finish, since rates over different times are never added.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Test;
use crate::record::{
    HeldBy, LinkRecord, Missing, NodeRecord, Record, Second, TestRecord, port_label,
};
use crate::units;

/// Direction of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Out of the host.
    Send,
    /// Into the host.
    Receive,
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Send {
            "send"
        } else {
            "receive"
        })
    }
}

/// Both directions of a host's port, or of a node if no link crosses a switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Indices of the nodes that use the port.
    pub nodes: Vec<usize>,
    /// Index of the port among the host's data ports.
    pub rail: usize,
    /// Name of the host, or label of its only node; with several rails also the interface.
    pub label: String,
    /// Sum of the counted links out of it.
    pub send_gbit_per_s: f64,
    /// Sum of the counted links into it.
    pub receive_gbit_per_s: f64,
    /// Retransmitted segments; `None` if a node did not report.
    pub retransmits: Option<u64>,
    /// Utilisation of the busiest core, 0 to 1.
    pub busiest_core: Option<f64>,
    /// Seconds from a node's first ring to its last, the longest of the port's nodes.
    pub own_time_s: Option<f64>,
    /// Number of counted links out of it.
    pub links_out: usize,
    /// Number of counted links into it.
    pub links_in: usize,
    /// Number of links out of it that the path limits; 0 if the path limits every link of the test.
    pub limiting_out: usize,
    /// Number of links into it that the path limits; 0 if the path limits every link of the test.
    pub limiting_in: usize,
    /// True if all its nodes reported.
    pub reported: bool,
    /// Nanoseconds from the start of the test until a node was last heard of; `None` if none was lost during the test.
    pub lost_at_ns: Option<u64>,
    /// Nodes that its counted links lead to, if all of them were lost: the port had nothing to send to.
    pub lost_receivers: Vec<usize>,
    /// Nodes that its counted links come from, if all of them were lost.
    pub lost_senders: Vec<usize>,
}

impl Port {
    /// The lower rate of its directions, without one that lost its partners.
    pub(super) fn least_gbit_per_s(&self) -> f64 {
        let of = |rate: f64, lost: &[usize]| match lost.is_empty() {
            true => rate,
            false => f64::INFINITY,
        };
        let send = of(self.send_gbit_per_s, &self.lost_receivers);
        send.min(of(self.receive_gbit_per_s, &self.lost_senders))
    }
}

/// The figures of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// True if a link goes from host to host. If not, the ports are those between nodes of one host.
    pub crosses_switch: bool,
    /// Number of hosts, without lost ones.
    pub hosts: usize,
    /// Every port: each rail of each host, or of each node if no link crosses a switch.
    pub ports: Vec<Port>,
    /// Sum of the receive rates of all ports, so one way.
    pub total_gbit_per_s: f64,
    /// Rate of links that stay on a host, or within a node if no link crosses a switch; not part of the total.
    pub same_host_gbit_per_s: f64,
}

impl Figures {
    /// Computes the figures of a test.
    pub fn of(record: &Record, test: &TestRecord) -> Self {
        let crosses_switch = test.crosses_switch();
        let plan = &record.plan.tests()[test.test];
        let rails = plan.rails.max(1);
        let of_hosts = groups(record, crosses_switch).into_iter();
        let of_hosts = of_hosts.filter(|nodes| !was_lost_before(record, test, nodes));
        let of_hosts: Vec<Vec<usize>> = of_hosts.collect();
        let links = of_ports(record, test, plan, &of_hosts);
        let ports = of_hosts
            .iter()
            .flat_map(|nodes| (0..rails).map(move |rail| (nodes, rail)));
        let ports: Vec<Port> = ports
            .zip(links)
            .map(|((nodes, rail), [out, into])| {
                let measured: Option<Vec<&NodeRecord>> = nodes
                    .iter()
                    .map(|node| test.nodes[*node].as_ref())
                    .collect();
                let measured = measured.as_deref();
                let each = measured.unwrap_or_default().iter();
                Port {
                    label: port_label(&record.plan, &record.hosts, nodes, rail),
                    rail,
                    send_gbit_per_s: out.gbit_per_s,
                    receive_gbit_per_s: into.gbit_per_s,
                    retransmits: measured.map(|_| out.retransmits),
                    busiest_core: each
                        .clone()
                        .filter_map(|one| one.busiest_core)
                        .reduce(f64::max),
                    own_time_s: each
                        .filter_map(|one| one.ring_to_ring_ns)
                        .max()
                        .map(|ns| ns as f64 / 1e9),
                    links_out: out.links,
                    links_in: into.links,
                    limiting_out: out.limiting,
                    limiting_in: into.limiting,
                    reported: measured.is_some(),
                    lost_at_ns: lost_at_ns(record, test, nodes),
                    lost_receivers: out.lost_peers,
                    lost_senders: into.lost_peers,
                    nodes: nodes.clone(),
                }
            })
            .collect();
        let apart = test.every_link().iter();
        let apart = apart.filter(|link| !counted(link, crosses_switch));
        let apart_gbit_per_s = match &test.sums {
            Some(sums) => sums.apart_bits_per_s / 1e9,
            None => apart.map(|link| test.rate_of(link)).sum(),
        };
        let here = record.hosts.iter().enumerate();
        let here = here.filter(|(node, _)| {
            lost_at_ns(record, test, &[*node]).is_none() && !was_lost_before(record, test, &[*node])
        });
        let hosts: BTreeSet<usize> = here.map(|(_, host)| host.host_index).collect();
        Self {
            crosses_switch,
            hosts: hosts.len(),
            total_gbit_per_s: ports.iter().map(|port| port.receive_gbit_per_s).sum(),
            same_host_gbit_per_s: apart_gbit_per_s,
            ports,
        }
    }

    /// Every port direction that was reported, has links and did not lose all its partners, with its rate in Gbit/s.
    pub(super) fn directions(&self) -> impl Iterator<Item = (&Port, Direction, f64)> {
        let reported = self.ports.iter().filter(|port| port.reported);
        reported.flat_map(|port| {
            let send = (port, Direction::Send, port.send_gbit_per_s);
            let receive = (port, Direction::Receive, port.receive_gbit_per_s);
            let sends = port.links_out > 0 && port.lost_receivers.is_empty();
            let receives = port.links_in > 0 && port.lost_senders.is_empty();
            let send = sends.then_some(send).into_iter();
            send.chain(receives.then_some(receive))
        })
    }

    /// Every port direction that was reported and lost all its partners, with these.
    pub(super) fn without_partner(&self) -> impl Iterator<Item = (&Port, Direction, &[usize])> {
        let reported = self.ports.iter().filter(|port| port.reported);
        let both = reported.flat_map(|port| {
            [
                (port, Direction::Send, &port.lost_receivers[..]),
                (port, Direction::Receive, &port.lost_senders[..]),
            ]
        });
        both.filter(|(.., lost)| !lost.is_empty())
    }

    /// The port direction with the lowest rate. From three phases on, links there and back are equal by construction, so among port directions within
    /// 1 % of the lowest rate the result is the one with the most limiting links.
    pub fn weakest(&self) -> Option<(&Port, Direction, f64)> {
        self.weakest_but(&|_, _| false)
    }

    /// Like [`Self::weakest`], but among equal port directions one that is `known` to be at fault comes first.
    pub fn weakest_but(
        &self,
        known: &dyn Fn(&Port, Direction) -> bool,
    ) -> Option<(&Port, Direction, f64)> {
        const SAME: f64 = 1.01;
        let least = self.directions().map(|(.., rate)| rate);
        let least = least.reduce(f64::min)?;
        let limiting = |port: &Port, direction| match direction {
            Direction::Send => port.limiting_out,
            Direction::Receive => port.limiting_in,
        };
        self.directions()
            .filter(|(.., rate)| *rate <= least * SAME)
            .max_by(|a, b| {
                let count = limiting(a.0, a.1).cmp(&limiting(b.0, b.1));
                let at_fault = known(a.0, a.1).cmp(&known(b.0, b.1));
                at_fault.then(count).then(b.2.total_cmp(&a.2))
            })
    }
}

/// Groups of nodes that share a port: the nodes of a host, or single nodes if no link crosses a switch.
fn groups(record: &Record, crosses_switch: bool) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for node in 0..record.plan.nodes.len() {
        let host = record.hosts.get(node).map_or(node, |host| host.host_index);
        let key = if crosses_switch { host } else { node };
        groups.entry(key).or_default().push(node);
    }
    groups.into_values().collect()
}

/// Counted links of a port in one direction.
#[derive(Debug, Clone, Default)]
struct PortLinks {
    links: usize,
    gbit_per_s: f64,
    /// Segments retransmitted between hosts.
    retransmits: u64,
    /// Links that the path limits.
    limiting: usize,
    /// Nodes at the other ends, if all of them were lost.
    lost_peers: Vec<usize>,
}

/// The links out of all ports and into them, host by host and rail by rail.
fn of_ports(
    record: &Record,
    test: &TestRecord,
    plan: &Test,
    of_hosts: &[Vec<usize>],
) -> Vec<[PortLinks; 2]> {
    let rails = plan.rails.max(1);
    let mut first_ports = vec![None; test.nodes.len()];
    for (host, nodes) in of_hosts.iter().enumerate() {
        for node in nodes {
            first_ports[*node] = Some(host * rails);
        }
    }
    let some_limit = some_limit(test);
    let mut all = vec![<[PortLinks; 2]>::default(); of_hosts.len() * rails];
    if let Some(sums) = &test.sums {
        for (place, both) in sums.ports.iter().enumerate() {
            let Some(first) = first_ports.get(place / rails).copied().flatten() else {
                continue;
            };
            for (port, sum) in all[first + place % rails].iter_mut().zip(both) {
                port.links = port.links.saturating_add(sum.links);
                port.gbit_per_s += sum.rate_bits_per_s / 1e9;
                if sums.crosses_switch {
                    units::add(&mut port.retransmits, sum.retransmits);
                }
                let limiting = if some_limit { sum.limiting } else { 0 };
                port.limiting = port.limiting.saturating_add(limiting);
            }
        }
        return all;
    }
    let lost = lost_nodes(record, test);
    let mut peers = vec![<[BTreeSet<usize>; 2]>::default(); all.len()];
    // One pass over all links: a pass for each port takes minutes with a thousand hosts.
    let crosses_switch = test.crosses_switch();
    let counts = |link: &&LinkRecord| counted(link, crosses_switch);
    for link in test.links.iter().filter(counts) {
        let rail = plan.rail_of(link.lane.stream);
        let ends = [
            (link.lane.from, link.lane.to),
            (link.lane.to, link.lane.from),
        ];
        for (back, (node, peer)) in ends.into_iter().enumerate() {
            let Some(first) = first_ports[node] else {
                continue;
            };
            let port = &mut all[first + rail][back];
            port.links += 1;
            port.gbit_per_s += test.rate_of(link);
            if link.crosses_switch {
                units::add(&mut port.retransmits, link.retransmits());
            }
            port.limiting += usize::from(some_limit && link.held_by == HeldBy::Limiting);
            if !lost.is_empty() {
                peers[first + rail][back].insert(peer);
            }
        }
    }
    for (port, peers) in all.iter_mut().flatten().zip(peers.into_iter().flatten()) {
        if peers.is_subset(&lost) {
            port.lost_peers = peers.into_iter().collect();
        }
    }
    all
}

/// True if the path limits some links between hosts and others not: if it limits all, the word says nothing.
fn some_limit(test: &TestRecord) -> bool {
    let known = match &test.sums {
        Some(sums) if sums.crosses_switch => {
            let known = test
                .crossing_links()
                .saturating_sub(sums.total(|port| port.unknown));
            (sums.total(|port| port.limiting), known)
        }
        Some(_) => (0, 0),
        None => {
            let links = test.links.iter();
            let known = links.filter(|link| link.crosses_switch && link.held_by != HeldBy::Unknown);
            known.fold((0, 0), |(limiting, known), link| {
                let limits = usize::from(link.held_by == HeldBy::Limiting);
                (limiting + limits, known + 1)
            })
        }
    };
    known.0 > 0 && known.0 < known.1
}

fn counted(link: &LinkRecord, crosses_switch: bool) -> bool {
    if crosses_switch {
        link.crosses_switch
    } else {
        !link.lane.is_own()
    }
}

/// Nanoseconds from the start of a test until one of these nodes was lost in it.
fn lost_at_ns(record: &Record, test: &TestRecord, nodes: &[usize]) -> Option<u64> {
    let mut missing = missing_of(record, nodes);
    missing.find(|missing| missing.test == test.test)?.at_ns
}

/// Text on a node that was last heard of `at_ns` after the start of a test. Seconds count from the start of its window.
pub(super) fn lost_text(plan: &Test, at_ns: u64) -> String {
    let warmup_ns = plan.bound.times_ns().map_or(0, |(warmup_ns, _)| warmup_ns);
    let seconds = |ns: u64| ns as f64 / 1e9;
    match at_ns.checked_sub(warmup_ns) {
        Some(ns) => format!("lost at {:.1} s", seconds(ns)),
        None => format!("lost at {:.1} s of the warm-up", seconds(at_ns)),
    }
}

/// Nodes that were lost in a test or before it.
fn lost_nodes(record: &Record, test: &TestRecord) -> BTreeSet<usize> {
    let lost = record.missing.iter().filter(|one| one.test <= test.test);
    let lost: BTreeSet<&str> = lost.map(|one| one.node.as_str()).collect();
    let nodes = record.plan.nodes.iter().enumerate();
    let lost = nodes.filter(|(_, node)| lost.contains(node.label.as_str()));
    lost.map(|(node, _)| node).collect()
}

/// True if one of these nodes took no part in a test, since it was lost before.
fn was_lost_before(record: &Record, test: &TestRecord, nodes: &[usize]) -> bool {
    let before = |missing: &Missing| {
        missing.test < test.test || (missing.test == test.test && missing.at_ns.is_none())
    };
    missing_of(record, nodes).any(before)
}

fn missing_of<'a>(record: &'a Record, nodes: &'a [usize]) -> impl Iterator<Item = &'a Missing> {
    record.missing.iter().filter(move |missing| {
        let mut own = nodes.iter().map(|node| &record.plan.nodes[*node].label);
        own.any(|label| *label == missing.node)
    })
}

/// Kept links that the path limits, weakest first. Empty if the path limits every link: the word says nothing then.
pub fn limiting(test: &TestRecord) -> Vec<&LinkRecord> {
    if !some_limit(test) {
        return Vec::new();
    }
    let limits = |link: &&LinkRecord| link.crosses_switch && link.held_by == HeldBy::Limiting;
    let mut limiting: Vec<&LinkRecord> = test.links.iter().filter(limits).collect();
    limiting.sort_by(|a, b| test.rate_of(a).total_cmp(&test.rate_of(b)));
    limiting
}

/// Largest relative deviation of a second's sum from the mean, over the seconds of the window; `None` with fewer than three. The sums count bytes
/// that cross the switch, or bytes between nodes if no link crosses it.
pub fn steadiness(test: &TestRecord, warmup_ns: u64, crosses_switch: bool) -> Option<f64> {
    let ports = |second: &Second| -> u64 {
        let bytes = if crosses_switch {
            &second.received_bytes
        } else {
            &second.same_host_bytes
        };
        units::sum(bytes.iter().copied())
    };
    let stretch_ns = test.stretch_s.saturating_mul(units::SECOND_NS);
    let begins_ns = warmup_ns.saturating_add(stretch_ns);
    let sums: Vec<f64> = test
        .seconds
        .iter()
        .filter(|second| {
            let ends_ns = test.window_ns.unwrap_or(u64::MAX);
            (begins_ns..=warmup_ns.saturating_add(ends_ns)).contains(&second.at_ns)
        })
        .map(|second| ports(second) as f64)
        .collect();
    if sums.len() < 3 {
        return None;
    }
    let mean = sums.iter().sum::<f64>() / sums.len() as f64;
    if mean <= 0.0 {
        return None;
    }
    sums.iter()
        .map(|sum| (sum - mean).abs() / mean)
        .reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Sheet, TroubleKind, VerdictWord};
    use crate::report::{json, text};

    /// Symptom: in a ring the port of a healthy host, whose only target had died, was the weakest with 0.00.
    #[test]
    fn a_port_whose_only_partner_was_lost_is_not_the_weakest_and_its_partner_is_named() {
        let text = include_str!("../../tests/golden/acceptance/record.json");
        let mut record = json::read(text).unwrap();
        // The ring n1 -> n2 -> n3 -> n4 -> n1, without n1 from the first half second of the window on.
        record.plan.acceptance_mut().unwrap().tests.truncate(1);
        let tests = &mut record.outcome.acceptance_mut().unwrap().tests;
        tests.truncate(1);
        tests[0].nodes[0] = None;
        for link in &mut tests[0].links {
            if link.lane.from == 0 || link.lane.to == 0 {
                (link.interval_bytes, link.received_bytes) = (0, 0);
            }
        }
        let (warmup_ns, _) = record.plan.tests()[0].bound.times_ns().unwrap();
        record.missing.push(Missing {
            node: "n1".to_owned(),
            test: 0,
            at_ns: Some(warmup_ns + 500_000_000),
            kind: TroubleKind::Lost,
            what: "lost: silent for 10 s".to_owned(),
        });
        record.verdict.word = VerdictWord::NotJudged;
        record.sheet = Sheet::default();
        let figures = Figures::of(&record, &record.tests()[0]);
        let (weakest, _, rate) = figures.weakest().unwrap();
        assert!(rate > 0.0, "{weakest:?}");
        let alone = figures.without_partner();
        let alone: Vec<String> = alone
            .map(|(port, direction, lost)| format!("{} {direction} {lost:?}", port.label))
            .collect();
        assert_eq!(alone, ["n2 receive [0]", "n4 send [0]"]);
        let said = text::summary(&record);
        for part in [
            "n1 lost at 0.5 s (lost: silent for 10 s)",
            "no partner  n2 receive (lost: n1), n4 send (lost: n1)",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        // Before the window nothing counts.
        record.missing[0].at_ns = Some(warmup_ns - 500_000_000);
        let said = text::summary(&record);
        assert!(said.contains("n1 lost at 1.5 s of the warm-up ("), "{said}");
    }
}
