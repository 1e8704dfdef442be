//! Compares speed and MTU of each data port with the specified ones before data flows.

use std::collections::BTreeMap;

use crate::plan::RunPlan;
use crate::record::{HostRecord, Interface, first_nodes};

/// One sentence for each port that differs from what was specified, or from the other ports where nothing was.
pub(crate) fn check(plan: &RunPlan, hosts: &[HostRecord]) -> Vec<String> {
    let ports = ports(plan, hosts);
    let mut findings = Vec::new();
    for port in &ports {
        let negotiated = port
            .interface
            .speed_mbit
            .filter(|_| port.interface.physical);
        if let (Some(ordered), Some(mbit)) = (port.ordered, negotiated) {
            let there = mbit.saturating_mul(1_000_000);
            if there < ordered {
                findings.push(format!(
                    "{} negotiated {}, {} specified",
                    port.label,
                    gbit(there),
                    gbit(ordered)
                ));
            }
        }
        let mtu = port.interface.mtu_bytes;
        let other = port.ordered_mtu.filter(|ordered| *ordered != mtu);
        if let Some(ordered) = other.filter(|_| mtu > 0) {
            findings.push(format!("{} has MTU {mtu}, {ordered} specified", port.label));
        }
    }
    let speed = |port: &DataPort<'_>| match port.ordered {
        None if port.interface.physical => port.interface.speed_mbit,
        _ => None,
    };
    findings.extend(odd_ones(&ports, speed, |port, own, usual| {
        format!(
            "{} negotiated {}, the others {} (write speed= in the host file if that is its specified speed)",
            port.label,
            gbit(own * 1_000_000),
            gbit(usual * 1_000_000)
        )
    }));
    if plan.criteria.mtu_bytes.is_none() {
        // A port with a specified MTU is never odd.
        let mtu = |port: &DataPort<'_>| {
            let own = u64::from(port.interface.mtu_bytes);
            (own > 0 && port.ordered_mtu.is_none()).then_some(own)
        };
        findings.extend(odd_ones(&ports, mtu, |port, own, usual| {
            format!(
                "{} has MTU {own}, the others {usual} (write mtu= in the host file if that is its specified MTU, or --mtu for all)",
                port.label
            )
        }));
    }
    findings
}

/// A data port with its known properties.
struct DataPort<'a> {
    label: String,
    rail: usize,
    ordered: Option<u64>,
    ordered_mtu: Option<u32>,
    interface: &'a Interface,
}

fn ports<'a>(plan: &RunPlan, hosts: &'a [HostRecord]) -> Vec<DataPort<'a>> {
    let ports = first_nodes(hosts).flat_map(|(node, host)| {
        let spec = &plan.nodes[node];
        let rails = host.rails.iter().enumerate();
        rails.filter_map(move |(rail, port)| {
            let interface = host.interface_of(port)?;
            Some(DataPort {
                label: format!("{} {}", spec.label, interface.name),
                rail,
                ordered: spec.speed_bits_per_s,
                ordered_mtu: spec.mtu_bytes.or(plan.criteria.mtu_bytes),
                interface,
            })
        })
    });
    ports.collect()
}

/// Ports whose figure differs from that of most ports of the same rail. With fewer than three ports, none is odd.
fn odd_ones(
    ports: &[DataPort<'_>],
    figure: impl Fn(&DataPort<'_>) -> Option<u64>,
    say: impl Fn(&DataPort<'_>, u64, u64) -> String,
) -> Vec<String> {
    const LEAST: usize = 3;
    let rails = ports.iter().map(|port| port.rail + 1).max().unwrap_or(0);
    let mut odd = Vec::new();
    for rail in 0..rails {
        let own: Vec<(&DataPort<'_>, u64)> = ports
            .iter()
            .filter(|port| port.rail == rail)
            .filter_map(|port| Some((port, figure(port)?)))
            .collect();
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, figure) in &own {
            *counts.entry(*figure).or_default() += 1;
        }
        let usual = counts.iter().max_by_key(|(_, count)| **count);
        let Some((usual, _)) =
            usual.filter(|(_, count)| own.len() >= LEAST && **count * 2 > own.len())
        else {
            continue;
        };
        let others = own.iter().filter(|(_, figure)| figure != usual);
        odd.extend(others.map(|(port, figure)| say(port, *figure, *usual)));
    }
    odd
}

fn gbit(bits_per_s: u64) -> String {
    format!("{} Gbit/s", bits_per_s as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::{plan_of, test_of};
    use crate::plan::{DataPort as Rail, NodeSpec};
    use std::net::IpAddr;

    /// Findings for ports with a specified speed in bit/s, a negotiated one in Mbit/s and an MTU.
    fn findings(ports: &[(Option<u64>, u64, u32)], mtu_bytes: Option<u32>) -> Vec<String> {
        check_with(ports, &[], mtu_bytes)
    }

    /// The same, with MTUs specified for single ports.
    fn check_with(
        ports: &[(Option<u64>, u64, u32)],
        own_mtus: &[Option<u32>],
        mtu_bytes: Option<u32>,
    ) -> Vec<String> {
        let node = |(at, port): (usize, &(Option<u64>, u64, u32))| NodeSpec {
            label: format!("n{}", at + 1),
            speed_bits_per_s: port.0,
            mtu_bytes: own_mtus.get(at).copied().flatten(),
            ..NodeSpec::default()
        };
        let mut plan = plan_of(ports.iter().enumerate().map(node).collect(), test_of(2, 1));
        plan.criteria.mtu_bytes = mtu_bytes;
        let host = |(at, port): (usize, &(Option<u64>, u64, u32))| HostRecord {
            node: format!("n{}", at + 1),
            transport: String::new(),
            rails: vec![Rail {
                address: IpAddr::from([10, 0, 0, 1]),
                interface: Some("eth1".to_owned()),
            }],
            host_index: at,
            facts: crate::record::HostFacts {
                interfaces: vec![Interface {
                    name: "eth1".to_owned(),
                    mtu_bytes: port.2,
                    speed_mbit: Some(port.1),
                    physical: true,
                    ..Interface::default()
                }],
                ..Default::default()
            },
        };
        let hosts: Vec<HostRecord> = ports.iter().enumerate().map(host).collect();
        check(&plan, &hosts)
    }

    #[test]
    fn a_port_that_negotiated_less_than_ordered_or_differs_is_found_before_a_byte_flows() {
        let g25 = Some(25_000_000_000);
        assert!(findings(&[(g25, 25_000, 9000), (g25, 25_000, 9000)], Some(9000)).is_empty());
        assert_eq!(
            findings(&[(g25, 10_000, 9000), (g25, 25_000, 1500)], Some(9000)),
            [
                "n1 eth1 negotiated 10 Gbit/s, 25 Gbit/s specified",
                "n2 eth1 has MTU 1500, 9000 specified"
            ]
        );
        assert_eq!(
            findings(
                &[
                    (None, 25_000, 9000),
                    (None, 10_000, 9000),
                    (None, 25_000, 9000)
                ],
                None
            ),
            [
                "n2 eth1 negotiated 10 Gbit/s, the others 25 Gbit/s (write speed= in the host file if that is its specified speed)"
            ]
        );
        assert_eq!(
            findings(
                &[
                    (None, 25_000, 9000),
                    (None, 25_000, 9000),
                    (None, 25_000, 1500)
                ],
                None
            ),
            [
                "n3 eth1 has MTU 1500, the others 9000 (write mtu= in the host file if that is its specified MTU, or --mtu for all)"
            ]
        );
        // The host file has the speed of a port that is slow on purpose. Of two ports, none is odd.
        let slow = Some(10_000_000_000);
        assert!(
            findings(
                &[
                    (None, 25_000, 1500),
                    (slow, 10_000, 1500),
                    (None, 25_000, 1500)
                ],
                None
            )
            .is_empty()
        );
        assert!(findings(&[(None, 25_000, 1500), (None, 10_000, 9000)], None).is_empty());
    }

    #[test]
    fn an_mtu_that_was_ordered_for_one_host_goes_before_the_others() {
        let ports = [
            (None, 25_000, 9000),
            (None, 25_000, 1500),
            (None, 25_000, 9000),
        ];
        let small = [None, Some(1500), None];
        assert!(check_with(&ports, &small, None).is_empty());
        assert!(check_with(&ports, &small, Some(9000)).is_empty());
        assert_eq!(
            check_with(&ports, &[Some(1500), Some(1500), None], None),
            ["n1 eth1 has MTU 9000, 1500 specified"]
        );
        assert_eq!(
            check_with(&ports, &[Some(9000), None, None], Some(9000)),
            ["n2 eth1 has MTU 1500, 9000 specified"]
        );
    }
}
