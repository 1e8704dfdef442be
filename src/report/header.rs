//! Text printed before a run: the options in effect and the facts of the hosts, with equal facts folded.

use crate::judge::{capacity, tuning};
use crate::plan::{DataPort, RunPlan};
use crate::record::HostRecord;

use super::{count, fast_ports, fold, grouped};

/// Options as `key=value`, wrapped so that no terminal breaks the lines again.
pub fn options(options: &[(String, String)]) -> String {
    const WIDTH: usize = 80;
    let mut text = String::new();
    let mut line = "options".to_owned();
    for (name, value) in options {
        let word = format!(" {name}={value}");
        if line.len() + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = "       ".to_owned();
        }
        line.push_str(&word);
    }
    text.push_str(&line);
    text.push('\n');
    text
}

/// One line for each set of hosts with equal facts.
pub fn hosts(hosts: &[HostRecord]) -> String {
    let groups = grouped(hosts.iter().map(|host| (facts(host), host.node.clone()))).into_iter();
    let mut lines: Vec<(Vec<String>, String)> =
        groups.map(|(facts, names)| (names, facts)).collect();
    lines.sort();
    let line = |(names, facts): (Vec<String>, String)| format!("{}: {facts}\n", fold(&names));
    lines.into_iter().map(line).collect()
}

/// Lines on hosts whose processors may not fill their ports, or that are not alike, and on what the run does at fast ports.
pub fn capacities(plan: &RunPlan, hosts: &[HostRecord]) -> String {
    let lines = capacity::foreseen(plan, hosts).into_iter();
    let line = |text| format!("{text} (estimated over loopback, where a gigabyte costs less)\n");
    let ports = fast_ports::lines(plan, hosts).into_iter();
    let ports = ports.map(|text| format!("{text}\n"));
    lines.map(line).chain(ports).collect()
}

fn facts(host: &HostRecord) -> String {
    let ports: Vec<String> = host.rails.iter().map(|rail| port(host, rail)).collect();
    let port = if ports.is_empty() {
        "no data interface".to_owned()
    } else {
        ports.join(", ")
    };
    format!(
        "{port}; {} {}; Linux {}; {} by default; over {}",
        count(host.facts.cores, "core"),
        host.facts.cpu,
        host.facts.kernel,
        host.facts.congestion,
        host.transport
    )
}

/// A data port as text: interface, bond members, speed, MTU, driver, and settings that cost rate; only the address if the interface is unknown.
pub fn port(host: &HostRecord, rail: &DataPort) -> String {
    let Some(one) = host.interface_of(rail) else {
        return rail.address.to_string();
    };
    let speed = one
        .speed_mbit
        .map_or_else(|| "speed unknown".to_owned(), show_mbit);
    let driver = one.driver.as_ref();
    let driver = driver.map_or_else(String::new, |driver| format!(" {driver}"));
    let members = if one.members.is_empty() {
        String::new()
    } else {
        format!(" over {}", one.members.join("+"))
    };
    let costs = tuning::foreseen(one, host.facts.cores).into_iter();
    let costs: Vec<String> = costs.map(|cost| cost.what).collect();
    let costs = match costs.is_empty() {
        true => String::new(),
        false => format!(" ({})", costs.join("; ")),
    };
    format!(
        "{}{members} {speed} MTU {}{driver}{costs}",
        one.name, one.mtu_bytes
    )
}

fn show_mbit(mbit: u64) -> String {
    if mbit >= 1000 {
        format!("{} Gbit/s", mbit as f64 / 1000.0)
    } else {
        format!("{mbit} Mbit/s")
    }
}
