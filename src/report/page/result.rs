//! What every port carried in a run whose ports were not judged: a run on one host, or one whose ports have no known speed.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::record::{Record, TestRecord};
use crate::report::figures::{Figures, Port};
use crate::report::{directions, or_dash};
use crate::units::Scale;

use super::heat::{Cell, Heat, Kind};
use super::svg::bar;
use super::table::table;

/// Most rows; the slowest ports come first.
const ROWS: usize = 64;

/// Rates of all ports with bars, and the pairs of nodes on one host. Empty if the sheet has port directions, which show both.
pub(super) fn section(record: &Record) -> Markup {
    let is_on_sheet = record.sheet.directions().next().is_some();
    let tests = record.counted();
    let measured = |test: &&&TestRecord| test.has_measured();
    let Some(test) = tests.iter().find(measured).filter(|_| !is_on_sheet) else {
        return html! {};
    };
    let figures = Figures::of(record, test);
    html! {
        (ports(record, test, &figures, tests.len()))
        @if !figures.crosses_switch { (pairs(record, test).draw()) }
    }
}

fn ports(record: &Record, test: &TestRecord, figures: &Figures, tests: usize) -> Markup {
    let least = |port: &Port| port.least_gbit_per_s();
    let mut rows: Vec<&Port> = figures.ports.iter().filter(|port| port.reported).collect();
    rows.sort_by(|one, other| least(one).total_cmp(&least(other)));
    let rates = rows
        .iter()
        .flat_map(|port| [port.send_gbit_per_s, port.receive_gbit_per_s]);
    let most = rates.fold(0.0, f64::max);
    let scale = Scale::of(most * 1e9);
    let rate = |gbit_per_s: f64, lost: &[usize]| {
        html! {
            @if lost.is_empty() {
                td .number { (scale.show(gbit_per_s * 1e9)) }
                td { (bar(if most > 0.0 { gbit_per_s / most } else { 0.0 })) }
            } @else {
                td .number { "no partner" }
                td {}
            }
        }
    };
    let (what, whose) = match figures.crosses_switch {
        true => ("Ports", "port"),
        false => ("Nodes on one host", "node"),
    };
    let number = directions::number(record, test.test).filter(|_| tests > 1);
    let more = rows.len().saturating_sub(ROWS);
    html! {
        section #result {
            h2 { (what) ", slowest first" }
            p .note {
                "Payload in " (scale.unit) " over the window" @if let Some(number) = number { " of test " (number) }
                "; the longest bar is " (scale.show(most * 1e9)) " " (scale.unit) "."
            }
            (table(html! {
                th { (whose) } th .number { "send, " (scale.unit) } td {} th .number { "receive, " (scale.unit) } td {}
                th .number { "retransmits" } th .number { "busiest core" }
            }, html! {
                @for port in rows.iter().take(ROWS) {
                    tr {
                        td { (port.label) }
                        (rate(port.send_gbit_per_s, &port.lost_receivers))
                        (rate(port.receive_gbit_per_s, &port.lost_senders))
                        td .number { (or_dash(port.retransmits.map(|count| count.to_string()))) }
                        td .number { (or_dash(port.busiest_core.map(|core| format!("{:.0} %", core * 100.0)))) }
                    }
                }
            }))
            @if more > 0 { p .note { "and " (more) " faster ones" } }
        }
    }
}

/// The pairs of nodes, each relative to the fastest.
fn pairs(record: &Record, test: &TestRecord) -> Heat {
    let mut rates: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for link in test.every_link().iter().filter(|link| !link.lane.is_own()) {
        *rates.entry((link.lane.from, link.lane.to)).or_default() += test.rate_of(link) * 1e9;
    }
    let most = rates.values().copied().fold(0.0, f64::max);
    let cells = rates.into_iter().map(|(pair, rate)| {
        let share = if most > 0.0 { rate / most } else { 0.0 };
        let test = test.test;
        (pair, Cell { rate, share, test })
    });
    let kind = Kind::Ports {
        relative: true,
        single: false,
    };
    Heat {
        labels: record.hosts.iter().map(|host| host.node.clone()).collect(),
        cells: cells.collect(),
        kind,
    }
}
