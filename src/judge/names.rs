//! What faults, ports and floors are called: the same words in the verdict and in every report.

use crate::plan::RunPlan;
use crate::record::{Culprit, FaultSheet, Sheet};
use crate::units::show_gbit;

use super::blame::Fault;
use super::fabric::Place;

/// The floor as a reader knows it.
pub fn floor_text(plan: &RunPlan) -> String {
    match plan.criteria.min_rate_bits_per_s {
        Some(rate) => format!("{} Gbit/s", show_gbit(rate as f64 / 1e9)),
        // As it was given: two floors that differ never read alike.
        None => format!("{} %", (plan.criteria.floor * 1e6).round() / 1e4),
    }
}

/// A fault as the record has it.
pub fn culprit(fault: Fault) -> Culprit {
    match fault {
        Fault::Place(Place::Send(port)) => Culprit::Send(port),
        Fault::Place(Place::Receive(port)) => Culprit::Receive(port),
        Fault::Place(Place::Up(group)) => Culprit::Up(group),
        Fault::Place(Place::Down(group)) => Culprit::Down(group),
        Fault::Pair(from, to) => Culprit::Pair(from, to),
    }
}

/// Name of a fault, with what cannot be told apart from it.
pub fn name_of(plan: &RunPlan, sheet: &Sheet, fault: &FaultSheet) -> String {
    let mut names = vec![name(plan, sheet, fault.culprit)];
    names.extend(fault.or.iter().map(|other| name(plan, sheet, *other)));
    names.join(" or ")
}

/// Name of what is at fault: `n07 receive (switch port Eth1/7)`.
pub fn name(plan: &RunPlan, sheet: &Sheet, culprit: Culprit) -> String {
    let label = |port: usize| sheet.ports.get(port).map_or("", |port| port.label.as_str());
    let port = |port: usize, direction: &str| {
        let node = sheet.ports.get(port).map_or(0, |port| port.node);
        let at = plan
            .nodes
            .get(node)
            .and_then(|node| node.switch_port.as_ref());
        match at {
            Some(at) => format!("{} {direction} (switch port {at})", label(port)),
            None => format!("{} {direction}", label(port)),
        }
    };
    let group = |group: usize| {
        sheet
            .uplinks
            .get(group)
            .map_or("", |one| one.group.as_str())
    };
    match culprit {
        Culprit::Send(number) => port(number, "send"),
        Culprit::Receive(number) => port(number, "receive"),
        Culprit::Pair(from, to) => format!("{}->{}", label(from), label(to)),
        Culprit::Up(number) => format!("uplink of {}, out", group(number)),
        Culprit::Down(number) => format!("uplink of {}, in", group(number)),
    }
}
