//! Findings of a pre-flight: reachable hosts, pairs that connect and pass full packets, ports that differ from the order, and hosts that differ.

use std::collections::BTreeSet;

use crate::judge::uniform::{self, Trait};
use crate::judge::{capacity, tuning};
use crate::plan::NodeSpec;
use crate::record::{
    Coalescing, HostRecord, Interface, InterfaceCounters, NodeRecord, Record, Room, TestRecord,
    Tuning, WireKind, first_nodes,
};
use crate::units::{show_bytes, show_rate, sum};

use super::{count, each_once, fast_ports, fold, grouped};

/// Result of a pre-flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// A run can start.
    Ready,
    /// A port differs from the order.
    NotAsOrdered,
    /// A host is missing, or something failed.
    NotReady,
}

/// Judges a pre-flight by its record.
pub fn readiness(record: &Record) -> Readiness {
    if !record.missing.is_empty() || !record.troubles.is_empty() {
        return Readiness::NotReady;
    }
    match record.sheet.order.is_empty() {
        true => Readiness::Ready,
        false => Readiness::NotAsOrdered,
    }
}

/// The findings as lines, the worst first.
pub fn lines(record: &Record) -> Vec<String> {
    let (hosts, all) = hosts_there(record);
    let traits = uniform::traits(&record.plan, &record.hosts);
    let differ = traits.iter().filter(|one| !one.is_uniform()).count();
    let but = match differ {
        0 => String::new(),
        1 => ", but hosts differ in one thing".to_owned(),
        several => format!(", but hosts differ in {several} things"),
    };
    let headline = match readiness(record) {
        Readiness::Ready => format!("READY  {}, {}{but}", count(hosts, "host"), pairs(record)),
        Readiness::NotReady if record.troubles.is_empty() => {
            format!("NOT READY  {hosts} of {all} hosts are present{but}")
        }
        Readiness::NotAsOrdered => format!(
            "FAIL  {} not as specified{but}",
            count(record.sheet.order.len(), "port")
        ),
        Readiness::NotReady => format!("NOT READY  {}", record.verdict.reason),
    };
    let mut lines = vec![headline];
    let missing = record.missing.iter();
    lines.extend(missing.map(|one| format!("missing     {}: {}", one.node, one.what)));
    let order = record.sheet.order.iter();
    lines.extend(order.map(|finding| format!("FAIL        {finding}")));
    for one in traits.iter().filter(|one| !one.is_uniform()) {
        lines.push(format!("differs     {}", told(one)));
    }
    for (host, interface, count, usual) in uniform::flapping(&record.plan, &record.hosts) {
        lines.push(format!("flaps       {host} {interface}: its link went up or down {count} times, the links of others {usual} times"));
    }
    let claimed = claimed(ports_of(record)).into_iter();
    lines.extend(claimed.map(|text| format!("claimed     {text}")));
    let capacities = capacity::lines(&record.plan, &record.hosts).into_iter();
    lines.extend(capacities.map(|text| {
        format!("capacity    {text} (over loopback: a card costs more, so these are upper limits)")
    }));
    let ports = fast_ports::lines(&record.plan, &record.hosts).into_iter();
    lines.extend(ports.map(|text| format!("port        {text}")));
    lines.extend(busy(record));
    lines.extend(costs(record));
    lines.extend(counted(record));
    lines.extend(cards(record));
    lines.push(format!("alike       {}", alike(&traits)));
    lines.push(format!("unavailable {}", unseen(record, &traits)));
    lines
}

/// Number of hosts that lack no node, and of all hosts. A host that was lost later is among the missing, and its facts are in the record too.
fn hosts_there(record: &Record) -> (usize, usize) {
    let host = |label: &str| label.split('#').next().unwrap_or_default().to_owned();
    let missing: BTreeSet<String> = record.missing.iter().map(|one| host(&one.node)).collect();
    let known: BTreeSet<String> = record.hosts.iter().map(|one| host(&one.node)).collect();
    let firsts = || first_nodes(&record.hosts);
    let there = firsts().filter(|(_, one)| !missing.contains(&host(&one.node)));
    let all = firsts().count() + missing.difference(&known).count();
    (there.count(), all)
}

/// Statement on the links between hosts: their number, and the proof that each is connected and passed a full packet.
fn pairs(record: &Record) -> String {
    let first = record.tests().first();
    let links = first.map_or(0, TestRecord::crossing_links);
    match links {
        0 => "no pair crosses a switch".to_owned(),
        _ => format!("{links} links between them: all connected, and each passed a full packet"),
    }
}

/// The values of a trait with their hosts; odd values are marked.
fn told(one: &Trait) -> String {
    let groups = one.groups.iter().enumerate();
    let texts: Vec<String> = groups
        .map(|(number, (value, hosts))| {
            let value = if value.is_empty() { "unknown" } else { value };
            let odd = if one.is_odd(number) { " <- odd" } else { "" };
            format!("{} {value}{odd}", fold(hosts))
        })
        .collect();
    format!("{}: {}", one.name, texts.join("; "))
}

/// The first node of each host, and the host.
fn places(record: &Record) -> impl Iterator<Item = (&NodeSpec, &HostRecord)> {
    let firsts = first_nodes(&record.hosts);
    firsts.filter_map(move |(node, host)| Some((record.plan.nodes.get(node)?, host)))
}

/// Each host, and its switch ports as written or as heard: the plan has no port that several hosts hear, and none of several rails.
fn ports_of(record: &Record) -> impl Iterator<Item = (String, Option<String>)> {
    places(record).flat_map(|(node, host)| {
        let heard = host.heard().map(|at| at.map(ToString::to_string));
        let ports = match node.place() {
            Some(at) => vec![Some(at)],
            None => heard.collect(),
        };
        let own = move |at| (node.host.clone(), at);
        ports.into_iter().map(own)
    })
}

/// Switch ports that several hosts claim, given each host with its port.
pub(super) fn claimed(places: impl Iterator<Item = (String, Option<String>)>) -> Vec<String> {
    let claims = places.filter_map(|(host, place)| Some((place?, host)));
    let twice = grouped(claims)
        .into_iter()
        .filter(|(_, hosts)| hosts.len() > 1);
    let line = |(place, hosts): (String, Vec<String>)| {
        format!(
            "{place} by {}: a written name is wrong, or these hosts share the port",
            fold(&hosts)
        )
    };
    twice.map(line).collect()
}

/// Ports that carry other traffic, whose throughput a run would lack.
fn busy(record: &Record) -> Vec<String> {
    /// Fraction of the port speed above which other traffic is reported. An unknown speed counts as 1 Gbit/s.
    const MUCH: f64 = 0.02;
    const UNKNOWN_MBIT: u64 = 1_000;
    let mut lines = Vec::new();
    for test in record.tests() {
        let listens_ns = record.plan.tests()[test.test].purpose.listens_ns();
        for one in &test.wires {
            let (way, bytes) = match one.kind {
                WireKind::ForeignSent { bytes } => ("sent", bytes),
                WireKind::ForeignReceived { bytes } => ("received", bytes),
                WireKind::WrongRoute { .. } | WireKind::ArpFlux { .. } => continue,
            };
            let Some(node) = record.hosts.iter().position(|host| host.node == one.node) else {
                continue;
            };
            let host = &record.hosts[node];
            let mut interfaces = host.facts.interfaces.iter();
            let interface = interfaces.find(|port| port.name == one.interface);
            let told = interface.and_then(|port| port.speed_mbit);
            let told = told.unwrap_or(UNKNOWN_MBIT).saturating_mul(1_000_000);
            let speed = record.plan.nodes[node].speed_bits_per_s.unwrap_or(told) as f64;
            let measured = test.nodes.get(node).and_then(Option::as_ref);
            let ran_ns = measured.and_then(|node| node.ring_to_ring_ns).unwrap_or(0);
            let seconds = listens_ns.saturating_add(ran_ns).max(1) as f64 / 1e9;
            let rate = bytes as f64 * 8.0 / seconds;
            if rate > speed * MUCH {
                lines.push(format!(
                    "busy        {} {} {way} {} of other traffic, {:.0} % of the port: stop it before a run",
                    one.node,
                    one.interface,
                    show_rate(rate),
                    rate / speed * 100.0
                ));
            }
        }
    }
    lines
}

/// Each host with the interfaces that are its data ports.
fn data_ports(record: &Record) -> impl Iterator<Item = (&NodeSpec, &HostRecord, &Interface)> {
    places(record).flat_map(|(node, host)| {
        let ports = host.rails.iter().filter_map(|rail| host.interface_of(rail));
        ports.map(move |port| (node, host, port))
    })
}

/// Settings that cost rate, each with its hosts.
fn costs(record: &Record) -> Vec<String> {
    let all = data_ports(record).flat_map(|(node, host, port)| {
        let costs = tuning::foreseen(port, host.facts.cores).into_iter();
        costs.map(|cost| (cost.to_string(), node.host.clone()))
    });
    with_hosts("costs", all)
}

/// Settings of data ports, and of what is below them, with the hosts where they are equal.
fn cards(record: &Record) -> Vec<String> {
    let all = data_ports(record).flat_map(|(node, _, port)| {
        let known = port.tuning.iter().filter_map(card);
        known.map(|card| (card, node.host.clone()))
    });
    with_hosts("card", all)
}

/// A line for each text, with its hosts. Rails over one card name it twice.
fn with_hosts(name: &str, all: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let line = |(text, hosts): (String, Vec<String>)| {
        let hosts = fold(&each_once(hosts.into_iter()));
        format!("{name:11} {hosts} {text}")
    };
    grouped(all).into_iter().map(line).collect()
}

/// An interface with its settings; `None` if it reports none.
fn card(one: &Tuning) -> Option<String> {
    let of = |room: Room| format!("{} of {}", room.now, room.most);
    let named = |name: &str, room: Option<Room>| Some(format!("{name} {}", of(room?)));
    let coalescing = |way: &str, one: Option<Coalescing>| {
        let one = one?;
        let adaptive = if one.adaptive { "adaptive, " } else { "" };
        Some(format!(
            "{way} {adaptive}{} us, {} frames",
            one.wait_us, one.frames
        ))
    };
    let listed = |name: &str, all: &[Option<String>]| {
        let all: Vec<&str> = all.iter().flatten().map(String::as_str).collect();
        (!all.is_empty()).then(|| format!("{name} {}", all.join(", ")))
    };
    let offloads = |all: &[String]| (!all.is_empty()).then(|| all.join(" "));
    let bytes =
        |name: &str, bytes: Option<u32>| Some(format!("{name} {}", show_bytes(bytes?.into())));
    let parts = [
        listed("on", &[offloads(&one.on)]),
        listed("off", &[offloads(&one.off)]),
        listed(
            "largest packet",
            &[
                bytes("sent", one.gso_max_bytes),
                bytes("merged", one.gro_max_bytes),
            ],
        ),
        listed(
            "rings",
            &[named("rx", one.rx_ring), named("tx", one.tx_ring)],
        ),
        listed(
            "queues",
            &[
                named("rx", one.rx_channels),
                named("tx", one.tx_channels),
                named("combined", one.combined_channels),
            ],
        ),
        listed(
            "interrupts",
            &[
                coalescing("rx", one.rx_coalescing),
                coalescing("tx", one.tx_coalescing),
            ],
        ),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{}: {}", one.interface, parts.join("; ")))
}

/// Error counters that increased while links were made.
fn counted(record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    for test in record.tests() {
        for (node, measured) in test.nodes.iter().enumerate() {
            let (Some(measured), Some(host)) = (measured, record.hosts.get(node)) else {
                continue;
            };
            for (name, counters) in of_ports(host, measured) {
                if let Some(moved) = counters.happened(|_| true) {
                    found.push(format!("counters    {} {name}: {moved}", host.node));
                }
            }
        }
    }
    if found.is_empty() {
        let ports = sum(record.hosts.iter().map(|host| host.rails.len() as u64));
        found.push(format!(
            "counters    no errors at {ports} ports while links were made"
        ));
    }
    found
}

/// Counters of the interfaces that are data ports.
fn of_ports<'a>(
    host: &'a HostRecord,
    measured: &'a NodeRecord,
) -> impl Iterator<Item = &'a (String, InterfaceCounters)> {
    let is_port = |name: &String| {
        let mut rails = host.rails.iter();
        rails.any(|rail| rail.interface.as_ref() == Some(name))
    };
    let all = measured.interfaces.iter();
    all.filter(move |(name, _)| is_port(name))
}

fn alike(traits: &[Trait]) -> String {
    let known = traits.iter().filter_map(|one| match &one.groups[..] {
        [(value, _)] if !value.is_empty() => Some(format!("{} {value}", one.name)),
        _ => None,
    });
    let known: Vec<String> = known.collect();
    match known.is_empty() {
        true => "nothing".to_owned(),
        false => known.join("; "),
    }
}

/// Error counters that data ports do not report, each with its hosts: an event that is not counted is not zero.
pub fn untold(record: &Record) -> Vec<String> {
    let untold = first_nodes(&record.hosts).flat_map(|(node, host)| {
        let tests = record.tests().iter();
        let measured = tests.flat_map(|test| test.nodes.get(node)).flatten().next();
        let ports = measured.into_iter().flat_map(|one| of_ports(host, one));
        let untold = each_once(ports.flat_map(|(_, counters)| counters.untold())).into_iter();
        untold.map(move |counter| (counter, host.node.clone()))
    });
    let text = |(counter, hosts): (&str, Vec<String>)| format!("{counter} ({})", fold(&hosts));
    grouped(untold).into_iter().map(text).collect()
}

/// Traits that no host reported, counters that some do not report, and facts that hosts cannot see.
fn unseen(record: &Record, traits: &[Trait]) -> String {
    let silent = traits
        .iter()
        .filter(|one| matches!(&one.groups[..], [(value, _)] if value.is_empty()));
    let mut all: Vec<String> = silent.map(|one| one.name.clone()).collect();
    all.extend(untold(record));
    // A node of several rails has its switch ports on the sheet, as far as its host hears them.
    let hears_all = |host: &HostRecord| host.rails.len() > 1 && host.heard().all(|at| at.is_some());
    let unplaced = places(record).filter(|(node, host)| node.place().is_none() && !hears_all(host));
    let unplaced: Vec<String> = unplaced.map(|(node, _)| node.host.clone()).collect();
    if !unplaced.is_empty() {
        all.push(format!("switch ports without LLDP ({})", fold(&unplaced)));
    }
    all.push("optics and modules (need root)".to_owned());
    all.push("the switch's own counters".to_owned());
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Missing, SwitchPort, TroubleKind};
    use crate::report::{header, json};

    #[test]
    fn equal_cards_have_one_line_and_what_costs_rate_is_named_with_its_command() {
        let sound = include_str!("../../tests/golden/acceptance/record.json");
        let mut record = json::read(sound).unwrap();
        // A record of before has none, and lines of nothing are not printed.
        assert_eq!((cards(&record), costs(&record)), (vec![], vec![]));
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
        for (node, host) in record.hosts.iter_mut().enumerate() {
            let data = host.rails[0].interface.clone();
            let mut interfaces = host.facts.interfaces.iter_mut();
            let data = interfaces
                .find(|one| Some(&one.name) == data.as_ref())
                .unwrap();
            let (on, off): (&[&str], &[&str]) = match node {
                2 => (&["tx", "tso", "gso"], &["gro", "lro"]),
                _ => (&["tx", "tso", "gso", "gro"], &["lro"]),
            };
            data.speed_mbit = Some(25_000);
            data.tuning = vec![Tuning {
                interface: data.name.clone(),
                device: true,
                on: words(on),
                off: words(off),
                gso_max_bytes: Some(65_536),
                rx_ring: Some(Room {
                    now: 1024,
                    most: 8192,
                }),
                combined_channels: Some(Room { now: 16, most: 63 }),
                rx_coalescing: Some(Coalescing {
                    wait_us: 8,
                    frames: 128,
                    adaptive: true,
                }),
                ..Tuning::default()
            }];
        }
        let rest = "largest packet sent 64 KiB; rings rx 1024 of 8192; queues combined 16 of 63; interrupts rx adaptive, 8 us, 128 frames";
        let lines = [
            format!("card        n[1-2,4] eth0: on tx tso gso gro; off lro; {rest}"),
            format!("card        n3 eth0: on tx tso gso; off gro lro; {rest}"),
        ];
        assert_eq!(cards(&record), lines);
        let line = "costs       n3 eth0: GRO is off (as root: ethtool -K eth0 gro on)";
        assert_eq!(costs(&record), [line]);
        let facts = header::hosts(&record.hosts);
        assert_eq!(facts.matches(" (eth0: GRO is off);").count(), 1, "{facts}");
    }

    #[test]
    fn a_missing_host_is_counted_once() {
        let sound = include_str!("../../tests/golden/acceptance/record.json");
        let mut record = json::read(sound).unwrap();
        assert_eq!(hosts_there(&record), (4, 4));
        // Two nodes of a host that never took part, and a host that was lost when its facts were known.
        record.missing = ["n9#1", "n9#2", "n4"]
            .map(|node| Missing {
                node: node.to_owned(),
                test: 0,
                at_ns: None,
                kind: TroubleKind::Lost,
                what: "lost".to_owned(),
            })
            .to_vec();
        assert_eq!(hosts_there(&record), (3, 5));
    }

    #[test]
    fn two_hosts_that_claim_one_port_are_named_and_so_are_those_without_any() {
        let sound = include_str!("../../tests/golden/acceptance/record.json");
        let mut record = json::read(sound).unwrap();
        assert_eq!(claimed(ports_of(&record)), [""; 0]);
        assert!(!unseen(&record, &[]).contains("switch ports"));
        record.plan.nodes[2].switch_port = Some("Eth1/1".to_owned());
        record.plan.nodes[3].switch_port = None;
        let line = "Eth1/1 by n[1,3]: a written name is wrong, or these hosts share the port";
        assert_eq!(claimed(ports_of(&record)), [line]);
        assert!(unseen(&record, &[]).contains("switch ports without LLDP (n4), "));
        // The port of the same number at another switch is another one.
        record.plan.nodes[2].switch = Some("leaf2".to_owned());
        assert_eq!(claimed(ports_of(&record)), [""; 0]);
        // Hosts at one simple switch hear the same port, which is in no plan.
        for (node, host) in record.plan.nodes.iter_mut().zip(&mut record.hosts) {
            (node.switch, node.switch_port) = (None, None);
            let data = host.rails[0].interface.clone();
            let mut interfaces = host.facts.interfaces.iter_mut();
            let data = interfaces.find(|one| Some(&one.name) == data.as_ref());
            data.unwrap().switch_port = Some(SwitchPort {
                switch: "leaf1".to_owned(),
                port: "Eth1/3".to_owned(),
            });
        }
        let line = "leaf1 Eth1/3 by n[1-4]: a written name is wrong, or these hosts share the port";
        assert_eq!(claimed(ports_of(&record)), [line]);
        assert!(unseen(&record, &[]).contains("switch ports without LLDP (n[1-4]), "));
    }
}
