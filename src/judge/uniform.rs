//! Compares hosts of one class, which should be alike: common properties, and hosts that differ.

use std::collections::BTreeMap;

use crate::plan::RunPlan;
use crate::record::{HostRecord, first_nodes};

/// Minimum number of hosts; among fewer, none is odd.
const LEAST: usize = 3;

/// One property that hosts report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trait {
    /// Name of the property.
    pub name: String,
    /// Values, each with the hosts that report it; most hosts first. An empty text stands for no value.
    pub groups: Vec<(String, Vec<String>)>,
}

impl Trait {
    /// True if all hosts have the same entry.
    pub(crate) fn is_uniform(&self) -> bool {
        self.groups.len() < 2
    }

    /// True if the hosts of a group differ from most of the others.
    pub(crate) fn is_odd(&self, group: usize) -> bool {
        let all: usize = self.groups.iter().map(|(_, hosts)| hosts.len()).sum();
        let most = self.groups.first().map_or(0, |(_, hosts)| hosts.len());
        group > 0 && all >= LEAST && most * 2 > all
    }
}

/// Properties that all hosts should have in common.
pub(crate) fn traits(plan: &RunPlan, hosts: &[HostRecord]) -> Vec<Trait> {
    let mut names: Vec<String> = Vec::new();
    let mut said: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    // A host that never reported is listed as missing, and is not compared.
    let here = first_nodes(hosts).filter(|(_, host)| !host.facts.kernel.is_empty());
    for (node, host) in here {
        let label = plan.nodes.get(node).map_or(&host.node, |node| &node.host);
        for (name, value) in of_host(host) {
            if !names.contains(&name) {
                names.push(name.clone());
            }
            let by_value = said.entry(name).or_default();
            by_value.entry(value).or_default().push(label.clone());
        }
    }
    let one = |name: String| {
        let groups = said.remove(&name).unwrap_or_default();
        let mut groups: Vec<(String, Vec<String>)> = groups.into_iter().collect();
        groups.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
        Trait { name, groups }
    };
    names.into_iter().map(one).collect()
}

fn of_host(host: &HostRecord) -> Vec<(String, String)> {
    let facts = &host.facts;
    let own = [
        ("kernel", facts.kernel.clone()),
        ("architecture", facts.architecture.clone()),
        ("processor", format!("{} x {}", facts.cores, facts.cpu)),
        ("governor", facts.governor.clone().unwrap_or_default()),
        ("congestion control", facts.congestion.clone()),
    ];
    let mut all = Vec::from(own.map(|(name, value)| (name.to_owned(), value)));
    for (rail, port) in host.rails.iter().enumerate() {
        let Some(interface) = host.interface_of(port) else {
            continue;
        };
        let mut add = |what: &str, value: String| {
            let name = match host.rails.len() {
                1 => what.to_owned(),
                _ => format!("{what}, rail {rail}"),
            };
            all.push((name, value));
        };
        add("driver", interface.driver.clone().unwrap_or_default());
        add("firmware", interface.firmware.clone().unwrap_or_default());
        let speed = interface.speed_mbit.filter(|_| interface.physical);
        add(
            "speed",
            speed.map_or_else(String::new, |mbit| format!("{} Gbit/s", mbit as f64 / 1e3)),
        );
        add("MTU", interface.mtu_bytes.to_string());
        let slot = interface.pcie.map(|slot| {
            let rate = slot.mega_transfers_per_s as f64 / 1e3;
            format!("{rate} GT/s x{}", slot.lanes)
        });
        add("PCIe", slot.unwrap_or_default());
    }
    all.extend(facts.settings.iter().cloned());
    all
}

/// Data ports whose link changed state far more often than that of the others: host, interface, number of changes, and usual number.
pub(crate) fn flapping(plan: &RunPlan, hosts: &[HostRecord]) -> Vec<(String, String, u64, u64)> {
    const FEW: u64 = 10;
    const TIMES: u64 = 3;
    let ports: Vec<(String, String, u64)> = first_nodes(hosts)
        .flat_map(|(node, host)| {
            let label = plan.nodes.get(node).map_or(&host.node, |node| &node.host);
            let interfaces = host.rails.iter().filter_map(|rail| host.interface_of(rail));
            interfaces.map(|one| (label.clone(), one.name.clone(), one.carrier_changes))
        })
        .collect();
    let mut counts: Vec<u64> = ports.iter().map(|(_, _, count)| *count).collect();
    counts.sort_unstable();
    let Some(usual) = counts.get(counts.len() / 2).copied() else {
        return Vec::new();
    };
    let often = |count: u64| count > FEW && count > usual.saturating_mul(TIMES);
    let ports = ports.into_iter().filter(|(_, _, count)| often(*count));
    ports
        .map(|(host, name, count)| (host, name, count, usual))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_differs_from_most_is_odd() {
        let group = |value: &str, hosts: &[&str]| {
            (
                value.to_owned(),
                hosts.iter().map(|host| (*host).to_owned()).collect(),
            )
        };
        let of = |groups: Vec<(String, Vec<String>)>| Trait {
            name: "kernel".to_owned(),
            groups,
        };
        let one_of_three = of(vec![group("6.1", &["n1", "n2"]), group("6.2", &["n3"])]);
        assert!(!one_of_three.is_uniform() && one_of_three.is_odd(1) && !one_of_three.is_odd(0));
        let halves = of(vec![
            group("6.1", &["n1", "n2"]),
            group("6.2", &["n3", "n4"]),
        ]);
        assert!(!halves.is_odd(1));
        let two = of(vec![group("6.1", &["n1"]), group("6.2", &["n2"])]);
        assert!(!two.is_odd(1));
    }

    #[test]
    fn a_link_that_comes_and_goes_is_told_beside_those_that_do_not() {
        use crate::plan::DataPort;
        use crate::plan::lanes::tests::{plan_of, test_of};
        use crate::record::{HostFacts, Interface};
        use std::net::IpAddr;
        let node = |name: &str| crate::plan::NodeSpec {
            host: name.to_owned(),
            ..Default::default()
        };
        let plan = plan_of(["n1", "n2", "n3"].map(node).to_vec(), test_of(2, 1));
        let host = |(at, changes): (usize, &u64)| HostRecord {
            node: format!("n{}", at + 1),
            transport: String::new(),
            rails: vec![DataPort {
                address: IpAddr::from([10, 0, 0, 1]),
                interface: Some("eth1".to_owned()),
            }],
            host_index: at,
            facts: HostFacts {
                interfaces: vec![Interface {
                    name: "eth1".to_owned(),
                    carrier_changes: *changes,
                    ..Interface::default()
                }],
                ..HostFacts::default()
            },
        };
        let of = |changes: &[u64]| -> Vec<(String, u64)> {
            let hosts: Vec<HostRecord> = changes.iter().enumerate().map(host).collect();
            let found = flapping(&plan, &hosts).into_iter();
            found.map(|(host, _, count, _)| (host, count)).collect()
        };
        assert_eq!(of(&[2, 2, 40]), [("n3".to_owned(), 40)]);
        // A few more are usual, and so is a number that all ports have.
        assert_eq!(of(&[2, 2, 10]), []);
        assert_eq!(of(&[30, 30, 40]), []);
    }
}
