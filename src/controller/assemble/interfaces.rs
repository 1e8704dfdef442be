//! Compares the counters of interfaces with the payload that links moved through them.

use crate::plan::lanes::Lane;
use crate::plan::{RunPlan, Test};
use crate::record::{
    HostRecord, Interface, InterfaceCounters, LinkRecord, NodeReport, WireFinding, first_nodes,
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

/// Bytes that the links between hosts moved through each data interface. Nodes of a host can use different interfaces.
pub(super) struct Loads<'a> {
    test: &'a Test,
    hosts: &'a [HostRecord],
    /// By the first node of the host.
    of_hosts: Vec<Vec<RailLoad>>,
}

impl<'a> Loads<'a> {
    pub(super) fn new(test: &'a Test, hosts: &'a [HostRecord]) -> Self {
        Self {
            test,
            hosts,
            of_hosts: vec![Vec::new(); hosts.len()],
        }
    }

    /// Adds the traffic of a link, if it is one between hosts.
    pub(super) fn add(&mut self, link: &LinkRecord) {
        if !link.crosses_switch {
            return;
        }
        for (node, sends) in [(link.lane.from, true), (link.lane.to, false)] {
            let host = &self.hosts[node];
            let rail = host.rails.get(self.test.rail_of(link.lane.stream));
            let Some(interface) = rail.and_then(|rail| rail.interface.as_ref()) else {
                continue;
            };
            let of_host = &mut self.of_hosts[host.host_index];
            let mut known = of_host.iter();
            let known = known.position(|load| load.interface == *interface);
            let place = known.unwrap_or_else(|| {
                of_host.push(RailLoad {
                    interface: interface.clone(),
                    ..RailLoad::default()
                });
                of_host.len() - 1
            });
            match sends {
                true => bear(&mut of_host[place].sent, link.sent_bytes, link),
                false => bear(&mut of_host[place].received, link.received_bytes, link),
            }
        }
    }

    /// Compares payload with interface counters, host by host. An aborted run has no findings: only one side counted
    /// the data in flight.
    pub(super) fn compare(
        mut self,
        plan: &RunPlan,
        reports: &[Option<&NodeReport>],
        run_ns: u64,
    ) -> Vec<WireFinding> {
        if !reports
            .iter()
            .all(|one| one.is_some_and(|one| one.complete))
        {
            return Vec::new();
        }
        let hosts = self.hosts;
        // By the first node of each host. Nodes of one host read the same counters at slightly different times.
        let mut readings = vec![Vec::new(); hosts.len()];
        for (report, host) in reports.iter().zip(hosts) {
            readings[host.host_index].extend(report.map(|report| &report.interfaces));
        }
        let mut findings = Vec::new();
        for (first, host) in first_nodes(hosts) {
            let readings = &readings[first];
            let merged = [
                merge(readings.iter().map(|reading| &reading[0]), u64::min),
                merge(readings.iter().map(|reading| &reading[1]), u64::max),
            ];
            let rails = &mut self.of_hosts[first];
            add_upper(rails, &host.facts.interfaces);
            let v6 = host
                .rails
                .first()
                .is_some_and(|port| port.address.is_ipv6());
            let label = &plan.nodes[first].label;
            findings.extend(wires::check(
                label,
                rails,
                &passed(&merged),
                wires::header_bytes(v6),
                run_ns,
            ));
        }
        findings
    }
}

/// Adds the traffic of upper interfaces to the loads of a host: an interface below another one, for example below a VLAN, also counts the traffic
/// of the upper one.
fn add_upper(loads: &mut [RailLoad], interfaces: &[Interface]) {
    let above = loads.to_vec();
    for load in loads {
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

/// True if a lane goes from one host to another.
pub(super) fn crosses(hosts: &[HostRecord], lane: &Lane) -> bool {
    hosts[lane.from].host_index != hosts[lane.to].host_index
}
