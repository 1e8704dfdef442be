//! Names of faults, ports and floors: the verdict and every report use the same words.

use crate::plan::{RunPlan, sample};
use crate::record::{Culprit, FaultSheet, Sheet};
use crate::units::show_rate;

use super::fabric::Place;
use super::fault::Fault;
use super::thresholds::PEERS;

/// The floor in words.
pub(crate) fn floor_text(plan: &RunPlan) -> String {
    match plan.criteria.min_rate_bits_per_s {
        Some(rate) => show_rate(rate as f64),
        // The floor is printed as given, so two different floors never read alike.
        None if plan.criteria.peers => format!(
            "{}, and {} of the median of its peers",
            percent(plan.criteria.floor),
            percent(PEERS)
        ),
        None => percent(plan.criteria.floor),
    }
}

/// The floor in words that say what it is a share of.
pub(crate) fn floor_in_full(plan: &RunPlan) -> String {
    let share = format!("{} of the expected rate", percent(plan.criteria.floor));
    match plan.criteria.min_rate_bits_per_s {
        Some(_) => floor_text(plan),
        None if plan.criteria.peers => {
            format!("{share}, and {} of the median of its peers", percent(PEERS))
        }
        None => share,
    }
}

/// The floor by which a fault was judged, in words.
pub(crate) fn floor_text_of(plan: &RunPlan, sheet: &Sheet, culprit: &Culprit) -> String {
    match sheet.direction(culprit).and_then(|one| one.floor) {
        Some(floor) => format!("{} set by its peers", percent(floor)),
        None if plan.criteria.peers => percent(plan.criteria.floor),
        None => floor_text(plan),
    }
}

/// What a sample of the permutations covers and what it cannot show. `None` if the run has all of them.
pub(crate) fn sample_text(plan: &RunPlan) -> Option<String> {
    let sample = sample::of(plan)?;
    let (run, all) = sample.permutations;
    let of = |(part, whole): (usize, usize)| match part == whole {
        true => format!("all {whole}"),
        false => format!("{part} of {whole}"),
    };
    let groups = match sample.group_pairs {
        (_, 0) => String::new(),
        pairs => format!(
            " They load {} pairs of groups, and {} nodes within their group.",
            of(pairs),
            of(sample.within)
        ),
    };
    Some(format!(
        "{run} of {all} permutations, drawn with seed {}: they load every port both ways, but only {:.1} % of all pairs of hosts.{groups} A fault of a single pair outside of them can stay unseen (--pattern rotate runs all permutations)",
        plan.seed,
        100.0 * run as f64 / all as f64
    ))
}

/// Words for what a list of `all` things leaves out after the first `shown`, such as `; and 3 more`; empty if that is nothing.
pub(crate) fn and_more(all: usize, shown: usize, before: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!("{before}and {more} more"),
    }
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

/// Result of the retests of an undecided fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Alone {
    /// No retest shows anything.
    Untold,
    /// It reached its floor each time; the smallest share.
    Well(f64),
    /// It did not reach its floor each time; the smallest and the largest share.
    Mixed(f64, f64),
}

/// Result of a fault alone, or of retests that were healthy even with other links. For an uplink or a shared fault, the sum of all links through it.
pub(crate) fn by_itself(plan: &RunPlan, sheet: &Sheet, fault: &FaultSheet) -> Alone {
    let asked = plan.criteria.min_rate_bits_per_s;
    let own = sheet.direction(&fault.culprit);
    let own_floor = own.and_then(|one| one.floor).unwrap_or(0.0);
    let floor_at = |port: usize, expected: f64| {
        let ceiling = sheet.ports.get(port).and_then(|one| one.ceiling_bits_per_s);
        let asked = asked.zip(ceiling).map(|(rate, ceiling)| {
            let rate = rate as f64;
            // Equal reverse traffic lowers the capacity a little, but not the requested rate.
            rate / if rate <= expected { expected } else { ceiling }
        });
        asked.unwrap_or(plan.criteria.floor).max(own_floor)
    };
    let looks: Vec<(f64, f64)> = if fault.culprit.is_uplink() || fault.culprit.is_shared() {
        let (rate, expected) = fault.direct_evidence().fold((0.0, 0.0), |sum, one| {
            (sum.0 + one.rate_bits_per_s, sum.1 + one.expected_bits_per_s)
        });
        let share = (expected > 0.0).then_some((rate / expected, plan.criteria.floor));
        share.into_iter().collect()
    } else {
        let looks = fault.direct_evidence().map(|one| {
            let share = one.rate_bits_per_s / one.expected_bits_per_s.max(1.0);
            let floor = |port: usize| floor_at(port, one.expected_bits_per_s);
            (one.width, share, floor(one.from).max(floor(one.to)))
        });
        let telling = looks.filter(|(width, share, floor)| *width == 1 || share >= floor);
        telling.map(|(_, share, floor)| (share, floor)).collect()
    };
    let shares = || looks.iter().map(|(share, _)| *share);
    match shares().reduce(f64::min).zip(shares().reduce(f64::max)) {
        None => Alone::Untold,
        Some((least, _)) if looks.iter().all(|(share, floor)| share >= floor) => Alone::Well(least),
        Some((least, most)) => Alone::Mixed(least, most),
    }
}

/// Converts a fault to its form in the record.
pub(crate) fn culprit(fault: &Fault) -> Culprit {
    match fault {
        Fault::Place(Place::Send(port)) => Culprit::Send(*port),
        Fault::Place(Place::Receive(port)) => Culprit::Receive(*port),
        Fault::Place(Place::Up(group)) => Culprit::Up(*group),
        Fault::Place(Place::Down(group)) => Culprit::Down(*group),
        Fault::Pair(from, to) => Culprit::Pair(*from, *to),
        Fault::BothWays(port) => Culprit::BothWays(*port),
        Fault::Shared { from, to } => Culprit::Shared {
            from: from.clone(),
            to: to.clone(),
        },
        Fault::Path(pairs) => Culprit::Path(pairs.clone()),
    }
}

/// Name of a fault, with the faults that hosts cannot distinguish from it.
pub(crate) fn name_of(plan: &RunPlan, sheet: &Sheet, fault: &FaultSheet) -> String {
    let mut names = vec![name(plan, sheet, &fault.culprit)];
    names.extend(fault.or.iter().map(|other| name(plan, sheet, other)));
    names.join(" or ")
}

/// Name of a culprit, such as `n07 receive (switch port leaf1 Eth1/7)`.
pub(crate) fn name(plan: &RunPlan, sheet: &Sheet, culprit: &Culprit) -> String {
    let label = |port: usize| sheet.label(port);
    let port = |port: usize, direction: &str| {
        let node = sheet.ports.get(port).and_then(|port| port.plugged(plan));
        match node.and_then(|node| node.place()) {
            Some(at) => format!("{} {direction} (switch port {at})", label(port)),
            None => format!("{} {direction}", label(port)),
        }
    };
    let group = |number: usize| {
        let uplink = sheet.uplinks.get(number);
        uplink.map_or("", |one| one.group.as_str())
    };
    match culprit {
        Culprit::Send(number) => port(*number, "send"),
        Culprit::Receive(number) => port(*number, "receive"),
        Culprit::Pair(from, to) => format!("{}->{}", label(*from), label(*to)),
        Culprit::Up(number) => format!("uplink of {}, out", group(*number)),
        Culprit::Down(number) => format!("uplink of {}, in", group(*number)),
        Culprit::BothWays(number) => port(*number, "both ways at once"),
        Culprit::Shared { from, to } => {
            let all = sheet.ports.len();
            match (from.len() == all, to.len() == all) {
                (true, true) => format!("the switch: all {all} ports together"),
                (false, true) => format!("{} sending together", list(sheet, from)),
                (true, false) => format!("{} receiving together", list(sheet, to)),
                (false, false) => format!("{} to {} together", list(sheet, from), list(sheet, to)),
            }
        }
        Culprit::Path(pairs) => {
            let pairs = pairs.iter();
            let pairs = pairs.map(|(from, to)| format!("{}->{}", label(*from), label(*to)));
            format!("{} together", pairs.collect::<Vec<_>>().join(" and "))
        }
    }
}

/// Names of several ports, folded.
pub(crate) fn list(sheet: &Sheet, ports: &[usize]) -> String {
    let labels = ports.iter().filter_map(|port| sheet.ports.get(*port));
    let labels: Vec<String> = labels.map(|port| port.label.clone()).collect();
    launcher::hosts::fold(&labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Evidence, Record, SwitchPort};

    /// Symptom: the blame named no switch port for a host with several rails.
    #[test]
    fn a_rail_is_blamed_at_its_own_switch_port() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        record.plan.nodes[2].switch_port = None;
        let port = &mut record.sheet.ports[2];
        port.label = "n3 ib1".to_owned();
        port.at = Some(SwitchPort {
            switch: "leaf2".to_owned(),
            port: "Eth1/7".to_owned(),
        });
        let said = name_of(&record.plan, &record.sheet, &record.sheet.faults[0]);
        assert_eq!(said, "n3 ib1 receive (switch port leaf2 Eth1/7)");
    }

    #[test]
    fn what_was_seen_by_itself_is_of_the_fault_alone_and_of_its_own_floor() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let record: Record = serde_json::from_str(text).unwrap();
        let (mut plan, sheet) = (record.plan, record.sheet);
        let look = |from, to, share: f64, width| Evidence {
            from,
            to,
            rate_bits_per_s: share * 1e8,
            expected_bits_per_s: 1e8,
            loss: 0.0,
            width,
            test: 0,
        };
        let said = |plan: &RunPlan, culprit, evidence: &[Evidence]| {
            let fault = FaultSheet {
                culprit,
                evidence: evidence.to_vec(),
                ..sheet.faults[0].clone()
            };
            by_itself(plan, &sheet, &fault)
        };
        let receive = || Culprit::Receive(2);
        assert_eq!(said(&plan, receive(), &[]), Alone::Untold);
        // The other direction, and the partners with each other, say nothing about it.
        let others = [look(2, 0, 0.99, 1), look(0, 1, 0.98, 1)];
        assert_eq!(said(&plan, receive(), &others), Alone::Untold);
        // A deficit with other links at the same time proves nothing; a good result does.
        assert_eq!(said(&plan, receive(), &[look(0, 2, 0.5, 4)]), Alone::Untold);
        assert_eq!(
            said(&plan, receive(), &[look(0, 2, 0.99, 4)]),
            Alone::Well(0.99)
        );
        let mixed = [look(0, 2, 0.5, 1), look(1, 2, 0.97, 1)];
        assert_eq!(said(&plan, receive(), &mixed), Alone::Mixed(0.5, 0.97));
        // All links that cross an uplink are one look at it.
        let crossing = [look(0, 2, 0.75, 2), look(1, 2, 1.0, 2)];
        assert_eq!(
            said(&plan, Culprit::Up(0), &crossing),
            Alone::Mixed(0.875, 0.875)
        );
        // A requested rate is the floor, for any share of the port.
        let ceiling = sheet.ports[2].ceiling_bits_per_s.unwrap();
        plan.criteria.min_rate_bits_per_s = Some(numbers::whole(0.5 * ceiling));
        assert_eq!(
            said(&plan, receive(), &[look(0, 2, 0.8, 1)]),
            Alone::Well(0.8)
        );
        plan.criteria.min_rate_bits_per_s = Some(numbers::whole(0.98 * ceiling));
        assert_eq!(
            said(&plan, receive(), &[look(0, 2, 0.9, 1)]),
            Alone::Mixed(0.9, 0.9)
        );
    }
}
