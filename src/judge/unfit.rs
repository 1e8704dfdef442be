//! Finds tests that did not run as requested and so are no evidence: windows that nodes kept badly, rates that no port can carry, no data at all,
//! other traffic on a port. They are repeated, and the repeat counts. If that is no better, the reason is the verdict.

use std::collections::BTreeSet;

use crate::plan::{Purpose, RunPlan, Sink, Test};
use crate::record::{
    HostRecord, LinkRecord, TestRecord, Verdict, VerdictWord, WireKind, first_nodes,
};
use crate::units::{add, gbit_per_s, show_ns, show_rate};

use super::case::Case;
use super::confirm::Request;
use super::host;
use super::peers;
use super::thresholds::{FOREIGN, MOST_CARRIED, SLOW_SINK, WINDOW_OFF, WINDOW_SKEW};
use super::view::{Unfit, View};

/// Maximum number of repeats of a test.
const REPEATS: usize = 2;
/// Number of repeats without evidence after which no more are made.
const MOST_IN_VAIN: usize = 2;

/// Reason why a test is no evidence, if so.
pub(crate) fn why(hosts: &[HostRecord], planned: &Test, test: &TestRecord) -> Option<Unfit> {
    let of = |hosts: bool, why: String| {
        Some(Unfit {
            hosts,
            lasts: false,
            why,
        })
    };
    let mut crossing = test.links.iter().filter(|link| link.crosses_switch);
    let mut nodes = test.nodes.iter().flatten();
    let is_silent = match test.sums {
        Some(_) => nodes.all(|node| node.received_bytes == 0),
        None => crossing.all(|link| link.interval_bytes == 0),
    };
    if test.crosses_switch() && is_silent {
        return of(false, "no byte arrived on any link".to_owned());
    }
    let window_ns = test.window_ns.filter(|ns| *ns > 0)?;
    let window = window_ns as f64;
    let measured = test.nodes.iter().enumerate();
    let off = measured.filter_map(|(node, record)| {
        let own = record.as_ref()?.interval_ns;
        Some((node, own, (own as f64 / window - 1.0).abs()))
    });
    if let Some((node, own, _)) = off
        .filter(|(.., off)| *off > WINDOW_OFF)
        .max_by(|a, b| a.2.total_cmp(&b.2))
    {
        let name = hosts.get(node).map_or("", |host| host.node.as_str());
        return of(
            true,
            format!(
                "{name} counted for {} instead of the window of {}{}",
                show_ns(own),
                show_ns(window_ns),
                busy(hosts, test)
            ),
        );
    }
    if let Some(skew) = test
        .skew_ns
        .filter(|skew| *skew as f64 > window * WINDOW_SKEW)
    {
        let why = format!(
            "the nodes' windows of {} are {} apart",
            show_ns(window_ns),
            show_ns(skew)
        );
        return of(true, why + &busy(hosts, test));
    }
    slow_sink(hosts, planned, test)
}

/// Finds a host that writes more slowly than it receives. Its links then show the rate of its disk, and its partners' ports are not full.
fn slow_sink(hosts: &[HostRecord], planned: &Test, test: &TestRecord) -> Option<Unfit> {
    let Sink::File(pattern) = &planned.sink else {
        return None;
    };
    // For each node, over the links into its last phase: waits, interval and bytes.
    let mut sums = match &test.sums {
        Some(all) => all.sinks.clone(),
        None => vec![[0_u64; 3]; hosts.len()],
    };
    let last = |link: &&LinkRecord| link.lane.boundary + 2 == planned.phases;
    for link in test.every_link().iter().filter(last) {
        let own = sums.get_mut(link.lane.to).into_iter().flatten();
        for (sum, more) in own.zip(link.taken()) {
            add(sum, more);
        }
    }
    let waited = |[waited, interval, _]: &[u64; 3]| *waited as f64 / (*interval).max(1) as f64;
    let nodes = sums.iter().map(|own| (waited(own), own[2])).enumerate();
    let (node, (waited, bytes)) = nodes.max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let node_ns = test.nodes.get(node)?.as_ref()?.interval_ns;
    (waited >= SLOW_SINK).then(|| Unfit {
        hosts: true,
        lasts: true,
        why: format!(
            "{} wrote {} to {pattern}, and its receivers waited for these writes {:.0} % of the time",
            hosts[node].node,
            show_rate(gbit_per_s(bytes, node_ns) * 1e9),
            waited * 100.0
        ),
    })
}

/// Text on a host that lacked processors; empty without one.
fn busy(hosts: &[HostRecord], test: &TestRecord) -> String {
    let nodes = host::nodes_of_hosts(hosts);
    let busy = first_nodes(hosts).find_map(|(node, one)| {
        let limit = host::limit(test, &nodes[node])?;
        Some(format!("; {}: {limit}", one.node))
    });
    busy.unwrap_or_default()
}

/// Finds a port that showed more than it can carry: its bytes were not counted over the time by which they are divided.
pub(super) fn too_fast(
    view: &View,
    hosts: &[HostRecord],
    test: &TestRecord,
    seen: &[f64],
) -> Option<Unfit> {
    let mut fast = view.fabric.port_places().filter_map(|place| {
        let (port, _) = place.port()?;
        let ceiling = view.ceiling(port)?;
        let rate = seen[view.fabric.number(place)];
        (rate > ceiling * MOST_CARRIED).then_some((port, rate, ceiling))
    });
    let (port, rate, ceiling) = fast.next()?;
    let busy = busy(hosts, test);
    Some(Unfit {
        hosts: !busy.is_empty(),
        lasts: false,
        why: format!(
            "{} showed {}, above its ceiling of {}{}",
            view.ports[port].label,
            show_rate(rate),
            show_rate(ceiling),
            match busy.is_empty() {
                true => " (is the port faster than specified?)",
                false => &busy,
            }
        ),
    })
}

/// Other traffic of a port in a test, as a share of all that the port carried; at most 0.99.
pub(super) fn foreign(test: &TestRecord, node: &str, interface: Option<&str>, sends: bool) -> f64 {
    let of_port = test.wires.iter().filter(|one| {
        one.node == node && Some(one.interface.as_str()) == interface && one.counted_bytes > 0
    });
    let part = of_port.map(|one| match (&one.kind, sends) {
        (WireKind::ForeignSent { bytes }, true) | (WireKind::ForeignReceived { bytes }, false) => {
            *bytes as f64 / one.counted_bytes as f64
        }
        _ => 0.0,
    });
    part.fold(0.0, f64::max).min(0.99)
}

/// Request to repeat the next test that must be repeated before the verdict.
pub(crate) fn open(plan: &RunPlan, view: &View) -> Vec<Request> {
    if !view.has_speeds() || is_in_vain(view) {
        return Vec::new();
    }
    let tests = plan.tests().iter().enumerate();
    let planned = tests.filter(|(_, test)| test.purpose != Purpose::Isolated);
    let wanted = planned.map(|(number, _)| number).filter(|number| {
        let repeats: Vec<usize> = view.repeats_of(*number).collect();
        let unfit = |test: &usize| view.unfit.contains_key(test);
        let lasts = view.unfit.get(number).is_some_and(|unfit| unfit.lasts);
        let is_open =
            unfit(number) && !lasts && repeats.iter().all(unfit) && repeats.len() < REPEATS;
        is_open || has_foreign(view, *number) && repeats.is_empty()
    });
    // One after the other: if the first repeat is in vain, the others can be, too.
    wanted.map(Request::again).take(1).collect()
}

/// True if enough repeats were no evidence either to show that these hosts cannot do it: retests would prove nothing.
pub(crate) fn is_in_vain(view: &View) -> bool {
    let repeats: BTreeSet<usize> = view.all_repeats.iter().map(|(_, repeat)| *repeat).collect();
    let in_vain = repeats
        .iter()
        .filter(|repeat| view.unfit.contains_key(repeat));
    in_vain.count() >= MOST_IN_VAIN
}

/// True if other traffic kept a port from being judged in a test.
fn has_foreign(view: &View, test: usize) -> bool {
    let mut looks = view.observations.iter().filter(|one| one.test == test);
    looks.any(|one| {
        let places = one.foreign.iter().zip(&one.capacities);
        let mut places = places.filter(|(_, capacity)| capacity.is_finite());
        places.any(|(foreign, capacity)| *foreign > capacity * FOREIGN)
    })
}

/// Makes repeats count as the tests that they repeat, where those were no evidence.
pub(super) fn stand_in(view: &mut View) {
    let stands: Vec<usize> = view
        .all_repeats
        .iter()
        .filter(|(first, _)| view.unfit.contains_key(first) || has_foreign(view, *first))
        .map(|(_, repeat)| *repeat)
        .collect();
    for one in &mut view.observations {
        one.isolated &= !stands.contains(&one.test);
    }
}

/// Tests that are no evidence, each with a repeat that is.
pub(super) fn instead(view: &View) -> Vec<(usize, usize)> {
    let repeats = view.all_repeats.iter().copied();
    let unfit = |test: &usize| view.unfit.contains_key(test);
    repeats
        .filter(|(first, repeat)| unfit(first) && !unfit(repeat))
        .collect()
}

/// Verdict if a test and all its repeats were no evidence, or if a port always had other traffic.
pub(crate) fn verdict(plan: &RunPlan, view: &View, case: &Case<'_>) -> Option<Verdict> {
    let first_unfit = view.unfit.iter().find(|(test, _)| {
        let planned = plan.tests().get(**test);
        let mut repeats = view.repeats_of(**test);
        let repeated_well = repeats.any(|repeat| !view.unfit.contains_key(&repeat));
        planned.is_some_and(|test| test.purpose != Purpose::Isolated) && !repeated_well
    });
    if let Some((test, unfit)) = first_unfit {
        let times = match 1 + view.repeats_of(*test).count() {
            1 => String::new(),
            several => format!(", {several} times"),
        };
        let word = match unfit.hosts {
            true => VerdictWord::HostLimited,
            false => VerdictWord::Invalid,
        };
        let reason = format!(
            "test {} did not run as planned{times}: {}",
            test + 1,
            unfit.why
        );
        return Some(Verdict { word, reason });
    }
    view.fabric.port_places().find_map(|place| {
        let number = view.fabric.number(place);
        let passes = case.passes(place);
        if passes.iter().any(|pass| pass.judged && !pass.isolated) {
            return None;
        }
        let loads = view.observations.iter().filter(|one| !one.isolated && !one.paced);
        let (rate, foreign, ceiling) = loads
            .filter_map(|one| {
                let foreign = *one.foreign.get(number)?;
                let capacity = one.capacities[number] + foreign;
                let rate = one.seen(&view.fabric)[number];
                (foreign > capacity * FOREIGN).then_some((rate, foreign, capacity))
            })
            .next()?;
        let (label, way) = peers::named(view, place);
        let percent = |rate: f64| rate / ceiling * 100.0;
        Some(Verdict {
            word: VerdictWord::Undecided,
            reason: format!(
                "{label} {way}: other traffic took {:.1} % of the port, this run {:.1} % (together {:.0} %): stop the other traffic and repeat",
                percent(foreign),
                percent(rate),
                percent(foreign + rate)
            ),
        })
    })
}
