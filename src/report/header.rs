//! What is printed before a run: options in effect and facts of the hosts, equal facts folded.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::plan::{RunPlan, size};
use crate::record::HostRecord;
use crate::units::{show_bytes, show_ns};

/// Options as `key=value`, in lines of bounded width.
pub fn options(options: &[(String, String)]) -> String {
    const WIDTH: usize = 110;
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
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for host in hosts {
        groups
            .entry(facts(host))
            .or_default()
            .push(host.node.clone());
    }
    let mut lines: Vec<(Vec<String>, String)> = groups
        .into_iter()
        .map(|(facts, names)| (names, facts))
        .collect();
    lines.sort();
    let mut text = String::new();
    for (names, facts) in lines {
        line(
            &mut text,
            &format!("{}: {facts}", launcher::hosts::fold(&names)),
        );
    }
    text
}

fn facts(host: &HostRecord) -> String {
    let interface = host
        .facts
        .interfaces
        .iter()
        .find(|one| Some(&one.name) == host.interface.as_ref());
    let port = interface.map_or_else(
        || {
            host.interface
                .clone()
                .unwrap_or_else(|| "no data interface".to_owned())
        },
        |one| {
            let speed = one
                .speed_mbit
                .map_or_else(|| "speed unknown".to_owned(), show_mbit);
            let driver = one
                .driver
                .as_deref()
                .map(|driver| format!(" {driver}"))
                .unwrap_or_default();
            format!("{} {speed} MTU {}{driver}", one.name, one.mtu_bytes)
        },
    );
    let cores = host.facts.cores;
    let core_word = if cores == 1 { "core" } else { "cores" };
    format!(
        "{port}; {cores} {core_word} {}; Linux {}; {}; over {}",
        host.facts.cpu, host.facts.kernel, host.facts.congestion, host.transport
    )
}

fn show_mbit(mbit: u64) -> String {
    if mbit >= 1000 {
        format!("{} Gbit/s", mbit as f64 / 1000.0)
    } else {
        format!("{mbit} Mbit/s")
    }
}

/// What a plan takes, for `--dry-run`.
pub fn dry_run(plan: &RunPlan) -> String {
    let nodes = plan.nodes.len();
    let labels: Vec<String> = plan.nodes.iter().map(|node| node.label.clone()).collect();
    let mut text = String::new();
    line(
        &mut text,
        &format!("nodes      {nodes}: {}", launcher::hosts::fold(&labels)),
    );
    for test in &plan.tests {
        let size = size::of(test, nodes);
        line(
            &mut text,
            &format!(
                "test       all-to-all, {} phases, {} stream(s) per pair",
                test.phases, test.streams
            ),
        );
        line(
            &mut text,
            &format!(
                "processes  {} per node (1 + P + 2NK(P-1)), {} in all",
                size.processes_per_node, size.processes
            ),
        );
        line(
            &mut text,
            &format!(
                "memory     {} of buffers per node ({} phases x 2 buffers x {} slots x {})",
                show_bytes(size.buffer_bytes_per_node as u64),
                test.phases,
                nodes * test.streams,
                show_bytes(size::slot_bytes(test.block_bytes) as u64)
            ),
        );
        line(
            &mut text,
            &format!(
                "links      {} in all; each port carries {} out and {} in",
                size.links, size.links_per_port, size.links_per_port
            ),
        );
        match (size.volume_bytes, size.duration_ns) {
            (Some(bytes), _) => line(
                &mut text,
                &format!("volume     {} between nodes", show_bytes(bytes)),
            ),
            (None, Some(ns)) => {
                line(
                    &mut text,
                    &format!("duration   {} and the time to start and drain", show_ns(ns)),
                );
                line(&mut text, &volume_at_speed(plan, ns));
            }
            (None, None) => {}
        }
    }
    text
}

fn volume_at_speed(plan: &RunPlan, duration_ns: u64) -> String {
    let speeds: Option<Vec<u64>> = plan
        .nodes
        .iter()
        .map(|node| node.speed_bits_per_s)
        .collect();
    match speeds {
        Some(speeds) => {
            let bytes: f64 = speeds.iter().map(|bits| *bits as f64 / 8.0 * duration_ns as f64 / 1e9).sum();
            format!("volume     up to {:.1} GB at the speeds given", bytes / 1e9)
        }
        None => "volume     as much as the ports carry in that time (give speed= in a host file for a figure)".to_owned(),
    }
}

fn line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    match writeln!(text, "{content}") {
        Ok(()) | Err(_) => {}
    }
}
