//! Turns host lists and host files into hosts for the launcher and nodes of the plan.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use launcher::hosts::{self, Host};

use crate::plan::NodeSpec;
use crate::plan::fit::{Capacity, flows_of};
use crate::store::bounded;
use crate::units;

use super::engine::Engine;
use super::error::{UsageError, refuse};
use crate::cli::args::{HostWords, Launch, Sockets};
use crate::cli::process::{surroundings, variable};

/// Known attributes of a host file, in addition to user, port, nodes and slots.
const ATTRIBUTES: [&str; 6] = ["data", "speed", "mtu", "switch", "switchport", "group"];

/// Says that no hosts are named, given whether this process runs in a job.
fn no_hosts(in_job: bool) -> String {
    let hint = if in_job { "auto" } else { "local:3" };
    format!("no hosts: name them with --hosts or --hostfile (try --hosts {hint})")
}

/// MTUs that a port can have, in bytes.
pub(super) const MTUS: std::ops::RangeInclusive<u32> = 576..=65_535;

/// The named hosts without the excluded ones, and what starts their nodes. Without an engine that starts a node on it,
/// the launching host needs no remote shell and becomes local.
pub(crate) fn hosts_of(
    words: &HostWords,
    launch: &Launch,
) -> Result<(Vec<Host>, Engine), UsageError> {
    let mut left = named(words)?;
    if let Some(pattern) = &words.exclude {
        left = hosts::exclude(left, pattern).map_err(|error| UsageError::of("--exclude", error))?;
    }
    if left.is_empty() {
        return refuse(match words.exclude {
            Some(_) => "no hosts are left after --exclude".to_owned(),
            None => no_hosts(hosts::in_job(&variable)),
        });
    }
    if let Some(count) = launch.awaited.map(usize::from)
        && words.are_given()
        && count != left.len()
    {
        let listed = left.len();
        return refuse(format!(
            "--await {count}: the host list names {listed} (write --await {listed})"
        ));
    }
    let own = own_names();
    let is_own = |host: &Host| {
        host.local || host.user.is_none() && host.port.is_none() && own.contains(&host.name)
    };
    let engine = Engine::of(words, launch, left.iter().all(is_own), surroundings());
    if engine.spares_own_host(launch) {
        for host in &mut left {
            // The launching host can be in the list. It needs no SSH to itself.
            host.local = is_own(host);
        }
    }
    Ok((left, engine))
}

/// Hosts from the lines of a host file.
pub(crate) fn host_lines(text: &str) -> Result<Vec<Host>, UsageError> {
    hosts::hostfile(text, &ATTRIBUTES).map_err(|error| UsageError::of("--hostfile", error))
}

/// Hosts from a list, a file, or the lines of a plan file.
fn named(words: &HostWords) -> Result<Vec<Host>, UsageError> {
    if let Some(lines) = &words.lines {
        return host_lines(lines);
    }
    let joined = words.joined.iter().map(|name| Host {
        name: name.clone(),
        ..Host::default()
    });
    if !words.are_given() && !words.joined.is_empty() {
        return Ok(joined.collect());
    }
    match (words.list.as_deref(), words.file.as_deref()) {
        (Some("auto"), _) => {
            let read = |path: &str| {
                bounded::given(Path::new(path), bounded::TEXT_BYTES)
                    .map_err(|error| std::io::Error::other(crate::sys::why(&error)))
            };
            let job = hosts::from_environment(&variable, &read)
                .map_err(|error| UsageError::of("--hosts auto", error))?;
            Ok(job.hosts)
        }
        (Some(list), _) => {
            hosts::parse_typed(list).map_err(|error| UsageError::of("--hosts", error))
        }
        (None, Some(path)) => {
            let text = bounded::given(path, bounded::TEXT_BYTES).map_err(|error| {
                let why = crate::sys::why(&error);
                UsageError::Value(format!("cannot read {}: {why}", path.display()))
            })?;
            host_lines(&text)
        }
        (None, None) => refuse(no_hosts(hosts::in_job(&variable))),
    }
}

fn own_names() -> Vec<String> {
    let Ok(names) = nix::sys::utsname::uname() else {
        return Vec::new();
    };
    let full = names.nodename().to_string_lossy().into_owned();
    let short = full.split('.').next().unwrap_or_default().to_owned();
    // Slurm can have another name for a host than the host itself.
    let of_slurm = variable("SLURMD_NODENAME");
    let names = [full, short].into_iter().chain(of_slurm);
    names.filter(|name| !name.is_empty()).collect()
}

/// Nodes of the hosts. Their labels are the names; a name that occurs several times gets numbers.
pub(crate) fn nodes_of(hosts: &[Host]) -> Result<Vec<NodeSpec>, UsageError> {
    let mut totals: HashMap<&str, usize> = HashMap::new();
    for host in hosts {
        *totals.entry(&host.name).or_default() += 1;
    }
    let mut ports: HashMap<(&str, Option<&String>), &Host> = HashMap::new();
    for host in hosts {
        let first = *ports
            .entry((&host.name, host.attributes.get("data")))
            .or_insert(host);
        let differs = |name: &&&str| first.attributes.get(**name) != host.attributes.get(**name);
        if let Some(name) = ATTRIBUTES.iter().find(differs) {
            return refuse(format!(
                "--hostfile: host {}: two lines for one port differ in {name}= (lines for two ports need data=)",
                host.name
            ));
        }
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    hosts
        .iter()
        .map(|host| {
            let number = seen.entry(&host.name).or_default();
            *number += 1;
            let label = match (totals[host.name.as_str()], host.name.as_str()) {
                (1, name) => name.to_owned(),
                (_, "local") => format!("local{number}"),
                (_, name) => format!("{name}#{number}"),
            };
            node_of(host, label)
        })
        .collect()
}

fn node_of(host: &Host, label: String) -> Result<NodeSpec, UsageError> {
    let attribute = |name: &str| host.attributes.get(name).cloned();
    let wrong = |what: String| UsageError::Value(format!("--hostfile: host {}: {what}", host.name));
    let data = attribute("data").unwrap_or_default();
    let addresses = data.split(',').filter(|text| !text.is_empty());
    let data: Result<Vec<IpAddr>, UsageError> = addresses
        .map(|text| {
            let fault = || {
                wrong(format!(
                    "data={text} is not an address (write data=10.1.0.7)"
                ))
            };
            text.parse().map_err(|_| fault())
        })
        .collect();
    let speed = attribute("speed")
        .map(|text| units::parse_rate_bits(&text))
        .transpose()
        .map_err(|error| wrong(format!("speed=: {error}")))?;
    let mtu = attribute("mtu")
        .map(|text| {
            let mtu = text.parse::<u32>().ok();
            let (least, most) = MTUS.into_inner();
            mtu.filter(|mtu| MTUS.contains(mtu)).ok_or_else(|| {
                wrong(format!(
                    "mtu={text}: write a number of bytes from {least} to {most}"
                ))
            })
        })
        .transpose()?;
    Ok(NodeSpec {
        label,
        host: host.name.clone(),
        local: host.local,
        data: data?,
        speed_bits_per_s: speed,
        mtu_bytes: mtu,
        switch: attribute("switch"),
        switch_port: attribute("switchport"),
        group: attribute("group"),
    })
}

/// Number of data ports of each host in the run. All hosts must have the same number.
pub(super) fn rails_of(sockets: &Sockets, nodes: &[NodeSpec]) -> Result<usize, UsageError> {
    let words = sockets.data_network.len().max(sockets.interface.len());
    let most = nodes.iter().map(|node| node.data.len()).max().unwrap_or(0);
    let rails = words.max(most).max(1);
    let short = nodes.iter().find(|node| match node.data.len() {
        0 => words != rails && rails > 1,
        given => given != rails,
    });
    match short {
        None => Ok(rails),
        Some(node) => Err(UsageError::Value(format!(
            "host {}: {} of {rails} rails have an address (give each host {rails} in data=, or name {rails} networks in \
             --data-network)",
            node.label,
            node.data
                .len()
                .max(if node.data.is_empty() { words } else { 0 })
        ))),
    }
}

/// Capacities of the nodes' hosts, as far as known before the first contact with them.
pub(super) fn capacities_of(nodes: &[NodeSpec], here: &Capacity) -> Vec<Capacity> {
    let mut capacities: Vec<Capacity> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for node in nodes {
        // Without a specified speed, the number of connections is known once the host has reported its ports.
        let speed = node.speed_bits_per_s.map(|speed| speed / 1_000_000);
        let unknown = Capacity {
            name: node.host.clone(),
            flows: speed.map_or(0, |mbit| flows_of(Some(mbit), 0)),
            ..Capacity::default()
        };
        let host = if node.local { here } else { &unknown };
        let name = if node.local { &here.name } else { &node.host };
        let place = *places.entry(name).or_insert(capacities.len());
        match capacities.get_mut(place) {
            Some(known) => known.nodes += 1,
            None => capacities.push(Capacity {
                nodes: 1,
                ..host.clone()
            }),
        }
    }
    capacities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_hosts_is_led_to_auto() {
        assert!(no_hosts(true).ends_with("(try --hosts auto)"));
        assert!(no_hosts(false).ends_with("(try --hosts local:3)"));
    }
}
