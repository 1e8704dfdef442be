//! What a run does at fast ports, by the facts of the hosts: connections, and the processors of their ends.

use std::collections::HashMap;

use crate::judge::capacity;
use crate::plan::placement::{FAST_MBIT, PortFacts, PortPlace, places_near_ports, places_of_ports};
use crate::plan::{RunPlan, fit};
use crate::record::{HostRecord, Record, first_nodes};
use crate::units::show_list;

use super::{count, fold, grouped};

/// The hosts of a plan of tests as an earlier record has them, in the order of the plan. `None` if one of them is missing there.
pub(crate) fn recorded(plan: &RunPlan, record: &Record) -> Option<Vec<HostRecord>> {
    if plan.tests().is_empty() {
        return None;
    }
    let known = record.plan.nodes.iter().zip(&record.hosts);
    let known: HashMap<&str, &HostRecord> = known
        .map(|(node, host)| (node.host.as_str(), host))
        .collect();
    let mut firsts: HashMap<&str, usize> = HashMap::new();
    let nodes = plan.nodes.iter().enumerate().map(|(number, node)| {
        let host = known.get(node.host.as_str());
        let host = host.filter(|host| !host.rails.is_empty())?;
        Some(HostRecord {
            node: node.label.clone(),
            host_index: *firsts.entry(&node.host).or_insert(number),
            ..(*host).clone()
        })
    });
    nodes.collect()
}

/// A plan with its open parameters settled for these hosts.
pub(crate) fn settled(plan: &RunPlan, hosts: &[HostRecord]) -> RunPlan {
    let mut plan = plan.clone();
    let capacities = capacity::of_hosts(&plan, hosts);
    for test in plan.tests_mut() {
        fit::settle(test, hosts.len(), &capacities);
    }
    plan
}

/// One line for each set of hosts with equal fast ports.
pub(crate) fn lines(plan: &RunPlan, hosts: &[HostRecord]) -> Vec<String> {
    if plan.tests().is_empty() || hosts.iter().all(|host| host.host_index == 0) {
        return Vec::new(); // Ranks are placed elsewhere, and within a host no port is loaded.
    }
    let is_placed = plan.tests().iter().any(places_near_ports);
    let of_host = |host: &HostRecord| {
        let ports = host.facts.ports(&host.rails);
        let places = places_of_ports(&ports);
        let all = host.rails.iter().zip(ports.into_iter().zip(places));
        let fast = all.filter(|(_, (port, _))| port.speed_mbit >= FAST_MBIT);
        let texts = fast.map(|(rail, (port, place))| {
            let name = rail.interface.as_deref().unwrap_or_default();
            let place = match is_placed {
                true => placed(&port, place.as_ref()),
                false => "link ends on processors of --pin, --workers or the scheduler".to_owned(),
            };
            let (gbit, flows) = (
                port.speed_mbit as f64 / 1e3,
                count(port.flows, "connection"),
            );
            format!("{name} {gbit} Gbit/s: {flows} or more each way; {place}")
        });
        texts.collect::<Vec<_>>()
    };
    let ports = first_nodes(hosts).flat_map(|(node, host)| {
        let name = plan.nodes.get(node).map_or(&host.node, |node| &node.host);
        let texts = of_host(host).into_iter();
        texts.map(move |text| (text, name.clone()))
    });
    let lines = grouped(ports).into_iter();
    lines
        .map(|(text, names)| format!("{} {text}", fold(&names)))
        .collect()
}

fn placed(port: &PortFacts, place: Option<&PortPlace>) -> String {
    let on = match &port.interrupts[..] {
        [] => "unknown processors".to_owned(),
        list => show_list(list),
    };
    let Some(place) = place else {
        let why = match port.near.len() {
            0 => "those near the card are unknown".to_owned(),
            few => format!("the {few} near the card are too few"),
        };
        return format!("link ends on all processors, because {why}; interrupts on {on}");
    };
    let with = if place.is_beside { "beside" } else { "with" };
    format!(
        "link ends and their memory on processors {} near the card, {with} interrupts on {on}",
        show_list(&place.processors)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::NodeSpec;
    use crate::plan::lanes::tests::{plan_of, test_of};
    use crate::plan::{Pin, Unasked, Workers};

    /// Four hosts as recorded: two sockets, 128 processors, a card at each socket. Their cards have this speed.
    fn hosts(gbit: u64) -> Vec<HostRecord> {
        let text = include_str!("../../tests/samples/two-sockets.json");
        let mut host: HostRecord = serde_json::from_str(text).unwrap();
        for interface in &mut host.facts.interfaces {
            interface.speed_mbit = Some(gbit * 1000);
        }
        let host = |host_index| HostRecord {
            node: format!("n{}", host_index + 1),
            host_index,
            ..host.clone()
        };
        (0..4).map(host).collect()
    }

    fn plan() -> RunPlan {
        let node = |number| NodeSpec {
            label: format!("n{number}"),
            host: format!("n{number}"),
            ..NodeSpec::default()
        };
        let mut test = test_of(2, 2);
        test.rails = 2;
        test.pin = Pin::Auto;
        test.unasked = Unasked {
            workers: true,
            block: true,
            streams: true,
            ..Unasked::default()
        };
        plan_of((1..=4).map(node).collect(), test)
    }

    #[test]
    fn ports_of_100_200_and_400_gbit_per_s_have_their_connections_and_processors() {
        let said = |gbit| lines(&settled(&plan(), &hosts(gbit)), &hosts(gbit));
        assert_eq!(
            said(100),
            [
                "n[1-4] ens1f0 100 Gbit/s: 4 connections or more each way; link ends and their memory on processors 16-31,64-95 near the card, beside interrupts on 0-15",
                "n[1-4] ens5f0 100 Gbit/s: 4 connections or more each way; link ends and their memory on processors 48-63,96-127 near the card, beside interrupts on 32-47",
            ]
        );
        assert!(said(200)[0].contains(": 8 connections or more each way; link ends and their memory on processors 16-31,64-95 "));
        assert!(said(400)[0].contains(": 16 connections or more each way; link ends and their memory on processors 16-31,64-95 "));
        // A card of 800 Gbit/s needs 64 processors: those with interrupts, too.
        let fastest = &said(800)[0];
        assert!(
            fastest.contains("processors 0-31,64-95 near the card, with interrupts on 0-15"),
            "{fastest}"
        );
        assert!(said(1600)[0].contains("all processors, because the 64 near the card are too few"));
        assert_eq!(said(25), [""; 0]);
    }

    #[test]
    fn a_plan_for_recorded_hosts_has_the_links_that_fill_their_ports() {
        let streams = |gbit| settled(&plan(), &hosts(gbit)).tests()[0].streams;
        // Each of three partners has the same number on each of two rails.
        assert_eq!([25, 100, 200, 400].map(streams), [2, 4, 6, 12]);
        let workers = settled(&plan(), &hosts(400)).tests()[0].workers;
        assert_eq!(workers, Workers::Peer);
    }

    #[test]
    fn processors_are_those_of_the_user_or_of_the_scheduler_where_no_placement_applies() {
        let mut plan = plan();
        plan.tests_mut()[0].pin = Pin::None;
        let said = lines(&plan, &hosts(400));
        assert!(
            said[0].ends_with("; link ends on processors of --pin, --workers or the scheduler")
        );
        assert_eq!(lines(&plan, &hosts(400)[..1]), [""; 0], "within one host");
    }

    #[test]
    fn hosts_are_taken_from_a_record_by_name_if_all_are_there() {
        let text = include_str!("../../tests/golden/two-hosts/record.json");
        let record: Record = serde_json::from_str(text).unwrap();
        let mut plan = record.plan.clone();
        let known = recorded(&plan, &record).unwrap();
        let indices = |hosts: &[HostRecord]| -> Vec<usize> {
            hosts.iter().map(|host| host.host_index).collect()
        };
        assert_eq!(indices(&known), indices(&record.hosts));
        plan.nodes[0].host = "another".to_owned();
        assert!(recorded(&plan, &record).is_none());
    }
}
