//! Chooses the addresses that carry the data of each host. They can differ from the addresses that SSH uses.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use crate::plan::{DataNetwork, DataPort, Family, NodeSpec};
use crate::record::{HostFacts, Interface};
use crate::record::{HostRecord, Trouble, TroubleKind};
use crate::sys::socket;

use super::sessions::SeenHost;

/// Chooses the data ports of every node, one per rail. The first of these that exists counts: `data=` of the host file;
/// the networks or interfaces of the plan; loopback if all nodes share one host; the address at which the session
/// arrived, or on this machine the address towards the others; any other address. Fails if no address fits, or if the
/// chosen ones do not fit together.
pub(super) fn choose(
    nodes: &[NodeSpec],
    network: &DataNetwork,
    rails: usize,
    seen: &[SeenHost<'_>],
) -> Result<Vec<Vec<DataPort>>, Trouble> {
    let one_host = is_one_host(seen);
    let remote = remote_of(seen);
    let mut all = Vec::new();
    let mut without: Vec<(&str, String)> = Vec::new();
    for (node, host) in nodes.iter().zip(seen) {
        let of_rail = |rail| -> Result<DataPort, String> {
            let address = address_of(node, network, rail, host, one_host, remote)?;
            let interface = interface_of(host.facts, address);
            let interface = interface.map(|interface| interface.name.clone());
            Ok(DataPort { address, interface })
        };
        match (0..rails).map(of_rail).collect() {
            Ok(rails) => all.push(rails),
            Err(what) => without.push((&node.label, what)),
        }
    }
    if let Some((_, what)) = without.first() {
        // One node can be the cause for another: a node that claims a separate machine takes loopback from all.
        let alike = without.iter().filter(|(_, other)| other == what);
        let labels: Vec<String> = alike.map(|(label, _)| (*label).to_owned()).collect();
        return Err(refusal(&launcher::hosts::fold(&labels), what.clone()));
    }
    check(nodes, &all, one_host)?;
    check_twice(nodes, &all, seen)?;
    Ok(all)
}

/// Notice for nodes whose data addresses are only the first of several: another interface can be meant.
pub(super) fn guessed(
    nodes: &[NodeSpec],
    wanted: &DataNetwork,
    seen: &[SeenHost<'_>],
) -> Option<String> {
    let is_named = !wanted.networks.is_empty() || !wanted.interfaces.is_empty();
    if is_named || is_one_host(seen) {
        return None;
    }
    let remote = remote_of(seen);
    let has_several = |host: &SeenHost<'_>| {
        let fits =
            |(address, _): &(IpAddr, u8)| is_candidate(wanted, *address) && !is_link_local(address);
        let interfaces = host.facts.interfaces.iter();
        interfaces
            .filter(|one| one.addresses.iter().any(fits))
            .count()
            > 1
    };
    let all = nodes.iter().zip(seen).filter(|(node, host)| {
        let is_known = !node.data.is_empty() || session_of(wanted, host, remote).is_some();
        !is_known && has_several(host)
    });
    let labels: Vec<String> = all.map(|(node, _)| node.label.clone()).collect();
    (!labels.is_empty()).then(|| {
        format!(
            "{}: data addresses are a guess, those of the first of several interfaces (name the right one with --data-network)",
            launcher::hosts::fold(&labels)
        )
    })
}

fn is_one_host(seen: &[SeenHost<'_>]) -> bool {
    let mut all = seen.iter();
    all.all(|host| host.facts.identity == seen[0].facts.identity)
}

/// Address of a host other than this machine.
fn remote_of(seen: &[SeenHost<'_>]) -> Option<IpAddr> {
    seen.iter().find(|host| !is_here(host))?.session
}

/// True for a node on this machine. One that joins comes over loopback, where this machine's own name leads to it.
fn is_here(host: &SeenHost<'_>) -> bool {
    host.local || host.session.is_some_and(|address| address.is_loopback())
}

/// Address at which the session arrived, or on this machine the address towards the others, if it can carry data.
fn session_of(wanted: &DataNetwork, host: &SeenHost<'_>, remote: Option<IpAddr>) -> Option<IpAddr> {
    let session = if is_here(host) {
        remote.and_then(|peer| socket::source_towards(peer).ok())
    } else {
        host.session
    };
    session.filter(|address| {
        wanted.family.admits(*address) && interface_of(host.facts, *address).is_some()
    })
}

/// True if an address can carry data when no other is known.
fn is_candidate(wanted: &DataNetwork, address: IpAddr) -> bool {
    !address.is_loopback() && wanted.family.admits(address)
}

/// Failure for a node without a usable address.
fn refusal(node: &str, what: String) -> Trouble {
    Trouble::of_node(TroubleKind::Resource, node, what)
}

/// Refuses a data address that two hosts have.
fn check_twice(
    nodes: &[NodeSpec],
    all: &[Vec<DataPort>],
    seen: &[SeenHost<'_>],
) -> Result<(), Trouble> {
    let mut known: HashMap<IpAddr, usize> = HashMap::new();
    for (node, rails) in all.iter().enumerate() {
        for port in rails.iter().filter(|port| !port.address.is_loopback()) {
            let first = *known.entry(port.address).or_insert(node);
            if seen[first].facts.identity != seen[node].facts.identity {
                let what = format!(
                    "data address {} also belongs to {}: give one of them another address",
                    port.address, nodes[first].label
                );
                return Err(refusal(&nodes[node].label, what));
            }
        }
    }
    Ok(())
}

/// Addresses, by rail, whose hardware addresses a node reports: those of the next hosts, so that several nodes check each address.
pub(super) fn to_ask_for(hosts: &[HostRecord], node: usize) -> Vec<Vec<IpAddr>> {
    const ASKED_BY: usize = 8;
    let own = &hosts[node];
    let next = (1..hosts.len()).map(|by| &hosts[(node + by) % hosts.len()]);
    let others = next.filter(|other| other.host_index != own.host_index);
    let others: Vec<&HostRecord> = others.take(ASKED_BY).collect();
    let of_rail = |rail: usize| {
        let ports = others.iter().filter_map(|other| other.rails.get(rail));
        ports.map(|port| port.address).collect()
    };
    (0..own.rails.len()).map(of_rail).collect()
}

/// Failure if another machine answers for the data address of a host of the run. A machine that answers for several addresses does so
/// on purpose, as routers and clouds do.
pub(super) fn stranger(hosts: &[HostRecord], seen: &[&[(IpAddr, String)]]) -> Option<Trouble> {
    let mut answers: HashMap<&str, BTreeSet<IpAddr>> = HashMap::new();
    for (address, hardware) in seen.iter().copied().flatten() {
        answers.entry(hardware).or_default().insert(*address);
    }
    let mut owners: HashMap<IpAddr, &HostRecord> = HashMap::new();
    for host in hosts {
        for rail in &host.rails {
            owners.entry(rail.address).or_insert(host);
        }
    }
    let sightings = seen.iter().zip(hosts);
    let mut sightings = sightings.flat_map(|(seen, by)| seen.iter().map(move |one| (one, by)));
    sightings.find_map(|((address, hardware), by)| {
        let owner = *owners.get(address)?;
        let interface = interface_of(&owner.facts, *address)?;
        let own = interface.hardware.as_deref()?;
        let is = |interface: &Interface| interface.hardware.as_deref() == Some(hardware);
        let is_own = owner.facts.interfaces.iter().any(is) || interface.members.len() > 1;
        let alone = answers.get(hardware.as_str()).is_some_and(|all| all.len() == 1);
        if is_own || !alone {
            return None;
        }
        let other = hosts.iter().find(|host| host.facts.interfaces.iter().any(is));
        let other = other.map_or("another machine", |host| host.node.as_str());
        let what = format!(
            "two machines have data address {address}: {} has it on {} ({own}), but {} gets its answer from {other} ({hardware})",
            owner.node, interface.name, by.node
        );
        Some(refusal(&owner.node, what))
    })
}

fn address_of(
    node: &NodeSpec,
    wanted: &DataNetwork,
    rail: usize,
    host: &SeenHost<'_>,
    one_host: bool,
    remote: Option<IpAddr>,
) -> Result<IpAddr, String> {
    let lacks = |what: String| format!("{what} ({})", listing(host.facts));
    if let Some(address) = node.data.get(rail).copied() {
        return match interface_of(host.facts, address) {
            Some(_) => Ok(address),
            None => Err(lacks(format!("data address {address} is on no interface"))),
        };
    }
    if let Some((network, prefix)) = wanted.networks.get(rail).copied() {
        return find(host.facts, |_, address| {
            wanted.family.admits(address) && in_network(address, network, prefix)
        })
        .ok_or_else(|| lacks(format!("no address in --data-network {network}/{prefix}")));
    }
    if let Some(name) = wanted.interfaces.get(rail) {
        return find(host.facts, |interface, address| {
            interface.name == *name && wanted.family.admits(address)
        })
        .ok_or_else(|| lacks(format!("no address on --interface {name}")));
    }
    if one_host {
        return Ok(match wanted.family {
            Family::V6 => std::net::Ipv6Addr::LOCALHOST.into(),
            Family::Any | Family::V4 => std::net::Ipv4Addr::LOCALHOST.into(),
        });
    }
    session_of(wanted, host, remote)
        .or_else(|| find(host.facts, |_, address| is_candidate(wanted, address)))
        .ok_or_else(|| {
            format!(
                "no address for data ({}; name one with --data-network)",
                listing(host.facts)
            )
        })
}

/// The first address that `fits`. Link-local addresses come last, since they need a scope.
fn find(facts: &HostFacts, fits: impl Fn(&Interface, IpAddr) -> bool) -> Option<IpAddr> {
    let all = facts.interfaces.iter().flat_map(|interface| {
        interface
            .addresses
            .iter()
            .map(move |(address, _)| (interface, *address))
    });
    all.filter(|(interface, address)| fits(interface, *address))
        .map(|(_, address)| address)
        .min_by_key(is_link_local)
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn interface_of(facts: &HostFacts, address: IpAddr) -> Option<&Interface> {
    facts.interfaces.iter().find(|interface| {
        interface.addresses.iter().any(|(own, prefix)| {
            *own == address || (own.is_loopback() && in_network(address, *own, *prefix))
        })
    })
}

/// True if an address lies in the network with the first `prefix` bits of `network`.
pub(super) fn in_network(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let shifted = |bits: u128, width: u32| {
        let drop = width.saturating_sub(u32::from(prefix));
        bits.checked_shr(drop).unwrap_or(0)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            shifted(u128::from(a.to_bits()), 32) == shifted(u128::from(n.to_bits()), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => shifted(a.to_bits(), 128) == shifted(n.to_bits(), 128),
        _ => false,
    }
}

fn listing(facts: &HostFacts) -> String {
    let entry = |interface: &Interface| {
        let addresses: Vec<String> = interface
            .addresses
            .iter()
            .map(|(address, prefix)| format!("{address}/{prefix}"))
            .collect();
        format!("{} {}", interface.name, addresses.join(" "))
    };
    let all: Vec<String> = facts.interfaces.iter().map(entry).collect();
    format!("it has {}", all.join(", "))
}

fn check(nodes: &[NodeSpec], all: &[Vec<DataPort>], one_host: bool) -> Result<(), Trouble> {
    for (node, rails) in nodes.iter().zip(all) {
        for (rail, port) in rails.iter().enumerate() {
            check_port(node, port, rails, one_host)?;
            let (first, second) = (&all[0][rail].address, &port.address);
            if first.is_ipv4() != second.is_ipv4() {
                let what = format!(
                    "data addresses {first} of {} and {second} are IPv4 and IPv6 (use -4 or -6)",
                    nodes[0].label
                );
                return Err(refusal(&node.label, what));
            }
        }
    }
    Ok(())
}

fn check_port(
    node: &NodeSpec,
    port: &DataPort,
    rails: &[DataPort],
    one_host: bool,
) -> Result<(), Trouble> {
    let refuse = |what: String| Err(refusal(&node.label, what));
    if port.address.is_loopback() && !one_host {
        return refuse(format!(
            "data address {} is a loopback address (use --data-network or --interface)",
            port.address
        ));
    }
    let sharing = rails
        .iter()
        .filter(|other| other.interface == port.interface);
    if port.interface.is_some() && sharing.count() > 1 && !one_host {
        return refuse(format!(
            "two rails use one interface, {} (name different networks or interfaces)",
            port.interface.as_deref().unwrap_or_default()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::DataNetwork;

    fn facts(identity: &str, addresses: &[(&str, &str)]) -> HostFacts {
        let mut interfaces = vec![Interface {
            name: "lo".into(),
            addresses: vec![("127.0.0.1".parse().unwrap(), 8)],
            ..Interface::default()
        }];
        for (name, address) in addresses {
            let addresses = vec![(address.parse().unwrap(), 24)];
            interfaces.push(Interface {
                name: (*name).into(),
                addresses,
                ..Interface::default()
            });
        }
        HostFacts {
            identity: identity.into(),
            interfaces,
            ..HostFacts::default()
        }
    }

    fn node(label: &str) -> NodeSpec {
        NodeSpec {
            label: label.into(),
            ..NodeSpec::default()
        }
    }

    fn chosen(
        network: DataNetwork,
        nodes: &[NodeSpec],
        all: &[HostFacts],
    ) -> Result<Vec<String>, String> {
        let rails = network
            .networks
            .len()
            .max(network.interfaces.len())
            .max(nodes[0].data.len())
            .max(1);
        let seen: Vec<SeenHost<'_>> = all
            .iter()
            .map(|facts| SeenHost {
                facts,
                session: facts.interfaces.get(1).map(|first| first.addresses[0].0),
                local: false,
            })
            .collect();
        match choose(nodes, &network, rails, &seen) {
            Ok(all) => Ok(all
                .iter()
                .map(|rails| {
                    let names: Vec<String> =
                        rails.iter().map(|port| port.address.to_string()).collect();
                    names.join("+")
                })
                .collect()),
            Err(trouble) => Err(format!("{}: {}", trouble.node, trouble.text())),
        }
    }

    /// Symptom: over srun and kubectl, data went over docker0 or the management network, and nothing said that it was a guess.
    #[test]
    fn an_address_that_is_the_first_of_several_is_said_to_be_a_guess() {
        let one = facts("a", &[("eth0", "10.0.0.1")]);
        let two = facts("b", &[("docker0", "172.17.0.1"), ("eth0", "10.0.0.2")]);
        let nodes = [node("n1"), node("n2")];
        let said = |network: DataNetwork, session: Option<&str>| {
            let session = session.map(|address| address.parse().unwrap());
            let seen = [&one, &two].map(|facts| SeenHost {
                facts,
                session,
                local: false,
            });
            guessed(&nodes, &network, &seen)
        };
        let text = said(DataNetwork::default(), None).unwrap();
        assert!(text.starts_with("n2: data addresses are a guess"), "{text}");
        // The session did not arrive at an interface of either host, as with an address that is translated.
        assert_eq!(said(DataNetwork::default(), Some("192.0.2.1")), Some(text));
        assert_eq!(said(DataNetwork::default(), Some("10.0.0.2")), None);
        let by_name = DataNetwork {
            interfaces: vec!["eth0".into()],
            ..DataNetwork::default()
        };
        assert_eq!(said(by_name, None), None);
    }

    #[test]
    fn each_way_of_naming_the_data_network_is_followed() {
        let all = [
            facts("a", &[("eth0", "10.0.0.1"), ("ib0", "10.9.0.1")]),
            facts("b", &[("eth0", "10.0.0.2"), ("ib0", "10.9.0.2")]),
        ];
        let nodes = [node("n1"), node("n2")];
        let by_network = DataNetwork {
            networks: vec![("10.9.0.0".parse().unwrap(), 16)],
            ..DataNetwork::default()
        };
        assert_eq!(
            chosen(by_network, &nodes, &all).unwrap(),
            ["10.9.0.1", "10.9.0.2"]
        );
        let by_name = DataNetwork {
            interfaces: vec!["ib0".into()],
            ..DataNetwork::default()
        };
        assert_eq!(
            chosen(by_name, &nodes, &all).unwrap(),
            ["10.9.0.1", "10.9.0.2"]
        );
        assert_eq!(
            chosen(DataNetwork::default(), &nodes, &all).unwrap(),
            ["10.0.0.1", "10.0.0.2"]
        );
        let given = [
            NodeSpec {
                data: vec!["10.9.0.1".parse().unwrap()],
                ..node("n1")
            },
            node("n2"),
        ];
        assert_eq!(
            chosen(DataNetwork::default(), &given, &all).unwrap(),
            ["10.9.0.1", "10.0.0.2"]
        );
    }

    /// Symptom: in a job of Slurm the node on the launching host joined over loopback, since Debian's /etc/hosts leads a
    /// host's own name there, and the run ended with "data address 127.0.0.1 is a loopback address".
    #[test]
    fn a_node_that_joins_over_loopback_has_the_address_towards_the_others() {
        let all = [
            facts("a", &[("eth0", "10.0.0.1")]),
            facts("b", &[("eth0", "10.0.0.2")]),
        ];
        let nodes = [node("n1"), node("n2")];
        let sessions = ["127.0.0.1", "10.0.0.2"].map(|text| text.parse().ok());
        let seen: Vec<SeenHost<'_>> = all
            .iter()
            .zip(sessions)
            .map(|(facts, session)| SeenHost {
                facts,
                session,
                local: false,
            })
            .collect();
        let ports = choose(&nodes, &DataNetwork::default(), 1, &seen).unwrap();
        let addresses: Vec<String> = ports.iter().map(|it| it[0].address.to_string()).collect();
        assert_eq!(addresses, ["10.0.0.1", "10.0.0.2"]);
    }

    /// Regression test: a node that lied about its machine took loopback from all, and only the first honest one was named.
    #[test]
    fn all_nodes_without_an_address_are_named() {
        let nodes = [node("n1"), node("n2"), node("n3")];
        let all = [
            facts("a", &[]),
            facts("b", &[]),
            facts("c", &[("eth0", "10.0.0.3")]),
        ];
        let error = chosen(DataNetwork::default(), &nodes, &all).unwrap_err();
        assert!(error.starts_with("n[1-2]: no address for data"), "{error}");
    }

    #[test]
    fn every_rail_has_a_port_of_its_own() {
        let all = [
            facts("a", &[("ib0", "10.9.0.1"), ("ib1", "10.8.0.1")]),
            facts("b", &[("ib0", "10.9.0.2"), ("ib1", "10.8.0.2")]),
        ];
        let nodes = [node("n1"), node("n2")];
        let rails = |names: [&str; 2]| DataNetwork {
            interfaces: names.map(str::to_owned).to_vec(),
            ..DataNetwork::default()
        };
        assert_eq!(
            chosen(rails(["ib0", "ib1"]), &nodes, &all).unwrap(),
            ["10.9.0.1+10.8.0.1", "10.9.0.2+10.8.0.2"]
        );
        let text = chosen(rails(["ib0", "ib0"]), &nodes, &all).unwrap_err();
        assert_eq!(
            text,
            "n1: two rails use one interface, ib0 (name different networks or interfaces)"
        );
    }

    #[test]
    fn nodes_of_one_host_meet_on_loopback() {
        let all = [
            facts("a", &[("eth0", "10.0.0.1")]),
            facts("a", &[("eth0", "10.0.0.1")]),
        ];
        let nodes = [node("n1"), node("n2")];
        assert_eq!(
            chosen(DataNetwork::default(), &nodes, &all).unwrap(),
            ["127.0.0.1", "127.0.0.1"]
        );
        let v6 = DataNetwork {
            family: Family::V6,
            ..DataNetwork::default()
        };
        assert_eq!(chosen(v6, &nodes, &all).unwrap(), ["::1", "::1"]);
    }

    #[test]
    fn what_cannot_be_is_said_with_what_there_is() {
        let all = [
            facts("a", &[("eth0", "10.0.0.1")]),
            facts("b", &[("eth0", "fd00::2")]),
        ];
        let nodes = [node("n1"), node("n2")];
        let network = DataNetwork {
            networks: vec![("10.9.0.0".parse().unwrap(), 16)],
            ..DataNetwork::default()
        };
        let text = chosen(network, &nodes, &all).unwrap_err();
        assert_eq!(
            text,
            "n1: no address in --data-network 10.9.0.0/16 (it has lo 127.0.0.1/8, eth0 10.0.0.1/24)"
        );
        assert!(
            chosen(DataNetwork::default(), &nodes, &all)
                .unwrap_err()
                .contains("are IPv4 and IPv6")
        );
        let lo = DataNetwork {
            interfaces: vec!["lo".into()],
            ..DataNetwork::default()
        };
        assert!(
            chosen(lo, &nodes, &all)
                .unwrap_err()
                .contains("is a loopback address")
        );
        let given = [
            NodeSpec {
                data: vec!["10.8.8.8".parse().unwrap()],
                ..node("n1")
            },
            node("n2"),
        ];
        assert!(
            chosen(DataNetwork::default(), &given, &all)
                .unwrap_err()
                .contains("is on no interface")
        );
        let none = DataNetwork {
            interfaces: vec!["ib7".into()],
            ..DataNetwork::default()
        };
        assert!(
            chosen(none, &nodes, &all)
                .unwrap_err()
                .contains("no address on --interface ib7")
        );
    }

    #[test]
    fn networks_are_compared_by_their_prefix() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(in_network(ip("10.1.2.3"), ip("10.1.0.0"), 16));
        assert!(!in_network(ip("10.2.2.3"), ip("10.1.0.0"), 16));
        assert!(in_network(ip("10.2.2.3"), ip("0.0.0.0"), 0));
        assert!(in_network(ip("fd00::1"), ip("fd00::"), 64));
        assert!(!in_network(ip("fd00::1"), ip("10.0.0.0"), 8));
        assert!(in_network(ip("::1"), ip("::1"), 128));
    }
}
