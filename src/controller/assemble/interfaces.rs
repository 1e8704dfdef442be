//! Compares the counters of interfaces with the payload that links moved through them.

use crate::plan::{RunPlan, Test};
use crate::record::{
    HostRecord, InterfaceCounters, LinkRecord, NodeReport, WireFinding, first_nodes,
};
use crate::stats::wires::{self, Load, RailLoad};
use crate::units::{add, sum};
use crate::wire::block::HEADER_BYTES;

/// Counts of each interface between two readings. An interface that is missing from one reading is left out.
pub(super) fn passed(
    [before, after]: &[Vec<(String, InterfaceCounters)>; 2],
) -> Vec<(String, InterfaceCounters)> {
    let of = |name: &String| before.iter().find(|(other, _)| other == name);
    let both = after.iter().filter_map(|(name, counters)| {
        let (_, before) = of(name)?;
        Some((name.clone(), counters.since(before)))
    });
    both.collect()
}

/// Compares payload with interface counters, host by host. An aborted run has no findings: only one side counted
/// the data in flight.
pub(super) fn wires(
    plan: &RunPlan,
    test: &Test,
    hosts: &[HostRecord],
    reports: &[Option<&NodeReport>],
    links: &[LinkRecord],
    run_ns: u64,
) -> Vec<WireFinding> {
    if !reports
        .iter()
        .all(|one| one.is_some_and(|one| one.complete))
    {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (first, host) in first_nodes(hosts) {
        let on_host = |node: usize| hosts[node].host_index == first;
        // Nodes of one host read the same counters at slightly different times.
        let of_host = reports
            .iter()
            .enumerate()
            .filter(|(node, _)| on_host(*node));
        let readings: Vec<_> = of_host
            .filter_map(|(_, report)| Some(&report.as_ref()?.interfaces))
            .collect();
        let merged = [
            merge(readings.iter().map(|reading| &reading[0]), u64::min),
            merge(readings.iter().map(|reading| &reading[1]), u64::max),
        ];
        let rails = loads(test, hosts, links, &on_host);
        let v6 = host
            .rails
            .first()
            .is_some_and(|port| port.address.is_ipv6());
        let label = &plan.nodes[first].label;
        findings.extend(wires::check(
            label,
            &rails,
            &passed(&merged),
            wires::header_bytes(v6),
            run_ns,
        ));
    }
    findings
}

/// Bytes that the links between hosts moved through each data interface of a host. Nodes of a host can use different interfaces.
fn loads(
    test: &Test,
    hosts: &[HostRecord],
    links: &[LinkRecord],
    on_host: &dyn Fn(usize) -> bool,
) -> Vec<RailLoad> {
    let mut loads: Vec<RailLoad> = Vec::new();
    for link in links.iter().filter(|link| link.crosses_switch) {
        for (node, sends) in [(link.lane.from, true), (link.lane.to, false)] {
            let rail = hosts[node].rails.get(test.rail_of(link.lane.stream));
            let interface = rail.and_then(|rail| rail.interface.as_ref());
            let Some(interface) = interface.filter(|_| on_host(node)) else {
                continue;
            };
            let known = loads.iter().position(|load| load.interface == *interface);
            let place = known.unwrap_or_else(|| {
                loads.push(RailLoad {
                    interface: interface.clone(),
                    ..RailLoad::default()
                });
                loads.len() - 1
            });
            match sends {
                true => bear(&mut loads[place].sent, link.sent_bytes, link),
                false => bear(&mut loads[place].received, link.received_bytes, link),
            }
        }
    }
    // An interface below another one, for example below a VLAN, also counts the traffic of the upper one.
    let facts = hosts.iter().enumerate().find(|(node, _)| on_host(*node));
    let interfaces = facts.map_or(&[][..], |(_, host)| &host.facts.interfaces);
    let above = loads.clone();
    for load in &mut loads {
        for upper in &above {
            let is_below = interfaces
                .iter()
                .any(|one| one.name == upper.interface && one.members.contains(&load.interface));
            if is_below {
                for (own, through) in [
                    (&mut load.sent, upper.sent),
                    (&mut load.received, upper.received),
                ] {
                    add(&mut own.besides_bytes, through.payload_bytes);
                    add(&mut own.besides_bytes, through.besides_bytes);
                }
            }
        }
    }
    loads
}

fn bear(load: &mut Load, payload: u64, link: &LinkRecord) {
    /// Bytes of the hello and of the segment that probes the path.
    const BEFORE_BYTES: u64 = 10_000;
    add(&mut load.payload_bytes, payload);
    let headers = link.blocks.saturating_add(1);
    let headers = headers.saturating_mul(HEADER_BYTES as u64);
    let besides = sum([headers, link.retransmitted_bytes, BEFORE_BYTES].into_iter());
    add(&mut load.besides_bytes, besides);
}

fn merge<'a>(
    readings: impl Iterator<Item = &'a Vec<(String, InterfaceCounters)>>,
    of_two: fn(u64, u64) -> u64,
) -> Vec<(String, InterfaceCounters)> {
    let mut merged: Vec<(String, InterfaceCounters)> = Vec::new();
    for (name, counters) in readings.flatten() {
        match merged.iter_mut().find(|(other, _)| other == name) {
            None => merged.push((name.clone(), *counters)),
            Some((_, known)) => {
                *known = known.with(counters, of_two);
            }
        }
    }
    merged
}
