//! Tables of the page: the worst port directions, uplinks, interfaces, changes, hosts, exclusions, tests, and the conditions of test.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::judge::names::{floor_in_full, name_of};
use crate::judge::view::View;
use crate::plan::{Pattern, Purpose};
use crate::record::{
    Culprit, DirectionSheet, FaultSheet, HostRecord, InterfaceCounters, Outcome, PortSheet, Record,
    TestRecord, VerdictWord,
};
use crate::units::{Scale, show_ns, show_rate, sum};

use crate::report::compare::{CAUTION, Comparison, Row, TOLERANCE};
use crate::report::figures::{Figures, Port};
use crate::report::wires as interfaces;
use crate::report::{
    count, directions, fold, grouped, header, judged, or_dash, percent, preflight, quoted,
};

use super::table::table;

/// Maximum number of rows in tables that show only the worst.
const WORST: usize = 10;

/// The worst port directions, with their rates under load and alone. What is at fault and is no port direction comes first.
pub(super) fn worst(record: &Record) -> Markup {
    let sheet = &record.sheet;
    let mut rows: Vec<(usize, bool, &PortSheet, DirectionSheet)> = Vec::new();
    for (number, port) in sheet.ports.iter().enumerate() {
        rows.extend(port.send.map(|one| (number, true, port, one)));
        rows.extend(port.receive.map(|one| (number, false, port, one)));
    }
    if rows.is_empty() {
        return html! {};
    }
    let rank = |one: &DirectionSheet| match one.word {
        VerdictWord::Fail => 0,
        VerdictWord::Undecided => 1,
        VerdictWord::HostLimited => 2,
        _ => 3,
    };
    let key = |one: &DirectionSheet| one.share_under_load().unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| {
        let shares = key(&a.3).total_cmp(&key(&b.3));
        let rates = a.3.rate_bits_per_s.total_cmp(&b.3.rate_bits_per_s);
        rank(&a.3).cmp(&rank(&b.3)).then(shares).then(rates)
    });
    let all = rows.len();
    rows.truncate(WORST);
    let alone = alone(record);
    let is_elsewhere = |fault: &&FaultSheet| {
        let of_port = matches!(fault.culprit, Culprit::Send(_) | Culprit::Receive(_));
        !of_port && !fault.kind.is_of_losses()
    };
    let elsewhere = sheet.faults.iter().filter(is_elsewhere).take(WORST);
    let elsewhere: Vec<FaultRow> = elsewhere.map(|fault| FaultRow::of(record, fault)).collect();
    let most = rows.iter().map(|(.., one)| one.most_bits_per_s);
    let most = most.chain(elsewhere.iter().map(|fault| fault.expected));
    let scale = Scale::of(most.fold(0.0, f64::max));
    let rate = |rate: Option<f64>| rate.map_or_else(String::new, |rate| scale.show(rate));
    let number = |test: usize| directions::number(record, test);
    let culprit = |port: usize, sends: bool| match sends {
        true => Culprit::Send(port),
        false => Culprit::Receive(port),
    };
    html! {
        section #worst {
            h2 { @if all > WORST { "The " (WORST) " worst of " (all) " port directions" } @else { "Port directions, worst first" } }
            (table(html! {
                th { "port" } th { "direction" } th .number { (scale.unit) } th .number { "expected, " (scale.unit) } th .number { "share of expected" } th .number { "test" } th .number { "most, " (scale.unit) } th .number title="the highest rate in retests, in which a port carries at most one link each way" { "in isolation, " (scale.unit) } th { "verdict" }
            }, html! {
                @for fault in &elsewhere {
                    tr {
                        td { (fault.name) }
                        td { (fault.what) }
                        td .number { (scale.show(fault.rate)) }
                        td .number { (scale.show(fault.expected)) }
                        td .number { (percent(fault.share)) }
                        td {} td {}
                        td .number { (rate(fault.alone)) }
                        td data-word=(fault.word) { (fault.word) }
                    }
                }
                @for (port, sends, sheet, one) in &rows {
                    @let (loaded, expected, test) = one.under_load();
                    tr {
                        td { (sheet.label) }
                        td { @if *sends { "send" } @else { "receive" } }
                        td .number { (scale.show(loaded)) }
                        td .number { (rate(expected)) }
                        td .number { (one.share_under_load().map_or_else(String::new, percent)) }
                        td .number { @if let Some(number) = number(test) { (number) } }
                        td .number { (scale.show(one.most_bits_per_s)) }
                        td .number { (rate(alone.get(&(*port, *sends)).copied())) }
                        td data-word=(one.word) { (directions::word(record, &culprit(*port, *sends), one)) }
                    }
                }
            }))
        }
    }
}

/// Row of a fault that is no port direction.
struct FaultRow {
    name: String,
    /// What it is, where the name does not say so.
    what: &'static str,
    word: VerdictWord,
    rate: f64,
    expected: f64,
    share: f64,
    /// Rate of all of it in a retest with no other load, in bits per second.
    alone: Option<f64>,
}

impl FaultRow {
    fn of(record: &Record, fault: &FaultSheet) -> Self {
        let together = fault.steps.last().map(|step| step.rate_bits_per_s);
        let single = fault.direct_evidence().filter(|one| one.width == 1);
        let single = single.map(|one| one.rate_bits_per_s).reduce(f64::max);
        Self {
            name: name_of(&record.plan, &record.sheet, fault),
            what: match fault.culprit {
                Culprit::Pair(..) => "pair",
                _ => "",
            },
            word: fault.word,
            rate: fault.rate_bits_per_s,
            expected: fault.rate_bits_per_s / fault.share.max(1e-9),
            share: fault.share,
            alone: together.or(single),
        }
    }
}

/// The highest rate of each port direction in isolated tests at full rate, in bits per second, by port and direction (true for sending). In these
/// tests the link is alone, or alone at its port. Links that a fault at the other end held down do not count, since they say nothing about this port.
fn alone(record: &Record) -> BTreeMap<(usize, bool), f64> {
    let view = View::of(&record.plan, &record.hosts, record.measured());
    let faults = record.sheet.faults.iter();
    let at_fault = |culprit: Culprit| faults.clone().any(|fault| fault.culprit == culprit);
    let looks = view.observations.iter();
    let looks = looks.filter(|one| one.isolated && !one.paced && one.is_single(&view.fabric));
    let mut most: BTreeMap<(usize, bool), f64> = BTreeMap::new();
    for link in looks.flat_map(|one| &one.links) {
        if at_fault(Culprit::Pair(link.from, link.to)) {
            continue;
        }
        let ends = [
            (link.from, true, Culprit::Receive(link.to)),
            (link.to, false, Culprit::Send(link.from)),
        ];
        for (port, sends, other) in ends {
            if !at_fault(other) {
                let known = most.entry((port, sends)).or_default();
                *known = known.max(link.rate);
            }
        }
    }
    most
}

/// Rates of the uplinks of groups whose speed is known.
pub(super) fn uplinks(record: &Record) -> Markup {
    let rows = record.sheet.uplinks.iter().enumerate();
    let rows = rows.flat_map(|(number, uplink)| {
        let both = [
            (Culprit::Up(number), "out", uplink.up),
            (Culprit::Down(number), "in", uplink.down),
        ];
        both.map(|(culprit, way, one)| Some((uplink.group.as_str(), culprit, way, one?)))
    });
    let rows: Vec<_> = rows.flatten().collect();
    let most = rows.iter().map(|(.., one)| one.most_bits_per_s);
    let scale = Scale::of(most.fold(0.0, f64::max));
    html! {
        @if !rows.is_empty() {
            section #uplinks {
                h2 { "Uplinks" }
                (table(html! { th { "group" } th { "direction" } th .number { "least, " (scale.unit) } th .number { "share of expected" } th .number { "most, " (scale.unit) } th { "verdict" } }, html! {
                    @for (group, culprit, way, one) in &rows {
                        tr {
                            td { (group) } td { (way) }
                            td .number { (scale.show(one.under_load().0)) }
                            td .number { @if let Some(share) = one.share_under_load() { (percent(share)) } }
                            td .number { (scale.show(one.most_bits_per_s)) }
                            td data-word=(one.word) { (directions::word(record, culprit, one)) }
                        }
                    }
                }))
            }
        }
    }
}

/// Contradictions between interface counters and payload.
pub(super) fn wires(record: &Record) -> Markup {
    let tests: Vec<&TestRecord> = record.tests().iter().collect();
    let lines = interfaces::of_all(record, &tests);
    html! {
        @if !lines.is_empty() {
            section #wires {
                h2 { "Interface counters compared with payload" }
                ul { @for line in lines.iter().take(WORST) { li { (line) } } }
            }
        }
    }
}

/// Changes since an earlier run. Empty without a comparison.
pub(super) fn baseline(comparison: Option<&Comparison>) -> Markup {
    let Some(comparison) = comparison else {
        return html! {};
    };
    let [before, _] = &comparison.names;
    html! {
        section #baseline {
            h2 { "Compared with " (before) ", " (comparison.words[0]) }
            @for text in &comparison.faults { p { (text) } }
            @for name in &comparison.new { p { "new: " (name) " FAIL" } }
            @for text in &comparison.conditions { p .note { "not the same: " (text) } }
            @if !comparison.conditions.is_empty() && !comparison.rows.is_empty() { p .note { (CAUTION) } }
            (changes(comparison, WORST))
        }
    }
}

/// Figures before and now, in at most `most` rows.
pub fn changes(comparison: &Comparison, most: usize) -> Markup {
    let (measure, largest) = (comparison.measure, comparison.largest());
    let unit = measure.unit(largest);
    let show = |one| measure.show(one, largest);
    let cell = |figure: Option<f64>| figure.map_or_else(String::new, show);
    let rows = || comparison.rows.iter().take(most);
    let is_worse = |row: &Row| comparison.is_worse(row, TOLERANCE);
    let word = |row: &Row| is_worse(row).then_some(VerdictWord::Fail);
    let figures = |row: &Row| {
        html! {
            td { (row.name) }
            td .number { (cell(row.before)) }
            td .number { (cell(row.now)) }
            td .number data-word=[word(row)] { (row.shown_change().unwrap_or_default()) }
        }
    };
    html! {
        @if rows().any(is_worse) { p .note { "Red: worse by more than " (TOLERANCE) " %." } }
        (table(html! { th { (comparison.of) } th .number { "before, " (unit) } th .number { "now, " (unit) } th .number { "change" } }, html! {
            @if let Some(total) = comparison.total() { tr .total { (figures(&total)) } }
            @for row in rows() { tr { (figures(row)) } }
        }))
    }
}

/// Facts of hosts that have a row in common: data ports, switch, group, processors, software, and the way to them.
type HostFacts = [String; 6];

/// True if a counter of errors of a node is not zero: its host has its own row.
fn has_errors(record: &Record, node: usize) -> bool {
    let of_node = record
        .tests()
        .iter()
        .filter_map(|test| test.nodes.get(node)?.as_ref());
    let mut counters = of_node.flat_map(|one| &one.interfaces);
    counters.any(|(_, all)| {
        let kinds = [all.crc_errors, all.fec_uncorrectable, all.missed];
        all.errors > 0 || all.drops > 0 || kinds.into_iter().flatten().any(|count| count > 0)
    })
}

fn host_facts(record: &Record, node: usize, host: &HostRecord) -> HostFacts {
    let rails = host.rails.iter();
    let ports: Vec<String> = rails.map(|rail| header::port(host, rail)).collect();
    let spec = &record.plan.nodes[node];
    [
        ports.join(", "),
        spec.switch.clone().unwrap_or_default(),
        spec.group.clone().unwrap_or_default(),
        format!("{} x {}", host.facts.cores, host.facts.cpu),
        format!("{}, {}", host.facts.kernel, host.facts.congestion),
        host.transport.clone(),
    ]
}

/// Hosts with their facts and counters; hosts with the same facts have one row. A column without any value is left out.
pub(super) fn hosts(record: &Record) -> Markup {
    if record.hosts.is_empty() {
        return html! {};
    }
    let mut rails: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for port in &record.sheet.ports {
        if let Some(at) = &port.at {
            rails.entry(port.node).or_default().push(at.to_string());
        }
    }
    let hosts = record.hosts.iter().enumerate();
    let rows = grouped(hosts.map(|(node, host)| {
        let own = has_errors(record, node).then_some(host.host_index);
        ((host_facts(record, node, host), own), node)
    }));
    let row = |facts: &HostFacts, nodes: &[usize]| {
        let names: Vec<String> = nodes
            .iter()
            .map(|node| record.hosts[*node].node.clone())
            .collect();
        let measured = || {
            let tests = record.tests().iter();
            tests.flat_map(|test| {
                nodes
                    .iter()
                    .filter_map(|node| test.nodes.get(*node)?.as_ref())
            })
        };
        let cores = measured().filter_map(|one| one.busiest_core);
        let core = cores.reduce(f64::max);
        // All nodes of a host read the same counters.
        let first = |node: &&usize| record.hosts[**node].host_index == **node;
        let interfaces = || {
            let tests = record.tests().iter();
            let once = tests.flat_map(|test| {
                let firsts = nodes.iter().filter(first);
                firsts.filter_map(|node| test.nodes.get(*node)?.as_ref())
            });
            once.flat_map(|one| &one.interfaces)
        };
        let total = |of: fn(&InterfaceCounters) -> Option<u64>| {
            let all = interfaces().filter_map(|(_, all)| of(all));
            all.reduce(u64::saturating_add).map(|sum| sum.to_string())
        };
        let [ports, switch, group, processors, software, transport] = facts.clone();
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        // Every host has its own port.
        let at = nodes.iter().filter_map(|node| {
            let spec = &record.plan.nodes[*node];
            let port = match rails.get(node) {
                Some(ports) => ports.join(" and "),
                None => spec.switch_port.clone()?,
            };
            Some(match nodes.len() {
                1 => port,
                _ => format!("{} {port}", spec.label),
            })
        });
        let at = [switch, at.collect::<Vec<_>>().join(", "), group];
        let at: Vec<String> = at.into_iter().filter_map(text).collect();
        [
            text(fold(&names)),
            text(ports),
            text(at.join(" ")),
            text(processors),
            text(software),
            text(transport),
            core.map(|core| format!("{:.0} %", core * 100.0)),
            text(sum(measured().map(|one| one.retransmits)).to_string()),
            total(|all| Some(all.errors)),
            total(|all| Some(all.drops)),
            // A counter that the driver does not report is a dash, not zero.
            total(|all| all.crc_errors),
            total(|all| all.fec_uncorrectable),
            total(|all| all.missed),
            total(|all| all.pauses_sent),
        ]
    };
    let rows: Vec<_> = rows
        .iter()
        .map(|((facts, _), nodes)| row(facts, nodes))
        .collect();
    let shown: Vec<usize> = (0..HOST_COLUMNS.len())
        .filter(|column| rows.iter().any(|row| row[*column].is_some()))
        .collect();
    let class = |column: usize| (column >= HOST_FACTS).then_some("number");
    html! {
        section #hosts {
            h2 { "Hosts" }
            (table(html! {
                @for column in &shown { th class=[class(*column)] { (HOST_COLUMNS[*column]) } }
            }, html! {
                @for row in &rows {
                    tr { @for column in &shown { td class=[class(*column)] { (or_dash(row[*column].clone())) } } }
                }
            }))
        }
    }
}

/// Columns of the table of hosts.
const HOST_COLUMNS: [&str; 14] = [
    "host",
    "data ports",
    "switch port",
    "processors",
    "kernel, congestion control",
    "reached by",
    "busiest core",
    "retransmits",
    "errors",
    "drops",
    "CRC errors",
    "FEC errors",
    "missed",
    "pauses sent",
];
/// The first columns of hosts are facts, the others counters.
const HOST_FACTS: usize = 6;

/// Named nodes and port directions that were not judged, and the sheet's remarks.
pub(super) fn excluded(record: &Record) -> Markup {
    let directions = record.sheet.directions();
    let open = directions
        .filter(|(.., one)| matches!(one.word, VerdictWord::NotJudged | VerdictWord::HostLimited));
    let open = grouped(open.map(|(port, way, one)| {
        let label = (port.label.clone(), one.most_bits_per_s);
        ((way, one.word.to_string()), label)
    }));
    let unloaded = record.sheet.ports.iter();
    let unloaded = unloaded.filter(|port| port.send.is_none() && port.receive.is_none());
    let unloaded: Vec<String> = unloaded.map(|port| port.label.clone()).collect();
    let proven = |ports: &[(String, f64)]| {
        let least = ports.iter().map(|(_, most)| *most).reduce(f64::min);
        let more = if ports.len() > 1 { " or more" } else { "" };
        format!("{}{more}", show_rate(least.unwrap_or(0.0)))
    };
    let labels = |ports: &[(String, f64)]| {
        let labels: Vec<String> = ports.iter().map(|(label, _)| label.clone()).collect();
        fold(&labels)
    };
    let remarks = &record.sheet.remarks;
    if record.missing.is_empty() && open.is_empty() && unloaded.is_empty() && remarks.is_empty() {
        return html! {};
    }
    html! {
        section #excluded {
            h2 { "Not judged" }
            ul {
                @for one in &record.missing { li { (one.node) ": " (one.what) } }
                @if !unloaded.is_empty() { li { (fold(&unloaded)) ": no traffic that can be judged" } }
                @for ((direction, word), ports) in &open {
                    li { (labels(ports)) " " (direction) ": " (word) ", proven up to " (proven(ports)) }
                }
                @for remark in remarks { li { (remark) } }
            }
        }
    }
}

/// Every test with its weakest port.
pub(super) fn tests(record: &Record) -> Markup {
    let tests: Vec<(&TestRecord, Figures)> = record
        .tests()
        .iter()
        .map(|test| (test, Figures::of(record, test)))
        .collect();
    if tests.is_empty() {
        return html! {};
    }
    let most = tests.iter().map(|(_, figures)| figures.total_gbit_per_s);
    let scale = Scale::of(most.fold(0.0, f64::max) * 1e9);
    let row = |test: &TestRecord, figures: &Figures| {
        let plan = &record.plan.tests()[test.test];
        let known = |port: &Port, direction| directions::is_at_fault(record, port, direction);
        let weakest = figures.weakest_but(&known);
        let weakest = weakest.map(|(port, direction, rate)| {
            format!("{} {direction} {}", port.label, show_rate(rate * 1e9))
        });
        let purpose = match plan.purpose {
            Purpose::Load => "load",
            Purpose::Loss => "loss, paced",
            Purpose::Isolated => "suspects in isolation",
            Purpose::Check => "links alone",
        };
        let length = test.window_ns.or(test.span_ns).map(show_ns);
        html! {
            tr {
                td .number { (test.test + 1) }
                td { (links(record, &plan.pattern)) ", " (plan.phases) " phases" }
                td { (purpose) }
                td .number { (length.unwrap_or_default()) }
                td .number { (scale.show(figures.total_gbit_per_s * 1e9)) }
                td { (weakest.unwrap_or_default()) }
                td { (test.conservation.agreeing) " of " (test.conservation.links) }
                td .number { (test.skew_ns.map_or_else(String::new, |skew| format!("{:.1} ms", skew as f64 / 1e6))) }
                td { @if !test.complete { "ended early" } @else if let Some(from) = test.steady_from_s { "steady from " (from) " s" } }
            }
        }
    };
    html! {
        section #tests {
            h2 { "Tests" }
            details open[tests.len() <= 12] {
                summary { (count(tests.len(), "test")) }
                (table(html! {
                    th .number { "test" } th { "pattern" } th { "purpose" } th .number { "window" } th .number { "one way, " (scale.unit) } th { "weakest" }
                    th { "links sent = received" } th .number { "skew" } th { "note" }
                }, html! {
                    @for (test, figures) in &tests { (row(test, figures)) }
                }))
            }
        }
    }
}

/// A pattern as text; a few chosen links by their names.
fn links(record: &Record, pattern: &Pattern) -> String {
    /// Most links that are named.
    const FEW: usize = 4;
    let label = |node: usize| {
        let node = record.plan.nodes.get(node);
        node.map_or("", |node| node.label.as_str())
    };
    match pattern {
        Pattern::Links(links) if links.len() <= FEW => {
            let links = links.iter();
            let links = links.map(|(from, to)| format!("{}->{}", label(*from), label(*to)));
            links.collect::<Vec<_>>().join(", ")
        }
        _ => pattern.to_string(),
    }
}

/// Conditions and criteria of the measurement.
pub(super) fn conditions(record: &Record) -> Markup {
    let criteria = &record.plan.criteria;
    let (has_floor, has_loss) = match &record.outcome {
        Outcome::Acceptance(_) => (true, true),
        Outcome::Linktest(_) => (true, false),
        Outcome::Latency(_) | Outcome::Imb(_) => (false, false),
    };
    let untold = preflight::untold(record);
    let own_mtus = record.plan.nodes.iter();
    let own_mtus = own_mtus.filter_map(|node| Some(format!("{} {}", node.label, node.mtu_bytes?)));
    let own_mtus: Vec<String> = own_mtus.collect();
    html! {
        section #conditions {
            h2 { "Conditions of test" }
            dl {
                @if let Some(site) = &record.plan.site {
                    @for (name, text) in site.said() { dt { (name) } dd { (text) } }
                }
                @if let Some(text) = judged::taken_over(record) { dt { "resumed" } dd { (text) } }
                dt { "tool" } dd { "pipebench " (record.tool_version) ", every host runs an executable of this version; that of the launching machine has SHA-256 " code { (record.tool_digest) } }
                dt { "command" } dd { code { "pipebench " (quoted(&record.command)) } }
                @if has_floor { dt { "floor" } dd { (floor_in_full(&record.plan)) " in every test" } }
                @if has_loss {
                    dt { "loss" }
                    dd { (format!("at most {:.0e} of segments without contention", criteria.loss)) @if !directions::looks_for_losses(&record.plan) { "; no test of this run looks for losses" } }
                }
                @for (name, text) in criteria.said().iter().filter_map(|one| one.condition.as_ref()) { dt { (name) } dd { (text) } }
                @if !own_mtus.is_empty() { dt { "MTU of individual hosts" } dd { (own_mtus.join(", ")) " as specified" } }
                @if has_floor { dt { "speed" } dd { (judged::speeds(record)) } }
                @if !untold.is_empty() { dt { "not counted" } dd { (untold.join(", ")) } }
            }
            details {
                summary { (count(record.options.len(), "option")) " in effect" }
                dl { @for (name, value) in &record.options { dt { (name) } dd { (value) } } }
            }
            @if let Some(sealed) = &record.seal {
                details {
                    summary { "Sealed before the start: the exact text that is hashed" }
                    pre { (sealed) }
                }
            }
            @if !record.notices.is_empty() {
                h3 { "Notices" }
                ul { @for notice in &record.notices { li { (notice) } } }
            }
        }
    }
}
