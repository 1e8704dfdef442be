//! What is printed before a run: options in effect and facts of the hosts, equal facts folded.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::plan::{Bound, DataPort, RunPlan, Test, size};
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
        line(&mut text, &format!("{}: {facts}", super::fold(&names)));
    }
    text
}

fn facts(host: &HostRecord) -> String {
    let ports: Vec<String> = host.rails.iter().map(|rail| port(host, rail)).collect();
    let port = if ports.is_empty() {
        "no data interface".to_owned()
    } else {
        ports.join(", ")
    };
    let cores = host.facts.cores;
    let core_word = if cores == 1 { "core" } else { "cores" };
    format!(
        "{port}; {cores} {core_word} {}; Linux {}; {} by default; over {}",
        host.facts.cpu, host.facts.kernel, host.facts.congestion, host.transport
    )
}

fn port(host: &HostRecord, rail: &DataPort) -> String {
    let Some(one) = host.interface_of(rail) else {
        return rail.address.to_string();
    };
    let speed = one
        .speed_mbit
        .map_or_else(|| "speed unknown".to_owned(), show_mbit);
    let driver = one
        .driver
        .as_deref()
        .map(|driver| format!(" {driver}"))
        .unwrap_or_default();
    let members = if one.members.is_empty() {
        String::new()
    } else {
        format!(" over {}", one.members.join("+"))
    };
    format!(
        "{}{members} {speed} MTU {}{driver}",
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

/// What a plan takes, for `--dry-run`.
pub fn dry_run(plan: &RunPlan) -> String {
    let labels: Vec<String> = plan.nodes.iter().map(|node| node.label.clone()).collect();
    let mut text = String::new();
    line(
        &mut text,
        &format!("nodes      {}: {}", labels.len(), super::fold(&labels)),
    );
    for test in &plan.tests {
        dry_test(&mut text, plan, test);
    }
    text
}

fn dry_test(text: &mut String, plan: &RunPlan, test: &Test) {
    let nodes = plan.nodes.len();
    let size = size::of(test, nodes);
    let (phases, streams) = (test.phases, test.streams);
    let memory = show_bytes(size.buffer_bytes_per_node as u64);
    let slot = show_bytes(size::slot_bytes(test.block_bytes) as u64);
    let slots = nodes.saturating_mul(streams);
    let mut say = |content: String| line(text, &content);
    say(format!(
        "test       all-to-all, {phases} phases, streams per pair: {streams}"
    ));
    say(format!(
        "processes  {} per node (1 + P + {}), {} in all",
        size.processes_per_node,
        size::worker_formula(test),
        size.processes
    ));
    let blocks = |phase| test.shared_blocks(phase) + test.own_blocks(phase);
    let relay = match phases {
        2 => String::new(),
        _ => format!(", relay {}", blocks(1)),
    };
    say(format!(
        "memory     {memory} of buffers per node ({slots} slots a phase; blocks of {slot} in each: source {}{relay}, sink {})",
        blocks(0),
        blocks(phases.saturating_sub(1))
    ));
    let hosts = hosts_by_name(plan);
    let load: Vec<usize> = hosts
        .values()
        .map(|own| {
            let pairs = own.len() * (nodes - own.len());
            let links = pairs.saturating_mul(streams);
            links.saturating_mul(phases.saturating_sub(1))
        })
        .collect();
    let (least, most) = (
        load.iter().min().unwrap_or(&0),
        load.iter().max().unwrap_or(&0),
    );
    let each = if least == most {
        most.to_string()
    } else {
        format!("{least} to {most}")
    };
    let carried = match (hosts.len(), *most) {
        (_, 0) => "none of them leaves its host".to_owned(),
        (count, _) => format!("each of {count} hosts carries {each} out and {each} in"),
    };
    say(format!("links      {} in all; {carried}", size.links));
    match test.bound {
        Bound::Volume { buffers } => {
            let links = load
                .iter()
                .fold(0, |sum: usize, one| sum.saturating_add(*one)) as u64;
            let bytes = links.saturating_mul(buffers);
            let bytes = bytes.saturating_mul(test.block_bytes as u64);
            say(format!("volume     {} between hosts", show_bytes(bytes)));
        }
        Bound::Files => {
            say("volume     the source files; the run is as long as the longest".to_owned());
        }
        Bound::Time {
            warmup_ns,
            window_ns,
        } => {
            let ns = warmup_ns.saturating_add(window_ns);
            say(format!(
                "duration   {} and the time to start and drain",
                show_ns(ns)
            ));
            say(volume_at_speed(plan, &hosts, ns));
        }
    }
}

/// Nodes by host, as far as names tell.
fn hosts_by_name(plan: &RunPlan) -> BTreeMap<&str, Vec<usize>> {
    let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, node) in plan.nodes.iter().enumerate() {
        let name = if node.local { "" } else { node.host.as_str() };
        hosts.entry(name).or_default().push(index);
    }
    hosts
}

fn volume_at_speed(plan: &RunPlan, hosts: &BTreeMap<&str, Vec<usize>>, duration_ns: u64) -> String {
    let first = |own: &Vec<usize>| plan.nodes[own[0]].speed_bits_per_s;
    let speeds: Option<Vec<u64>> = hosts.values().map(first).collect();
    match speeds {
        Some(speeds) => {
            let bits: f64 = speeds.iter().map(|speed| *speed as f64).sum();
            let bytes = bits / 8.0 * duration_ns as f64 / 1e9;
            format!("volume     up to {:.1} GB at the speeds given", bytes / 1e9)
        }
        None => "volume     as much as the ports carry in that time (give speed= in a host file for a figure)"
            .to_owned(),
    }
}

fn line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    match writeln!(text, "{content}") {
        Ok(()) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;
    use crate::plan::{Deadlines, NodeSpec, PLAN_VERSION};

    fn plan(bound: Bound) -> RunPlan {
        let node = |host: &str| NodeSpec {
            host: host.to_owned(),
            speed_bits_per_s: Some(u64::MAX),
            ..NodeSpec::default()
        };
        let test = Test {
            bound,
            ..test_of(3, 1)
        };
        RunPlan {
            version: PLAN_VERSION,
            nodes: vec![node("n1"), node("n2")],
            tests: vec![test],
            deadlines: Deadlines::default(),
            seed: 1,
            keep_going: false,
            samples: false,
        }
    }

    #[test]
    fn a_dry_run_of_more_blocks_than_there_are_numbers_is_shown() {
        let text = dry_run(&plan(Bound::Volume { buffers: u64::MAX }));
        assert!(
            text.contains("volume     16777216 TiB between hosts"),
            "{text}"
        );
    }

    #[test]
    fn a_dry_run_of_all_time_at_all_speed_is_shown() {
        let most = u64::MAX;
        let text = dry_run(&plan(Bound::Time {
            warmup_ns: most,
            window_ns: most,
        }));
        assert!(text.contains("GB at the speeds given"), "{text}");
    }
}
