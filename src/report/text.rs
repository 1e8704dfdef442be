//! The summary that a reader grasps in ten seconds: verdict and weakest port first, a row per host, then the checks.

use std::collections::{BTreeMap, HashSet};

use crate::judge::names::and_more;
use crate::plan::{Bound, Coupling, Datapath, Sink, Source, Test, Verify, size};
use crate::record::{
    ClockRecord, HeldBy, HostRecord, LinkRecord, Measured, Missing, Record, TestRecord, Trouble,
    VerdictWord,
};
use crate::units::{Scale, show_bytes, show_ns, show_rate, sum};

use super::compare::Comparison;
use super::figures::{self, Direction, Figures, Port};
use super::{count, fold, grouped, label_width, of_nodes, or_dash, percent, text_of, worst};
use super::{
    described, directions, dry_run, faults, imb, judged, latency, linktest, overview, wires,
};

/// Most rows of a comparison below a summary.
const ROWS: usize = 12;

/// The summary of a record, and below it the comparison with an earlier run if there is one.
pub(crate) fn with_baseline(record: &Record, baseline: Option<&Comparison>) -> String {
    let below = baseline.map(|comparison| {
        let lines = comparison.lines(ROWS).join("\n");
        format!("baseline    {lines}\n")
    });
    summary(record) + &below.unwrap_or_default()
}

/// The first line of a summary with the next step after it: at the end of a long summary its first line is out of sight.
pub(crate) fn last_line(record: &Record, summary: &str) -> String {
    let verdict = summary.lines().next().unwrap_or_default();
    let fault = record.sheet.faults.first();
    let step = fault.and_then(|fault| faults::step(record, fault));
    let step = step.map_or_else(String::new, |step| format!("; {step}"));
    format!("\n{verdict}{step}\n")
}

/// The summary of a record.
pub fn summary(record: &Record) -> String {
    if !record.outcome.has_begun() {
        let (word, reason) = (record.verdict.word, &record.verdict.reason);
        let headline = format!("{word}  nothing was measured: {reason}");
        return sheet(record, headline, Vec::new());
    }
    match record.measured() {
        Measured::Acceptance(..) => acceptance(record),
        Measured::Linktest(plan, linktest) => linktest::summary::summary(
            record,
            &linktest::figures::Figures::of(record, plan, linktest),
        ),
        Measured::Latency(plan, latency) => latency::summary(record, plan, latency),
        Measured::Imb(plan, imb) => imb::summary(record, plan, imb),
    }
}

fn acceptance(record: &Record) -> String {
    match &record.counted()[..] {
        [] => String::new(),
        [test] => {
            let figures = Figures::of(record, test);
            let headline = headline(record, test, &figures);
            sheet(record, headline, one_test(record, test, &figures))
        }
        several => {
            let lines = overview::lines(record, several);
            sheet(record, overall(record, several), lines)
        }
    }
}

/// The summary's text: its headline, the lines that do not depend on the number of tests, and those that do.
fn sheet(record: &Record, headline: String, below: Vec<String>) -> String {
    let mut lines = vec![headline];
    lines.extend(accounted(record));
    lines.extend(judged::lines(record));
    lines.extend(below);
    text_of(&lines)
}

fn one_test(record: &Record, test: &TestRecord, figures: &Figures) -> Vec<String> {
    let plan = &record.plan.tests()[test.test];
    if !test.has_measured() {
        return Vec::new(); // The test ended before it measured anything.
    }
    let mut lines = vec![conditions(plan), totals(test, figures)];
    lines.extend(table(record, test, figures));
    lines.extend(directions::without_partner(record, figures));
    lines.extend(directions::limited(record));
    lines.extend(links_that_limit(record, test));
    lines.extend(cpu(record, test));
    lines.push(checks(test, figures, plan));
    lines.extend(wires::lines(record, test));
    let notes = notes(record, test, plan).into_iter();
    lines.extend(notes.map(|note| format!("note: {note}")));
    if record.verdict.word.is_judged() {
        let name = directions::name_of_figure(record);
        lines.extend(directions::to_sign(record).map(|said| format!("{name}: {said}")));
        lines.extend(described::line(record));
        lines.push(judged::FIXED_WORDS.to_owned());
    }
    lines
}

/// Number of hosts and of their ports, or the number of nodes if all are on one host.
fn scope(figures: &Figures, ports: usize) -> String {
    match figures.crosses_switch {
        true => format!("{}, {}", count(figures.hosts, "host"), count(ports, "port")),
        false => format!("{} on one host, no switch", count(ports, "node")),
    }
}

fn headline(record: &Record, test: &TestRecord, figures: &Figures) -> String {
    let word = record.verdict.word;
    let ports = figures.ports.iter();
    let here = ports.filter(|port| port.lost_at_ns.is_none());
    let nodes = here.clone().count();
    let both = here
        .filter(|port| port.reported)
        .all(|port| port.links_out > 0 && port.links_in > 0);
    let both = match figures.crosses_switch && both {
        true => ", both directions at once",
        false => "",
    };
    let scope = scope(figures, nodes) + both;
    if !test.complete {
        // In an incomplete run the weakest port can be a sound one, so it is not blamed.
        return format!("{word}  {scope}: {}", record.verdict.reason);
    }
    if let VerdictWord::Fail | VerdictWord::Undecided | VerdictWord::HostLimited = word {
        return format!("{word}  {}", record.verdict.reason);
    }
    if let (VerdictWord::Pass, Some(text)) = (word, directions::weakest(record)) {
        return format!("{word}  {scope}: {text}");
    }
    let weakest = match figures.weakest() {
        Some((port, direction, rate)) if nodes > 1 => {
            // On one host the line fits 80 columns.
            let payload = if figures.crosses_switch {
                " payload"
            } else {
                ""
            };
            let rate = show_rate(rate * 1e9);
            format!("weakest {} {direction} {rate}{payload}", port.label)
        }
        None if nodes > 1 => "no port had a partner to the end".to_owned(),
        _ => format!(
            "{} payload through memory",
            show_rate(figures.same_host_gbit_per_s * 1e9)
        ),
    };
    let reason = match word {
        VerdictWord::Invalid => format!(" - {}", record.verdict.reason),
        // The scope has the reason.
        VerdictWord::NotJudged if !figures.crosses_switch => String::new(),
        _ => format!(" ({})", record.verdict.reason),
    };
    format!("{word}  {scope}: {weakest}{reason}")
}

/// The headline for several tests.
fn overall(record: &Record, tests: &[&TestRecord]) -> String {
    let word = record.verdict.word;
    let figures = Figures::of(record, tests[0]);
    let scope = scope(&figures, figures.ports.len());
    let scope = format!("{scope}, {}", count(tests.len(), "test"));
    match (word, directions::weakest(record)) {
        (VerdictWord::Pass, Some(text)) => format!("{word}  {scope}: {text}"),
        (VerdictWord::NotJudged, _) if !figures.crosses_switch => format!("{word}  {scope}"),
        (VerdictWord::Pass | VerdictWord::NotJudged, _) => {
            format!("{word}  {scope} ({})", record.verdict.reason)
        }
        (VerdictWord::Invalid, _) => format!("{word}  {scope}: {}", record.verdict.reason),
        _ => format!("{word}  {}", record.verdict.reason),
    }
}

/// Line on the named nodes that are missing from the figures. Returns `None` if no node is missing.
fn accounted(record: &Record) -> Option<String> {
    const NAMED: usize = 4;
    if record.missing.is_empty() {
        return None;
    }
    let missing = record.missing.iter();
    let never = missing.filter(|one| !directions::is_planned(record, one));
    let all = record.plan.nodes.len() + never.count();
    let several = record.plan.tests().len() > 1;
    let told = |missing: &Missing| match missing.at_ns {
        Some(at_ns) => {
            let plan = record.plan.tests().get(missing.test);
            let lost = plan.map_or_else(String::new, |plan| figures::lost_text(plan, at_ns));
            let test = match several {
                true => format!(" of test {}", missing.test + 1),
                false => String::new(),
            };
            format!("{} {lost}{test} ({})", missing.node, missing.what)
        }
        None if directions::is_planned(record, missing) => {
            let (node, what, test) = (&missing.node, &missing.what, missing.test + 1);
            format!("{node} took no part from test {test} on ({what})")
        }
        None => format!("{} took no part ({})", missing.node, missing.what),
    };
    let mut named: Vec<String> = record.missing.iter().take(NAMED).map(told).collect();
    let more = record.missing.len().saturating_sub(NAMED);
    if more > 0 {
        named.push(format!("and {more} more, all in the record"));
    }
    Some(format!(
        "            {} of {} accounted for: {}",
        all - record.missing.len(),
        count(all, "node"),
        named.join("; ")
    ))
}

fn conditions(test: &Test) -> String {
    let length = dry_run::length(test.bound);
    let window = match test.bound {
        Bound::Time { .. } => "window ",
        Bound::Volume { .. } | Bound::Files => "",
    };
    let mut streams = String::new();
    if test.rails > 1 {
        streams.push_str(&format!(", {} rails", test.rails));
    }
    if test.streams > test.rails {
        let each = if test.rails > 1 { " and rail" } else { "" };
        let count = test.streams / test.rails.max(1);
        streams.push_str(&format!(", {count} streams per pair{each}"));
    }
    let coupling = match test.coupling {
        Coupling::Block => "",
        Coupling::Buffer => ", coupled by buffer: all links run at the pace of the slowest",
    };
    let block = show_bytes(test.block_bytes as u64);
    let ends = match (&test.source, &test.sink) {
        (Source::Memory, Sink::Memory) => "",
        (Source::Memory, Sink::Discard) => ", discarded at the sink",
        (Source::Memory, Sink::File(_)) => ", into files",
        (Source::File(_), Sink::Memory) => ", from files",
        (Source::File(_), Sink::File(_)) => ", from files into files",
        (Source::File(_), Sink::Discard) => ", from files, discarded at the sink",
    };
    let verify = match test.verify {
        Verify::None => "",
        Verify::Sample => ", one block in 16 verified",
        Verify::Full => ", every block verified",
    };
    let datapath = match test.datapath {
        Datapath::Copy => "datapath copy",
        Datapath::Zerocopy
            if test.phases > 2 && test.relays_pass_pages() && test.verify == Verify::None =>
        {
            "datapath zerocopy (relays did not read payload)"
        }
        Datapath::Zerocopy => "datapath zerocopy",
    };
    format!(
        "            {}, {} phases{streams}, blocks of {block}, {window}{length}, {datapath}{ends}{verify}{coupling}",
        test.pattern, test.phases
    )
}

fn totals(test: &TestRecord, figures: &Figures) -> String {
    let over = match (test.window_ns, test.span_ns) {
        (None, Some(span)) => format!(" over {} (until the last node finished)", show_ns(span)),
        _ => String::new(),
    };
    let total = show_rate(figures.total_gbit_per_s * 1e9);
    let same = show_rate(figures.same_host_gbit_per_s * 1e9);
    if figures.crosses_switch {
        format!("switch {total} one way{over}; same-host traffic {same}, not counted")
    } else {
        format!("between nodes {total} one way{over}; within nodes {same}, not counted")
    }
}

fn table(record: &Record, test: &TestRecord, figures: &Figures) -> Vec<String> {
    let mut ports = record.sheet.ports.iter();
    let known = ports.any(|port| port.ceiling_bits_per_s.is_some());
    let volume = test.window_ns.is_none();
    let width = label_width(figures.ports.iter().map(|port| &port.label));
    let own = if volume { "   own time s" } else { "" };
    let pad = if known { "         " } else { "" };
    let rates = figures.directions().map(|(.., rate)| rate);
    let scale = Scale::of(rates.fold(0.0, f64::max) * 1e9);
    let unit = scale.unit;
    let head = format!(
        "{:width$}  send {unit}{pad}  receive {unit}{pad}  retrans  busiest core{own}",
        "host"
    );
    let row = |port: &Port| {
        let label = &port.label;
        if let Some(at_ns) = port.lost_at_ns {
            let text = figures::lost_text(&record.plan.tests()[test.test], at_ns);
            return format!("{label:width$}  {text:>11}");
        }
        if !port.reported {
            return format!("{label:width$}  {:>11}  {:>14}", "no report", "no report");
        }
        let retransmits = or_dash(port.retransmits.map(|count| count.to_string()));
        let core = port.busiest_core;
        let core = or_dash(core.map(|share| format!("{:.0} %", share * 100.0)));
        let own = port.own_time_s.filter(|_| volume);
        let own = own.map_or_else(String::new, |seconds| format!("  {seconds:>11.3}"));
        // Empty if no port has a ceiling, blank if only this direction has no share of what was expected.
        let share = |links: usize, direction| {
            let share = directions::share(record, port, direction, test);
            match (known, share.filter(|_| links > 0)) {
                (false, _) => String::new(),
                (true, None) => "         ".to_owned(),
                (true, Some(share)) => format!("  {:>7}", percent(share)),
            }
        };
        let words = directions::words(record, label);
        format!(
            "{label:width$}  {:>11}{}  {:>14}{}  {retransmits:>7}  {core:>12}{own}{words}",
            carried(
                port.links_out,
                port.send_gbit_per_s,
                &port.lost_receivers,
                scale
            ),
            share(port.links_out, Direction::Send),
            carried(
                port.links_in,
                port.receive_gbit_per_s,
                &port.lost_senders,
                scale
            ),
            share(port.links_in, Direction::Receive),
        )
    };
    let least = |port: &&Port| match port.reported && port.lost_at_ns.is_none() {
        true => port.least_gbit_per_s(),
        false => 0.0,
    };
    let (shown, more) = worst(figures.ports.iter().collect(), least);
    let rows = shown.into_iter().map(row);
    [head].into_iter().chain(rows).chain(more).collect()
}

/// Cell with a rate in the unit of the table. `-` if the pattern has no links in this direction; no rate if the nodes at their other ends were lost.
fn carried(links: usize, gbit_per_s: f64, lost: &[usize], scale: Scale) -> String {
    match lost.is_empty() {
        true => or_dash((links > 0).then(|| scale.show(gbit_per_s * 1e9))),
        false => "no partner".to_owned(),
    }
}

fn links_that_limit(record: &Record, test: &TestRecord) -> Vec<String> {
    const SHOWN: usize = 6;
    let limiting = figures::limiting(test);
    if limiting.is_empty() || !test.complete {
        return Vec::new();
    }
    let [limits, starved, held_back] = match &test.sums {
        Some(sums) => [
            sums.total(|port| port.limiting),
            sums.total(|port| port.starved),
            sums.total(|port| port.held_back),
        ],
        None => [HeldBy::Limiting, HeldBy::Starved, HeldBy::HeldBack].map(|by| {
            let crossing = test.links.iter().filter(|link| link.crosses_switch);
            crossing.filter(|link| link.held_by == by).count()
        }),
    };
    let name = |link: &&LinkRecord| {
        let label = |node: usize| record.plan.nodes[node].label.as_str();
        let lane = &link.lane;
        format!(
            "{}->{} phase {}->{} {}",
            label(lane.from),
            label(lane.to),
            lane.boundary,
            lane.boundary + 1,
            show_rate(test.rate_of(link) * 1e9)
        )
    };
    let named: Vec<String> = limiting.iter().take(SHOWN).map(name).collect();
    let more = and_more(limits, SHOWN.min(limiting.len()), ", ");
    vec![
        format!("limiting    {}{more}", named.join(", ")),
        format!(
            "            {limits} of {} links limit; waiting for blocks: {starved}, for room at the reader: {held_back}",
            test.crossing_links()
        ),
    ]
}

fn checks(test: &TestRecord, figures: &Figures, plan: &Test) -> String {
    if !test.complete {
        return "checks: the run ended early; figures cover the time until then, and nothing was checked"
            .to_owned();
    }
    let mut checks = Vec::new();
    if let Bound::Time { warmup_ns, .. } = plan.bound {
        let spread = figures::steadiness(test, warmup_ns, figures.crosses_switch);
        checks.push(match (test.steady_from_s, spread) {
            (Some(from), _) => format!("steady from {from} s"),
            (None, Some(spread)) => {
                let each = match test.stretch_s {
                    1 => "seconds".to_owned(),
                    stretch => format!("stretches of {stretch} s"),
                };
                let word = if spread > 0.02 && test.seconds.len() >= 5 {
                    "not steady: "
                } else {
                    ""
                };
                let spread = spread * 100.0;
                format!("{word}{each} within {spread:.1} % of their mean")
            }
            (None, None) => "too short to see whether the rate was steady".to_owned(),
        });
    }
    let drift = test.clocks.iter().filter_map(ClockRecord::drift_ppm);
    if let Some(drift) = drift.reduce(f64::max) {
        let measured = test.clocks.first().map_or(0, |clock| clock.measured);
        checks.push(format!(
            "clocks drift up to {drift:.1} ppm, measured {measured} times"
        ));
    }
    if let Some(skew) = test.skew_ns {
        let window = test.window_ns.filter(|window| *window > 0);
        let part = window.map(|window| 100.0 * skew as f64 / window as f64);
        let part = part.map_or_else(String::new, |part| format!(" (rates within {part:.2} %)"));
        checks.push(format!("skew {:.1} ms{part}", skew as f64 / 1e6));
    }
    let conservation = &test.conservation;
    checks.push(format!(
        "{} of {} links sent = received",
        conservation.agreeing,
        conservation.links.saturating_sub(conservation.unchecked)
    ));
    if conservation.unchecked > 0 {
        let links = count(conservation.unchecked, "link");
        checks.push(format!("{links} to or from lost nodes not checked"));
    }
    let crosses = test.crosses_switch();
    let all_reported = test.nodes.iter().all(Option::is_some);
    if crosses && test.wires.is_empty() && all_reported {
        checks.push("interface counters agree".to_owned());
    }
    let strangers = sum(test.nodes.iter().flatten().map(|node| node.strangers));
    if strangers > 0 {
        let strangers = usize::try_from(strangers).unwrap_or(usize::MAX);
        checks.push(format!("{} closed", count(strangers, "foreign connection")));
    }
    let mut text = format!("checks: {}", checks.join("; "));
    for fault in &conservation.faults {
        text.push_str(&format!("\n        {fault}"));
    }
    text
}

/// Cores in use by role on the host that uses most, and CPU seconds per gigabyte over all hosts.
fn cpu(record: &Record, test: &TestRecord) -> Option<String> {
    let mut hosts: BTreeMap<usize, [f64; 4]> = BTreeMap::new();
    let mut spent_ns: u64 = 0;
    for (node, measured) in test.nodes.iter().enumerate() {
        let Some(measured) = measured else {
            if record.missing.is_empty() {
                return None;
            }
            continue;
        };
        if measured.interval_ns == 0 {
            return None;
        }
        let cpu = &measured.cpu;
        let roles = [cpu.senders_ns, cpu.receivers_ns, cpu.phases_ns, cpu.node_ns];
        spent_ns = spent_ns.saturating_add(sum(roles.into_iter()));
        let sums = hosts.entry(record.hosts[node].host_index).or_default();
        for (sum, ns) in sums.iter_mut().zip(roles) {
            *sum += ns as f64 / measured.interval_ns as f64;
        }
    }
    let reported = test.nodes.iter().flatten();
    let moved = match test.sums {
        Some(_) => sum(reported.flat_map(|node| [node.received_bytes, node.same_host_bytes])),
        None => sum(test.links.iter().map(|link| link.interval_bytes)),
    };
    let total = |roles: &[f64; 4]| roles.iter().sum::<f64>();
    let (host, roles) = hosts
        .iter()
        .max_by(|a, b| total(a.1).total_cmp(&total(b.1)))?;
    if moved == 0 {
        return None;
    }
    let cost = spent_ns as f64 / moved as f64;
    let [senders, receivers, phases, node] = roles;
    Some(format!(
        "cpu: {}: senders {senders:.2}, receivers {receivers:.2}, phases {phases:.2}, \
         node {node:.2} cores; {cost:.3} CPU seconds per GB over all links",
        record.hosts[*host].node
    ))
}

fn notes(record: &Record, test: &TestRecord, plan: &Test) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(lacks_of_reserved_pages(record, plan));
    notes.extend(wires::short_paths(record, test));
    let crosses = test.crosses_switch();
    // Without a switch no option makes the run an acceptance.
    if record.verdict.word == VerdictWord::NotJudged && crosses {
        notes.push(
            "screening only; for acceptance use --link-speed and --profile acceptance".to_owned(),
        );
    }
    if plan.phases > 2 && crosses {
        notes.push(format!(
            "with {} phases the rates i->j and j->i are equal by construction; use --phases 2 to find the direction of a fault",
            plan.phases
        ));
    }
    notes
}

/// Note on `--huge`: the hosts with too few reserved large pages, or the fact that no shared buffer would use them.
fn lacks_of_reserved_pages(record: &Record, plan: &Test) -> Option<String> {
    if !plan.huge {
        return None;
    }
    let needed = size::reserved_bytes_per_node(plan, record.plan.nodes.len());
    if needed == 0 {
        return Some("--huge had no effect: no two processes share a buffer here".to_owned());
    }
    let on_host = |first: usize| {
        let mut all = record.hosts.iter();
        all.by_ref().filter(|host| host.host_index == first).count()
    };
    let lacks = |host: &&HostRecord| {
        let all = needed.saturating_mul(on_host(host.host_index)) as u64;
        all > host.facts.reserved_pages_bytes
    };
    let short = record.hosts.iter().filter(lacks);
    let short: Vec<String> = short.map(|host| host.node.clone()).collect();
    let each = show_bytes(needed as u64);
    (!short.is_empty()).then(|| {
        format!(
            "{}: --huge needs {each} of reserved large pages per node, and the host has fewer: ordinary pages were used \
             (sysctl vm.nr_hugepages)",
            launcher::hosts::shorten(&fold(&short))
        )
    })
}

/// At most 8 lines for failures of the same kind as the first one, first cause first. Hosts with the same failure share a line.
/// All other failures follow from the first and are only counted.
pub fn troubles(troubles: &[Trouble]) -> Vec<String> {
    let Some(first) = troubles.first() else {
        return Vec::new();
    };
    let alike = troubles.iter().filter(|trouble| trouble.kind == first.kind);
    let followers = troubles.len() - alike.clone().count();
    let alike = alike.map(|trouble| (trouble.text(), trouble.node.clone()));
    // A node that reports the same failure again counts once.
    let mut known = HashSet::new();
    let lines = grouped(alike.filter(|one| known.insert(one.clone())));
    const SHOWN: usize = 8;
    let more = lines.len().saturating_sub(SHOWN) + followers;
    let shown = lines.into_iter().take(SHOWN);
    let mut shown: Vec<String> = shown.map(|(text, nodes)| of_nodes(nodes, text)).collect();
    if more > 0 {
        shown.push(format!(
            "({more} more failures follow from this; all are in the record)"
        ));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;

    /// Symptom: the last line of a FAIL did not say what to do, and that of a run without criteria named no port.
    #[test]
    fn the_last_line_has_the_weakest_port_and_the_next_step() {
        let last = |text: &str| {
            let record = json::read(text).unwrap();
            last_line(&record, &summary(&record))
        };
        let fail = last(include_str!("../../tests/golden/slow-receiver/record.json"));
        assert!(fail.starts_with("\nFAIL  n3 receive "), "{fail}");
        assert!(fail.contains("; next: move n3's cable"), "{fail}");
        let open = last(include_str!("../../tests/golden/undecided/record.json"));
        assert!(open.contains("; to decide: "), "{open}");
        let bare = last(include_str!("../../tests/golden/one-host/record.json"));
        assert!(bare.starts_with("\nNOT JUDGED  "), "{bare}");
        assert!(bare.contains(": weakest local1 send "), "{bare}");
        assert_eq!(bare.lines().count(), 2, "{bare}");
    }

    /// Symptom: the row of a port far below its floor looked like those of healthy ports.
    #[test]
    fn the_row_of_a_port_below_its_floor_ends_with_the_verdict() {
        let said = |text: &str| summary(&json::read(text).unwrap());
        let slow = said(include_str!("../../tests/golden/slow-receiver/record.json"));
        let rows = slow.lines().filter(|line| line.ends_with("  receive FAIL"));
        let rows: Vec<&str> = rows.collect();
        assert!(
            matches!(rows[..], [row] if row.starts_with("n3  ")),
            "{slow}"
        );
        let limited = said(include_str!("../../tests/golden/host-limited/record.json"));
        assert!(limited.contains("  send HOST-LIMITED\n"), "{limited}");
    }
}
