//! Latencies on the page: the map of cables, the table of the slowest ones, and the figures of plan and measurement.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::plan::latency::Latency;
use crate::record::{CableLatency, LatencyRecord, Record};
use crate::report::{grouped, latency, percent};
use crate::units::show_us;

use super::heat::class_of;
use super::table::table;

/// Cells in a row of the map.
const COLUMNS: usize = 48;
/// Minimum width of the map in cells, so that the cells of small classes are no larger than others.
const LEAST_COLUMNS: usize = 16;
/// Maximum number of cables for which each cell shows the cable's name when pointed at.
const NAMED_TO: usize = 4096;
/// Maximum number of cables listed.
const WORST: usize = 20;

/// The tiles for the first screen.
pub(super) fn tiles(one: &LatencyRecord) -> Markup {
    html! {
        li {
            b { (one.planned.pairs) " of " (one.planned.pairs_of_hosts()) }
            span { "pairs measured, in " (one.planned.rounds) " rounds; the others follow from these" }
        }
        li {
            b { (one.cables.iter().filter(|cable| cable.identified).count()) " of " (one.cables.len()) }
            span { "cables have their own value" }
        }
        @if let Some((cable, ratio)) = latency::ranked(one).first() {
            li {
                b { (format!("{ratio:.2} x")) }
                span { "the median of its class: " (cable.name) ", " (show_us(cable.value_s.unwrap_or(0.0))) " one way" }
            }
        }
        @if let Some((middle, ..)) = latency::differences(one) {
            li { b { (percent(middle)) } span { "median error of predictions for unplanned pairs" } }
        }
    }
}

/// The sections on cables, each with its name, if any were measured.
pub(super) fn sections(
    record: &Record,
    plan: &Latency,
    one: &LatencyRecord,
) -> Vec<(&'static str, Markup)> {
    let mut sections = Vec::new();
    if !latency::ranked(one).is_empty() {
        sections.extend([("cables", map(one)), ("slowest cables", slowest(one))]);
    }
    if !one.cables.is_empty() {
        let measured = html! {
            section #latencies {
                h2 { "What was measured" }
                dl { @for (name, value) in described(record, plan, one) { dt { (name) } dd { (value) } } }
            }
        };
        sections.push(("measurement", measured));
    }
    sections
}

/// Every cable as a cell, class by class, coloured by the median of its class divided by its own latency.
fn map(one: &LatencyRecord) -> Markup {
    let shares: BTreeMap<u32, f64> = latency::ranked(one)
        .iter()
        .map(|(cable, ratio)| (cable.column, 1.0 / ratio))
        .collect();
    let share = |cable: &CableLatency| shares.get(&cable.column).copied();
    let classes = grouped(one.cables.iter().map(|cable| (&cable.class, cable)));
    html! {
        section #cables {
            h2 { "Cables" }
            @for (class, cables) in &classes {
                h3 { (class) ", " (cables.len()) }
                @let rows = cables.len().div_ceil(COLUMNS);
                @let filled = cables.len().min(COLUMNS);
                @let columns = filled.max(LEAST_COLUMNS);
                div .wide tabindex="0" {
                    svg .heat role="img" aria-label=(format!("cables of class {class}, by latency")) viewBox=(format!("0 0 {columns} {rows}")) width=(columns * 18) {
                        rect .ground width=(filled) height=(rows) {}
                        @for (at, cable) in cables.iter().enumerate() {
                            @if let Some(share) = share(cable) {
                                rect class={ "c" (class_of(share)) } x=(at % COLUMNS) y=(at / COLUMNS) width="1" height="1" {
                                    @if one.cables.len() <= NAMED_TO {
                                        title { (format!("{}: {} one way, {:.2} x the median", cable.name, show_us(cable.value_s.unwrap_or(0.0)), 1.0 / share)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            p .note { "A cell for each cable, in the order of the description. The share is the median latency of the class divided by that of the cable, so slow cables are dark, like slow pairs. Cables without their own value are blank." }
        }
    }
}

fn slowest(one: &LatencyRecord) -> Markup {
    let us = |seconds: Option<f64>| seconds.map(show_us).unwrap_or_default();
    html! {
        section #slowest {
            h2 { "The slowest cables" }
            (table(html! { th { "cable" } th { "class" } th .number { "one way" } th .number { "standard error" } th .number { "of the median" } th .number { "pairs" } th { "verdict" } }, html! {
                @for (cable, ratio) in latency::ranked(one).into_iter().take(WORST) {
                    @let slow = latency::slow_of(one, cable);
                    tr {
                        td { (cable.name) }
                        td { (cable.class) }
                        td .number { (us(cable.value_s)) }
                        td .number { (us(cable.error_s)) }
                        td .number { (format!("{ratio:.2} x")) }
                        td .number { (cable.pairs) }
                        td { @match slow { Some(slow) if slow.confirmed => "slow, confirmed", Some(_) => "slow once", None => "" } }
                    }
                }
            }))
        }
    }
}

fn described(record: &Record, plan: &Latency, one: &LatencyRecord) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = Vec::new();
    for (name, value) in latency::planned(one) {
        let name = match name {
            "rank" => "matrix rank",
            "" => "left out",
            other => other,
        };
        all.push((name, value));
    }
    if let Some((middle, worst, pair)) = latency::differences(one) {
        let name = |host| latency::host_name(record, plan, host);
        all.push((
            "predictions",
            format!(
                "for {} unplanned pairs: off by {} in the median, {:+.1} % at most ({} and {})",
                one.checks.len(),
                percent(middle),
                worst * 100.0,
                name(pair.from),
                name(pair.to)
            ),
        ));
    }
    for together in one.together.iter().take(WORST) {
        all.push(("only together", latency::equation(together)));
    }
    all.extend(
        one.undecidable
            .iter()
            .map(|line| ("not judged", line.clone())),
    );
    all.extend(one.misfit.iter().map(|line| ("misfit", line.clone())));
    if !one.absent.is_empty() {
        all.push(("absent", one.absent.join(", ")));
    }
    all
}
