//! Decides if a host was at its own limit. Without evidence from inside the window, nothing is excused.

use crate::record::{HeldBy, HostRecord, Interface, NodeRecord, TestRecord};

use super::thresholds::{
    CORE_BUSY, CORE_ON_PACKETS, FRAMES_MISSED, LEAST_WAIT, PAUSE_FRAMES, PROCESSES_WAIT,
};

/// Results of those nodes of a host that reported.
fn measured<'a>(test: &'a TestRecord, nodes: &'a [usize]) -> impl Iterator<Item = &'a NodeRecord> {
    let nodes = nodes.iter();
    nodes.filter_map(move |node| test.nodes.get(*node)?.as_ref())
}

/// Longest interval of those nodes.
fn interval_ns(test: &TestRecord, nodes: &[usize]) -> Option<u64> {
    measured(test, nodes).map(|node| node.interval_ns).max()
}

/// Reason why a host was at its limit in a test, if it was. `nodes` are the nodes of the host.
pub(crate) fn limit(test: &TestRecord, nodes: &[usize]) -> Option<String> {
    let interval = interval_ns(test, nodes).filter(|ns| *ns > 0)? as f64;
    let sum = |of: fn(&NodeRecord) -> u64| -> f64 {
        measured(test, nodes).map(|node| of(node) as f64).sum()
    };
    let cpu = sum(|node| node.cpu.senders_ns.saturating_add(node.cpu.receivers_ns));
    let delay = sum(|node| node.run_delay_ns);
    let waiting = delay / (cpu + delay).max(1.0);
    if waiting >= PROCESSES_WAIT && delay >= LEAST_WAIT * interval {
        return Some(format!(
            "its processes were ready and waited for a processor {:.0} % of their time",
            waiting * 100.0
        ));
    }
    // Other programs on another core excuse nothing. A core full of packets excuses even if the host's processes do little.
    let serving = measured(test, nodes).filter_map(|node| node.serving_core);
    let (busy, packets) = serving.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let is_ours = packets >= CORE_ON_PACKETS || cpu >= interval / 2.0;
    (busy >= CORE_BUSY && is_ours).then(|| {
        format!(
            "a core that served its links was {:.0} % busy, {:.0} % of that with packets",
            busy * 100.0,
            packets * 100.0
        )
    })
}

/// Links of a node in a test.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Links {
    /// Ends of links.
    ends: usize,
    /// Links into it that cross a switch.
    into: usize,
    /// Those of them that waited for its receive window.
    held_back: usize,
}

/// Counts the links of all nodes in one pass: a search of all links for each host takes minutes with a thousand hosts.
pub(crate) fn links_of_nodes(test: &TestRecord) -> Vec<Links> {
    let mut all = vec![Links::default(); test.nodes.len()];
    if let Some(sums) = &test.sums {
        // Links that stay on a host are missing here: a few of thousands.
        let rails = sums.ports.len() / all.len().max(1);
        for (own, ports) in all.iter_mut().zip(sums.ports.chunks(rails.max(1))) {
            for [out, into] in ports {
                let ends = out.links.saturating_add(into.links);
                own.ends = own.ends.saturating_add(ends);
                if sums.crosses_switch {
                    own.into = own.into.saturating_add(into.links);
                    own.held_back = own.held_back.saturating_add(into.held_back);
                }
            }
        }
        return all;
    }
    for link in &test.links {
        for node in [link.lane.from, link.lane.to] {
            if let Some(own) = all.get_mut(node) {
                own.ends += 1;
            }
        }
        if let Some(own) = all.get_mut(link.lane.to).filter(|_| link.crosses_switch) {
            own.into += 1;
            own.held_back += usize::from(link.held_by == HeldBy::HeldBack);
        }
    }
    all
}

/// Average share of the time that the processes of a host's links were ready and waited for a processor.
pub(crate) fn waiting(test: &TestRecord, nodes: &[usize], links: &[Links]) -> f64 {
    let delays = measured(test, nodes).map(|node| node.run_delay_ns as f64);
    let delay: f64 = delays.sum();
    let interval = interval_ns(test, nodes).unwrap_or(0);
    let ends = nodes.iter().filter_map(|node| Some(links.get(*node)?.ends));
    // Numbers of links in sums come from outside, so that their sums must not overflow.
    let ends = ends.fold(0, usize::saturating_add);
    delay / (interval.max(1) as f64 * ends.max(1) as f64)
}

/// Reason why the host of a data port could not take what arrived, if so: frames found no room, or it sent pause frames.
pub(crate) fn port_limit(
    test: &TestRecord,
    node: usize,
    interface: Option<&str>,
) -> Option<String> {
    let measured = test.nodes.get(node)?.as_ref()?;
    let (name, counters) = measured
        .interfaces
        .iter()
        .find(|(name, _)| Some(name.as_str()) == interface)?;
    let received = counters.received_packets.max(1) as f64;
    let missed = counters.missed.unwrap_or(0);
    if missed as f64 > FRAMES_MISSED * received {
        return Some(format!(
            "the host had no room for {missed} frames that reached {name}"
        ));
    }
    if measured.backlog_drops as f64 > FRAMES_MISSED * received {
        let dropped = measured.backlog_drops;
        return Some(format!(
            "its processors dropped {dropped} packets: their backlog was full"
        ));
    }
    let pauses = counters.pauses_sent.unwrap_or(0);
    (pauses > PAUSE_FRAMES)
        .then(|| format!("{name} sent {pauses} pause frames: the host could not keep up"))
}

/// Reason why a host could not take what arrived, if so: its receive window held back most of the links into it.
pub(crate) fn receive_limit(phases: usize, nodes: &[usize], links: &[Links]) -> Option<String> {
    let own = || nodes.iter().filter_map(|node| links.get(*node));
    let sum = |of: fn(&Links) -> usize| own().map(of).fold(0, usize::saturating_add);
    let (all, held) = (sum(|one| one.into), sum(|one| one.held_back));
    // A relay's window closes when its own sender is held up, which is no limit of its host.
    let most = phases == 2 && all > 0 && held > all / 2;
    most.then(|| format!("{held} of {all} links into it waited for its receive window"))
}

/// Reason why a host can never load a port: its slot is slower than the port.
pub(crate) fn slot_limit(interface: &Interface, speed_bits_per_s: u64) -> Option<String> {
    let pcie = interface.pcie?;
    (pcie.bits_per_s() < speed_bits_per_s).then(|| {
        format!(
            "PCIe {} GT/s x{} carries {:.1} Gbit/s",
            pcie.mega_transfers_per_s as f64 / 1000.0,
            pcie.lanes,
            pcie.bits_per_s() as f64 / 1e9
        )
    })
}

/// Sentence on what a host cannot see between its port and the switch: other machines on the same card, or a choice among several cards.
pub(crate) fn unseen(interface: &Interface) -> Option<String> {
    let name = &interface.name;
    let card = interface.virtual_card.as_ref();
    let card = card.map(|driver| {
        format!("{name} is a virtual card ({driver}), and its host cannot see what shares the physical card")
    });
    card.or_else(|| {
        let bond = interface.bond.as_ref()?;
        let members = interface.members.len();
        Some(format!("{name} is a bond of {members} cards ({bond}), whose hash may put several connections on one card"))
    })
}

/// The nodes of each host, by its first node; empty for other nodes.
pub(crate) fn nodes_of_hosts(hosts: &[HostRecord]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); hosts.len()];
    for (node, host) in hosts.iter().enumerate() {
        if let Some(own) = all.get_mut(host.host_index) {
            own.push(node);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Pcie;

    /// A test of two hosts in which no host is at its limit.
    fn sound() -> TestRecord {
        let text = include_str!("../../tests/golden/two-hosts/record.json");
        let record: crate::record::Record = serde_json::from_str(text).unwrap();
        let mut test = record.tests()[0].clone();
        for node in test.nodes.iter_mut().flatten() {
            (node.interval_ns, node.run_delay_ns) = (10_000_000_000, 0);
            node.cpu.senders_ns = 3_000_000_000;
            node.cpu.receivers_ns = 3_000_000_000;
            node.serving_core = Some((0.6, 0.2));
            node.backlog_drops = 0;
            for (_, counters) in &mut node.interfaces {
                counters.received_packets = 1_000_000;
                (counters.missed, counters.pauses_sent) = (None, None);
            }
        }
        for link in &mut test.links {
            link.held_by = HeldBy::Limiting;
        }
        test
    }

    fn node(test: &mut TestRecord) -> &mut crate::record::NodeRecord {
        test.nodes[1].as_mut().unwrap()
    }

    #[test]
    fn a_busy_core_excuses_if_it_served_links() {
        let said = |serving, cpu_s: u64| {
            let mut test = sound();
            node(&mut test).serving_core = serving;
            node(&mut test).cpu.senders_ns = cpu_s * 1_000_000_000;
            node(&mut test).cpu.receivers_ns = 0;
            limit(&test, &[1])
        };
        assert_eq!(limit(&sound(), &[1]), None);
        let text = said(Some((0.97, 0.1)), 6);
        let expected = "a core that served its links was 97 % busy, 10 % of that with packets";
        assert_eq!(text.as_deref(), Some(expected));
        // Its processes do little, but packets fill the core.
        assert!(said(Some((0.97, 0.8)), 1).is_some());
        assert_eq!(said(Some((0.97, 0.1)), 1), None);
        assert_eq!(said(Some((0.94, 0.9)), 6), None);
        assert_eq!(said(None, 6), None);
    }

    #[test]
    fn processes_that_wait_for_a_processor_excuse_from_half_of_their_time_on() {
        let said = |delay_s: u64| {
            let mut test = sound();
            node(&mut test).run_delay_ns = delay_s * 1_000_000_000;
            limit(&test, &[1])
        };
        assert_eq!(said(5), None);
        let text = said(9).unwrap();
        assert!(
            text.ends_with("waited for a processor 60 % of their time"),
            "{text}"
        );
    }

    #[test]
    fn a_host_that_cannot_take_what_comes_is_told_by_its_counters() {
        let said = |change: fn(&mut crate::record::NodeRecord)| {
            let mut test = sound();
            change(node(&mut test));
            let name = node(&mut test).interfaces[0].0.clone();
            port_limit(&test, 1, Some(&name))
        };
        assert_eq!(said(|_| {}), None);
        assert_eq!(said(|node| node.interfaces[0].1.missed = Some(100)), None);
        let text = said(|node| node.interfaces[0].1.missed = Some(101)).unwrap();
        assert!(
            text.starts_with("the host had no room for 101 frames that reached "),
            "{text}"
        );
        let text = said(|node| node.backlog_drops = 500).unwrap();
        assert!(text.contains("dropped 500 packets"), "{text}");
        assert_eq!(
            said(|node| node.interfaces[0].1.pauses_sent = Some(10)),
            None
        );
        let text = said(|node| node.interfaces[0].1.pauses_sent = Some(11)).unwrap();
        assert!(text.contains("sent 11 pause frames"), "{text}");
    }

    #[test]
    fn most_links_into_a_host_held_by_its_window_are_its_limit() {
        let mut test = sound();
        let limit = |test: &TestRecord, phases| receive_limit(phases, &[1], &links_of_nodes(test));
        assert_eq!(limit(&test, 2), None);
        for link in &mut test.links {
            link.held_by = HeldBy::HeldBack;
        }
        let text = limit(&test, 2).unwrap();
        assert!(
            text.ends_with("links into it waited for its receive window"),
            "{text}"
        );
        assert_eq!(limit(&test, 3), None, "a relay's window says nothing");
    }

    /// Symptom: a record that claims more links than there are numbers stopped the judge.
    #[test]
    fn numbers_of_links_in_sums_do_not_overflow() {
        let mut sums = crate::record::LinkSums {
            crosses_switch: true,
            ports: vec![Default::default(); 2],
            ..Default::default()
        };
        for sum in sums.ports.iter_mut().flatten() {
            (sum.links, sum.held_back) = (usize::MAX, usize::MAX);
        }
        let mut test = sound();
        test.sums = Some(sums);
        let links = links_of_nodes(&test);
        assert!(receive_limit(2, &[0, 1], &links).is_some());
        assert!(waiting(&test, &[0, 1], &links) >= 0.0);
    }

    #[test]
    fn a_slot_narrower_than_its_port_is_named() {
        let interface = |mega_transfers_per_s, lanes| Interface {
            pcie: Some(Pcie {
                mega_transfers_per_s,
                lanes,
            }),
            ..Interface::default()
        };
        let text = slot_limit(&interface(8000, 8), 100_000_000_000);
        assert_eq!(text.as_deref(), Some("PCIe 8 GT/s x8 carries 63.0 Gbit/s"));
        assert_eq!(slot_limit(&interface(8000, 16), 100_000_000_000), None);
        let text = slot_limit(&interface(5000, 4), 25_000_000_000);
        assert_eq!(text.as_deref(), Some("PCIe 5 GT/s x4 carries 16.0 Gbit/s"));
        assert_eq!(slot_limit(&Interface::default(), 1), None);
    }
}
