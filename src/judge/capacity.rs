//! Resources of hosts, and which hosts cannot fill their ports: what their processors carry by the estimate of their CPU cost, beside the speed of
//! the ports.

use std::collections::BTreeMap;

use launcher::hosts::fold;

use crate::plan::fit::{self, Capacity, HostRates};
use crate::plan::{Datapath, Purpose, RunPlan};
use crate::record::{HostRecord, TestRecord, first_nodes};
use crate::units::sum;

use super::host::nodes_of_hosts;
use super::view::View;

/// Hosts are alike if the slowest fills this share of what the fastest one fills.
const ALIKE: f64 = 0.75;
/// Maximum number of hosts that remarks name.
const MOST: usize = 10;

/// Speed of all data ports of each host in bits per second, by its first node. Hosts with a port of unknown speed are missing.
pub(crate) fn port_speeds(plan: &RunPlan, hosts: &[HostRecord]) -> BTreeMap<usize, u64> {
    let mut speeds: BTreeMap<usize, Option<u64>> = BTreeMap::new();
    for port in &View::unmeasured(plan, hosts).ports {
        let all = speeds.entry(port.node).or_insert(Some(0));
        *all = all
            .zip(port.speed_bits_per_s)
            .map(|(sum, speed)| sum.saturating_add(speed));
    }
    let known = speeds.into_iter();
    known
        .filter_map(|(node, speed)| Some((node, speed?)))
        .collect()
}

/// Rates of each host with an estimate, by its first node.
pub(crate) fn rates(plan: &RunPlan, hosts: &[HostRecord]) -> BTreeMap<usize, HostRates> {
    if hosts.iter().all(|host| host.facts.cost.is_none()) {
        return BTreeMap::new();
    }
    let speeds = port_speeds(plan, hosts);
    let of = |(node, host): (usize, &HostRecord)| {
        let cost = host.facts.cost?;
        let cost = [cost.copies_ns_per_gb, cost.pages_ns_per_gb];
        let rates = HostRates::of(*speeds.get(&node)?, host.facts.cores, cost);
        Some((node, rates))
    };
    first_nodes(hosts).filter_map(of).collect()
}

/// Resources of all hosts, from which open parameters follow.
pub(crate) fn of_hosts(plan: &RunPlan, hosts: &[HostRecord]) -> Vec<Capacity> {
    let nodes = nodes_of_hosts(hosts);
    let rates = rates(plan, hosts);
    let of = |(node, host): (usize, &HostRecord)| Capacity {
        name: host.facts.hostname.clone(),
        nodes: nodes[node].len(),
        processors: Some(host.facts.cores),
        memory_bytes: host.facts.spare_memory_bytes,
        flows: flows_of(host),
        bbr: host.facts.congestion.starts_with("bbr"),
        rates: rates.get(&node).copied(),
    };
    first_nodes(hosts).map(of).collect()
}

/// Number of connections that fill each data port of a host, according to its hardware.
fn flows_of(host: &HostRecord) -> usize {
    let ports = host.rails.iter().filter_map(|rail| host.interface_of(rail));
    let physical = ports.filter(|port| port.physical);
    let flows = physical.map(|port| fit::flows_of(port.speed_mbit, port.members.len()));
    flows.max().unwrap_or(0)
}

/// True if a host does not fill its ports with copies, or if hosts are not alike.
fn tells(rates: &BTreeMap<usize, HostRates>) -> bool {
    let copies = || rates.values().map(|one| one.copies as f64);
    let (least, most) = (
        copies().fold(f64::INFINITY, f64::min),
        copies().fold(0.0, f64::max),
    );
    rates.values().any(HostRates::lacks_copies) || least < most * ALIKE
}

/// One line for each set of hosts with equal rates.
pub(crate) fn lines(plan: &RunPlan, hosts: &[HostRecord]) -> Vec<String> {
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, rates) in rates(plan, hosts) {
        let names = by_text.entry(text(&rates)).or_default();
        names.push(plan.nodes[node].host.clone());
    }
    let lines = by_text.into_iter();
    lines
        .map(|(text, names)| format!("{} {text}", fold(&names)))
        .collect()
}

/// The same where a host is foreseen to be the limit, or where hosts are not alike; otherwise nothing.
pub(crate) fn foreseen(plan: &RunPlan, hosts: &[HostRecord]) -> Vec<String> {
    match tells(&rates(plan, hosts)) {
        true => lines(plan, hosts),
        false => Vec::new(),
    }
}

/// The same after a run, for each host with the cost that was measured in the run.
pub(super) fn remarks(plan: &RunPlan, hosts: &[HostRecord], tests: &[TestRecord]) -> Vec<String> {
    let rates = rates(plan, hosts);
    if !tells(&rates) {
        return Vec::new();
    }
    let nodes = nodes_of_hosts(hosts);
    let mut rates: Vec<(usize, HostRates)> = rates.into_iter().collect();
    rates.sort_by_key(|(_, rates)| (!rates.lacks_copies(), rates.copies));
    let remark = |(node, rates): (usize, HostRates)| {
        let estimate = hosts[node].facts.cost?;
        let copies = plan
            .tests()
            .iter()
            .all(|test| test.datapath == Datapath::Copy);
        let estimated_ns = match copies {
            true => estimate.copies_ns_per_gb,
            false => estimate.pages_ns_per_gb,
        };
        let measured = measured_ns_per_gb(plan, tests, &nodes[node]);
        let measured =
            measured.map_or_else(String::new, |ns| format!(", {} in this run", cost(ns)));
        Some(format!(
            "{} {}; a gigabyte costs at least {} CPU seconds (over loopback){measured}",
            plan.nodes[node].host,
            text(&rates),
            cost(estimated_ns as f64),
        ))
    };
    rates.into_iter().take(MOST).filter_map(remark).collect()
}

/// CPU time in nanoseconds that a host spent on each gigabyte which it sent and received under load.
fn measured_ns_per_gb(plan: &RunPlan, tests: &[TestRecord], nodes: &[usize]) -> Option<f64> {
    let loads = tests.iter().filter(|test| {
        let planned = plan.tests().get(test.test);
        planned.is_some_and(|test| test.purpose == Purpose::Load)
    });
    let measured: Vec<_> = loads
        .flat_map(|test| {
            nodes
                .iter()
                .filter_map(|node| test.nodes.get(*node)?.as_ref())
        })
        .collect();
    let cpu_ns = sum(measured.iter().flat_map(|node| {
        let cpu = &node.cpu;
        [cpu.senders_ns, cpu.receivers_ns, cpu.phases_ns, cpu.node_ns]
    }));
    // Bytes that stay on the host are sent and received there.
    let ends = sum(measured.iter().flat_map(|node| {
        let here = node.same_host_bytes;
        [node.sent_bytes, node.received_bytes, here, here]
    }));
    (ends > 0).then(|| cpu_ns as f64 / (ends as f64 / 2.0) * 1e9)
}

fn text(rates: &HostRates) -> String {
    let by = match rates.wants_pages() {
        true => "with --datapath zerocopy",
        false => "without",
    };
    format!(
        "can fill at most about {} Gbit/s with copies, {} {by}; port speed {} Gbit/s",
        about(rates.copies),
        about(rates.pages),
        rates.ports as f64 / 1e9
    )
}

/// Gbit/s with two digits: an estimate has no more, and equal hosts then read alike.
fn about(bits_per_s: u64) -> String {
    let gbit = bits_per_s as f64 / 1e9;
    let step = 10_f64.powf(gbit.max(0.1).log10().floor() - 1.0);
    let decimals = usize::from(gbit < 10.0);
    format!("{:.decimals$}", (gbit / step).round() * step)
}

fn cost(ns_per_gb: f64) -> String {
    format!("{:.3}", ns_per_gb / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{HostCost, Record};

    /// A run of two hosts with ports of 100 Gbit/s and eight cores each, of which a gigabyte takes these CPU times in ns with copies.
    fn run(copies_ns: [u64; 2]) -> Record {
        let text = include_str!("../../tests/golden/two-hosts/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        for node in &mut record.plan.nodes {
            node.speed_bits_per_s = Some(100_000_000_000);
        }
        for (host, ns) in record.hosts.iter_mut().zip(copies_ns) {
            host.facts.cores = 8;
            host.facts.cost = Some(HostCost {
                copies_ns_per_gb: ns,
                pages_ns_per_gb: 400_000_000,
            });
        }
        record
    }

    #[test]
    fn a_host_that_cannot_fill_its_port_is_foreseen_with_both_rates() {
        let of = |copies_ns| {
            let record = run(copies_ns);
            foreseen(&record.plan, &record.hosts)
        };
        assert_eq!(of([500_000_000, 500_000_000]), [""; 0], "128 Gbit/s");
        let slow = of([500_000_000, 1_049_000_000]);
        let [first, second] = &slow[..] else {
            panic!("{slow:?}")
        };
        assert!(
            first.ends_with(
                "can fill at most about 130 Gbit/s with copies, 160 without; port speed 100 Gbit/s"
            ),
            "{first}"
        );
        assert!(second.ends_with("can fill at most about 61 Gbit/s with copies, 160 with --datapath zerocopy; port speed 100 Gbit/s"), "{second}");
        // Hosts that differ are shown, even if each fills its port.
        assert_eq!(of([300_000_000, 500_000_000]).len(), 2);
        let equal = of([1_049_000_000, 1_050_000_000]);
        assert_eq!(equal.len(), 1, "{equal:?}");
    }

    #[test]
    fn hosts_without_an_estimate_or_without_a_known_speed_are_not_foreseen() {
        let mut record = run([1_000_000_000; 2]);
        record.plan.nodes[0].speed_bits_per_s = None;
        let physical = |record: &mut Record, node: usize, is: bool| {
            let all = record.hosts[node].facts.interfaces.iter_mut();
            all.for_each(|one| one.physical = is);
        };
        physical(&mut record, 0, false);
        assert_eq!(rates(&record.plan, &record.hosts).len(), 1);
        record.hosts[1].facts.cost = None;
        assert_eq!(lines(&record.plan, &record.hosts), [""; 0]);
    }

    #[test]
    fn a_run_of_a_slow_host_has_its_cost_by_estimate_and_as_measured() {
        let mut record = run([500_000_000, 1_049_000_000]);
        let crate::record::Outcome::Acceptance(outcome) = &mut record.outcome else {
            panic!("no acceptance")
        };
        for node in outcome
            .tests
            .iter_mut()
            .flat_map(|test| &mut test.nodes)
            .flatten()
        {
            node.cpu = crate::record::RoleCpu {
                senders_ns: 1_000_000_000,
                receivers_ns: 500_000_000,
                ..Default::default()
            };
            (node.sent_bytes, node.received_bytes, node.same_host_bytes) = (1 << 30, 1 << 30, 0);
        }
        let remarks = remarks(&record.plan, &record.hosts, &outcome.tests);
        let slow = &remarks[0];
        assert_eq!(remarks.len(), 2);
        assert!(
            slow.contains(" 61 Gbit/s with copies, 160 with --datapath zerocopy"),
            "{slow}"
        );
        let ends =
            "; a gigabyte costs at least 1.049 CPU seconds (over loopback), 1.397 in this run";
        assert!(slow.ends_with(ends), "{slow}");
    }

    #[test]
    fn estimates_have_two_digits() {
        let of = |bits| about(bits);
        assert_eq!(of(61_060_000_000), "61");
        assert_eq!(of(131_000_000_000), "130");
        assert_eq!(of(7_449_000_000), "7.4");
        assert_eq!(of(0), "0.0");
    }
}
