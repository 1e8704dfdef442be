//! Tables of the page: the worst port directions, uplinks, interfaces, changes, hosts, exclusions, tests, and the conditions of test.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::judge::names::floor_in_full;
use crate::judge::view::View;
use crate::plan::Purpose;
use crate::record::{
    Culprit, DirectionSheet, HostRecord, InterfaceCounters, Outcome, PortSheet, Record, TestRecord,
    VerdictWord,
};
use crate::units::{Scale, show_gbit, show_ns, sum};

use crate::report::compare::Comparison;
use crate::report::figures::{Figures, Port};
use crate::report::wires as interfaces;
use crate::report::{
    count, directions, fold, grouped, header, judged, or_dash, percent, preflight, quoted,
};

use super::table::table;

/// Maximum number of rows in tables that show only the worst.
const WORST: usize = 10;

/// The worst port directions, with their rates under load and alone.
pub(super) fn worst(record: &Record) -> Markup {
    let mut rows: Vec<(usize, bool, &PortSheet, DirectionSheet)> = Vec::new();
    for (number, port) in record.sheet.ports.iter().enumerate() {
        rows.extend(port.send.map(|one| (number, true, port, one)));
        rows.extend(port.receive.map(|one| (number, false, port, one)));
    }
    if rows.is_empty() {
        return html! {};
    }
    let key = |one: &DirectionSheet| one.share.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| {
        let shares = key(&a.3).total_cmp(&key(&b.3));
        shares.then(a.3.rate_bits_per_s.total_cmp(&b.3.rate_bits_per_s))
    });
    let all = rows.len();
    rows.truncate(WORST);
    let alone = alone(record);
    let most = rows.iter().map(|(.., one)| one.most_bits_per_s);
    let scale = Scale::of(most.fold(0.0, f64::max));
    let is_above = rows
        .iter()
        .any(|(.., one)| one.share.is_some_and(|share| share > 1.005));
    let pairs = record
        .sheet
        .faults
        .iter()
        .filter_map(|fault| match fault.culprit {
            Culprit::Pair(from, to) => Some((from, to, fault)),
            _ => None,
        });
    let pairs: Vec<_> = pairs.collect();
    html! {
        section #worst {
            h2 { @if all > WORST { "The " (WORST) " worst of " (all) " port directions" } @else { "Port directions, worst first" } }
            (table(html! {
                th { "port" } th { "direction" } th .number { (scale.unit) } th .number { "expected, " (scale.unit) } th .number { "share of expected" } th .number { "test" } th .number { "most, " (scale.unit) } th .number title="the highest rate in retests, in which a port carries at most one link each way" { "in isolation, " (scale.unit) } th { "verdict" }
            }, html! {
                @for (from, to, fault) in &pairs {
                    tr {
                        td { (record.sheet.label(*from)) "->" (record.sheet.label(*to)) }
                        td { "pair" }
                        td .number { (scale.show(fault.rate_bits_per_s)) }
                        td {} td .number { (percent(fault.share)) } td {} td {} td {}
                        td { (fault.word) }
                    }
                }
                @for (number, sends, port, one) in &rows {
                    tr {
                        td { (port.label) }
                        td { @if *sends { "send" } @else { "receive" } }
                        td .number { (scale.show(one.rate_bits_per_s)) }
                        td .number { (one.expected_bits_per_s.map_or_else(String::new, |rate| scale.show(rate))) }
                        td .number { (one.share.map_or_else(String::new, percent)) }
                        td .number { @if let Some(number) = directions::number(record, one.test) { (number) } }
                        td .number { (scale.show(one.most_bits_per_s)) }
                        td .number { @if let Some(rate) = alone.get(&(*number, *sends)) { (scale.show(*rate)) } }
                        td { (one.word) }
                    }
                }
            }))
            @if is_above { p .note { "A share above 100 % is a burst at the edges of the window, or a limiter that lets bursts pass." } }
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
    let rows = record.sheet.uplinks.iter().flat_map(|uplink| {
        let both = [(uplink.up, "out"), (uplink.down, "in")];
        both.map(|(one, way)| Some((uplink.group.as_str(), way, one?)))
    });
    let rows: Vec<_> = rows.flatten().collect();
    html! {
        @if !rows.is_empty() {
            section #uplinks {
                h2 { "Uplinks" }
                (table(html! { th { "group" } th { "direction" } th { "verdict" } th .number { "least, Gbit/s" } th .number { "of the expected" } th .number { "most, Gbit/s" } }, html! {
                    @for (group, way, one) in rows {
                        tr {
                            td { (group) } td { (way) } td { (one.word) }
                            td .number { (show_gbit(one.rate_bits_per_s / 1e9)) }
                            td .number { @if let Some(share) = one.share { (percent(share)) } }
                            td .number { (show_gbit(one.most_bits_per_s / 1e9)) }
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
            (changes(comparison, WORST))
        }
    }
}

/// Figures before and now, in at most `most` rows.
pub fn changes(comparison: &Comparison, most: usize) -> Markup {
    let measure = comparison.measure;
    let cell = |figure: Option<f64>| figure.map_or_else(String::new, |one| measure.show(one));
    html! {
        (table(html! { th { (comparison.of) } th .number { "before, " (measure.unit()) } th .number { "now, " (measure.unit()) } th .number { "change" } }, html! {
            @for row in comparison.rows.iter().take(most) {
                tr {
                    td { (row.name) }
                    td .number { (cell(row.before)) }
                    td .number { (cell(row.now)) }
                    td .number { (row.change().map_or_else(String::new, |change| format!("{:+.1} %", change * 100.0))) }
                }
            }
        }))
    }
}

/// Facts of hosts that have a row in common: data ports, place, processors, software, and the way to them.
type HostFacts = [String; 5];

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
    let at = [&spec.switch, &spec.switch_port, &spec.group];
    let at: Vec<&str> = at.into_iter().flatten().map(String::as_str).collect();
    [
        ports.join(", "),
        at.join(" "),
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
        let [ports, at, processors, software, transport] = facts.clone();
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        [
            text(fold(&names)),
            text(ports),
            text(at),
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
    html! {
        section #hosts {
            h2 { "Hosts" }
            (table(html! {
                @for column in &shown { th .number[*column >= HOST_FACTS] { (HOST_COLUMNS[*column]) } }
            }, html! {
                @for row in &rows {
                    tr { @for column in &shown { td .number[*column >= HOST_FACTS] { (or_dash(row[*column].clone())) } } }
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
    let open: Vec<(&PortSheet, &str, DirectionSheet)> = directions
        .filter(|(_, _, one)| matches!(one.word, VerdictWord::NotJudged | VerdictWord::HostLimited))
        .collect();
    let unloaded: Vec<&PortSheet> = record
        .sheet
        .ports
        .iter()
        .filter(|port| port.send.is_none() && port.receive.is_none())
        .collect();
    let remarks = &record.sheet.remarks;
    if record.missing.is_empty() && open.is_empty() && unloaded.is_empty() && remarks.is_empty() {
        return html! {};
    }
    html! {
        section #excluded {
            h2 { "Not judged" }
            ul {
                @for one in &record.missing { li { (one.node) ": " (one.what) } }
                @for port in unloaded { li { (port.label) ": it carried no traffic that can be judged" } }
                @for (port, direction, one) in open {
                    li { (port.label) " " (direction) ": " (one.word) ", proven up to " (show_gbit(one.most_bits_per_s / 1e9)) " Gbit/s" }
                }
                @for remark in remarks { li { (remark) } }
            }
        }
    }
}

/// Every test with its weakest port.
pub(super) fn tests(record: &Record) -> Markup {
    let row = |test: &TestRecord| {
        let plan = &record.plan.tests()[test.test];
        let figures = Figures::of(record, test);
        let known = |port: &Port, direction| directions::is_at_fault(record, port, direction);
        let weakest = figures.weakest_but(&known);
        let weakest = weakest.map(|(port, direction, rate)| {
            format!("{} {direction} {}", port.label, show_gbit(rate))
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
                td { (plan.pattern) ", " (plan.phases) " phases" }
                td { (purpose) }
                td .number { (length.unwrap_or_default()) }
                td .number { (show_gbit(figures.total_gbit_per_s)) }
                td { (weakest.unwrap_or_default()) }
                td { (test.conservation.agreeing) " of " (test.conservation.links) }
                td .number { (test.skew_ns.map_or_else(String::new, |skew| format!("{:.1} ms", skew as f64 / 1e6))) }
                td { @if !test.complete { "ended early" } @else if let Some(from) = test.steady_from_s { "steady from " (from) " s" } }
            }
        }
    };
    let tests = record.tests();
    if tests.is_empty() {
        return html! {};
    }
    html! {
        section #tests {
            h2 { "Tests" }
            details open[tests.len() <= 12] {
                summary { (count(tests.len(), "test")) }
                (table(html! {
                    th .number { "test" } th { "pattern" } th { "purpose" } th .number { "window" } th .number { "one way, Gbit/s" } th { "weakest" }
                    th { "links sent = received" } th .number { "skew" } th {}
                }, html! {
                    @for test in tests { (row(test)) }
                }))
            }
        }
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
                dt { "tool" } dd { "pipebench " (record.tool_version) ", the same executable on every host, SHA-256 " code { (record.tool_digest) } }
                dt { "command" } dd { code { "pipebench " (quoted(&record.command)) } }
                @if has_floor { dt { "floor" } dd { (floor_in_full(&record.plan)) " in every test" } }
                @if has_loss { dt { "loss" } dd { (format!("at most {:.0e} of segments without contention", criteria.loss)) } }
                @for (name, text) in criteria.said().iter().filter_map(|one| one.condition.as_ref()) { dt { (name) } dd { (text) } }
                @if !own_mtus.is_empty() { dt { "MTU of individual hosts" } dd { (own_mtus.join(", ")) " as specified" } }
                @if has_floor { dt { "speeds" } dd { (judged::basis(record)) } }
                @if !untold.is_empty() { dt { "not counted" } dd { (untold.join(", ")) } }
            }
            details {
                summary { (count(record.options.len(), "option")) " in effect" }
                dl { @for (name, value) in &record.options { dt { (name) } dd { (value) } } }
            }
            @if let Some(sealed) = &record.seal {
                details {
                    summary { "Sealed before the start" }
                    pre { (sealed) }
                }
            }
            @if !record.notices.is_empty() {
                h3 { "Warnings" }
                ul { @for notice in &record.notices { li { (notice) } } }
            }
        }
    }
}
