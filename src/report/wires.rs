//! Lines of the summary about interfaces: counters that contradict the payload, the shares of bond members, and paths that take smaller packets than
//! their ends.

use std::collections::HashSet;

use crate::judge::names::and_more;
use crate::record::{InterfaceCounters, Record, TestRecord, WireFinding, WireKind};
use crate::units::{show_bytes, sum};

/// A line for each contradiction between interface counters and payload, and a line for each bond with the shares of its members.
pub(super) fn lines(record: &Record, test: &TestRecord) -> Vec<String> {
    let mut lines: Vec<String> = test.wires.iter().map(|one| wire(record, one)).collect();
    for (node, measured) in test.nodes.iter().enumerate() {
        let (Some(measured), host) = (measured, &record.hosts[node]) else {
            continue;
        };
        let bonds = host.rails.iter().filter_map(|rail| host.interface_of(rail));
        for bond in bonds.filter(|one| one.members.len() > 1 && host.host_index == node) {
            let members = || {
                let all = measured.interfaces.iter();
                all.filter(|(name, _)| bond.members.contains(name))
            };
            let shares = |of: fn(&InterfaceCounters) -> u64| -> String {
                let total = sum(members().map(|(_, one)| of(one))).max(1) as f64;
                let each = members()
                    .map(|(name, one)| format!("{name} {:.0} %", of(one) as f64 / total * 100.0));
                each.collect::<Vec<_>>().join(", ")
            };
            lines.push(format!(
                "members     {} {}: sent {}; received {}",
                record.plan.nodes[node].label,
                bond.name,
                shares(|one| one.sent_bytes),
                shares(|one| one.received_bytes)
            ));
        }
    }
    lines
}

/// The contradictions of several tests: each interface and kind once, with the first test that showed it.
pub(super) fn of_all(record: &Record, tests: &[&TestRecord]) -> Vec<String> {
    let mut known = HashSet::new();
    let mut lines = Vec::new();
    for test in tests {
        for finding in &test.wires {
            let kind = std::mem::discriminant(&finding.kind);
            if known.insert((&finding.node, &finding.interface, kind)) {
                lines.push(format!(
                    "{} (test {})",
                    wire(record, finding),
                    test.test + 1
                ));
            }
        }
    }
    lines
}

fn wire(record: &Record, finding: &WireFinding) -> String {
    let WireFinding {
        node, interface, ..
    } = finding;
    let host = record.hosts.iter().find(|host| host.node == *node);
    let mut rails = host.into_iter().flat_map(|host| &host.rails);
    let rail = rails.find(|rail| rail.interface.as_ref() == Some(interface));
    let address = rail.map_or_else(String::new, |rail| format!(" ({})", rail.address));
    let payload = show_bytes(finding.payload_bytes);
    let counted = show_bytes(finding.counted_bytes);
    let foreign = |bytes: u64, way: &str| {
        let share = bytes as f64 / finding.counted_bytes.max(1) as f64 * 100.0;
        let foreign = show_bytes(bytes);
        format!(
            "foreign     {node} {interface}: {share:.1} % of the bytes it {way} were other traffic ({foreign})"
        )
    };
    let other = |by: &Option<String>| by.clone().unwrap_or_else(|| "another interface".to_owned());
    match &finding.kind {
        WireKind::WrongRoute { by } => format!(
            "wrong route {node} {interface}{address}: {payload} of payload sent, {counted} counted; {} carried it \
             (routes to the rail's network leave there: see 'ip route get')",
            other(by)
        ),
        WireKind::ArpFlux { by } => format!(
            "ARP flux    {node} {interface}{address}: {payload} of payload received, {counted} counted; {} received it \
             (it answers for this address: net.ipv4.conf.all.arp_ignore=1, arp_announce=2)",
            other(by)
        ),
        WireKind::ForeignSent { bytes } => foreign(*bytes, "sent"),
        WireKind::ForeignReceived { bytes } => foreign(*bytes, "received"),
    }
}

/// Links whose path takes smaller packets than both of their ends. Returns `None` if the tests saw no such link.
pub(super) fn short_paths(record: &Record, test: &TestRecord) -> Option<String> {
    const NAMED: usize = 4;
    let plan = &record.plan.tests()[test.test];
    let mtu = |node: usize, rail: usize| {
        let host = &record.hosts[node];
        let interface = host.interface_of(host.rails.get(rail)?)?;
        Some(u64::from(interface.mtu_bytes))
    };
    let mut short = Vec::new();
    for link in test.links.iter().filter(|link| link.crosses_switch) {
        let rail = plan.rail_of(link.lane.stream);
        let both = mtu(link.lane.from, rail).zip(mtu(link.lane.to, rail));
        let (Some((_, last)), Some((from, to))) = (link.tcp, both) else {
            continue;
        };
        let (passes, wanted) = (last.path_mtu_bytes, from.min(to));
        let label = |node: usize| &record.plan.nodes[node].label;
        let name = format!("{}->{}", label(link.lane.from), label(link.lane.to));
        let text = format!("{name} passes {passes}, not {wanted}");
        if passes > 0 && passes < wanted && !short.contains(&text) {
            short.push(text);
        }
    }
    let more = and_more(short.len(), NAMED, ", ");
    short.truncate(NAMED);
    (!short.is_empty()).then(|| format!("path MTU: {}{more}", short.join(", ")))
}
