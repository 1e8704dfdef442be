//! Link tests on the page: their figures, the map of links, the spread of links, the slowest links, and the parameters of the measurement.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::plan::linktest::Kernel;
use crate::record::Record;
use crate::report::count;
use crate::report::linktest::figures::Figures;
use crate::report::linktest::lines::{bandwidth, time};
use crate::units::{show_bytes, show_rate};
use numbers::spread::usual;

use super::heat::{Cell, Heat, Kind};
use super::spread;
use super::table::table;

/// Number of slowest links shown.
const WORST: usize = 10;

/// The tiles for the first screen.
pub(super) fn tiles(record: &Record, figures: &Figures<'_>) -> Markup {
    html! {
        li {
            b { (figures.job.ranks.len()) }
            span { "ranks on " (count(record.plan.nodes.len(), "node")) ", " (count(figures.links.len(), "link")) }
        }
        @if let Some(slowest) = figures.slowest() {
            li {
                b { (rate(figures.bandwidth(slowest.mean_s))) }
                span { "the slowest link: " (figures.rank(slowest.from)) " to " (figures.rank(slowest.to)) ", " (bandwidth(figures.bandwidth(slowest.mean_s)).trim_start()) }
            }
        }
        @if let Some(across) = figures.bisection() {
            li { b { (rate(across)) } span { "between the two halves, on average, " (bandwidth(across).trim_start()) } }
        }
        @if let Some(all) = figures.all_to_all() {
            li { b { (time(all.most_s).trim_start()) } span { "a message from each rank to every other one, at the same time" } }
        }
    }
}

/// Bytes per second as a rate. LinkTest's own unit, [`bandwidth`], follows it.
fn rate(bytes_per_s: f64) -> String {
    show_rate(bytes_per_s * 8.0)
}

/// The sections on links, each with its name.
pub(super) fn sections(figures: &Figures<'_>) -> Vec<(&'static str, Markup)> {
    let Some((middle, _)) = usual(&figures.means()) else {
        return Vec::new();
    };
    let shares: Vec<f64> = figures
        .links
        .iter()
        .map(|link| middle / link.mean_s)
        .collect();
    let links = html! {
        section #links {
            h2 { "Distribution of links" }
            @if shares.len() > 2 { (spread::bars(&shares, "link", "share of the median")) }
            p .note { "The share is the median time of all links divided by that of the link." }
            dl { @for (name, value) in described(figures) { dt { (name) } dd { (value) } } }
        }
    };
    vec![
        ("links", heat(figures, middle).draw()),
        ("distribution of links", links),
        ("slowest links", slowest(figures)),
    ]
}

/// The map of links with the mean of all rounds. `middle` is the median time of links, in seconds.
pub(super) fn heat(figures: &Figures<'_>, middle: f64) -> Heat {
    let mut cells = BTreeMap::new();
    for link in &figures.links {
        let cell = Cell {
            rate: figures.bandwidth(link.mean_s) * 8.0,
            share: middle / link.mean_s,
            test: link.times.first().map_or(0, |time| time.step),
        };
        cells.insert((link.from, link.to), cell);
    }
    let label = |rank: usize| {
        let name = figures.name(rank);
        let alone = figures.names.iter().filter(|other| *other == name).count() == 1;
        if alone {
            name.to_owned()
        } else {
            format!("{name}.{rank}")
        }
    };
    Heat {
        labels: (0..figures.job.ranks.len()).map(label).collect(),
        cells,
        kind: Kind::Ranks {
            both: figures.plan.kernel == Kernel::Bidirectional,
        },
    }
}

/// Figures that are not judged, and the parameters of the measurement.
fn described(figures: &Figures<'_>) -> Vec<(&'static str, String)> {
    let plan = figures.plan;
    let both = |seconds: f64| {
        let bytes_per_s = figures.bandwidth(seconds);
        let (time, bandwidth) = (time(seconds), bandwidth(bytes_per_s));
        let (time, bandwidth) = (time.trim_start(), bandwidth.trim_start());
        format!("{time} ({}, {bandwidth})", rate(bytes_per_s))
    };
    let mut all = vec![(
        "messages",
        format!(
            "{} x {} after {}, {}",
            plan.messages,
            show_bytes(plan.message_bytes as u64),
            plan.warmups,
            plan.kernel.name()
        ),
    )];
    if let Some(extent) = figures.extent() {
        all.push(("least time", both(extent.least_s)));
        all.push(("mean time", both(extent.mean_s)));
        all.push(("greatest time", both(extent.most_s)));
    }
    for (name, percent) in [
        ("median link", 50.0),
        ("90 % of links", 90.0),
        ("99 % of links", 99.0),
    ] {
        if let Some(seconds) = figures.percentile(percent) {
            all.push((name, format!("{} or less", time(seconds).trim_start())));
        }
    }
    let steps = figures.steps();
    all.push((
        "steps",
        format!("{steps} in {}", count(figures.job.rounds.len(), "round")),
    ));
    if let Some(extent) = figures.all_to_all() {
        let gain = figures.all_to_all_gain().map_or_else(String::new, |gain| {
            format!(", {gain:.2} times as fast as step by step")
        });
        all.push((
            "all to all",
            format!(
                "{} to {} for a message to each other rank{gain}",
                time(extent.least_s).trim_start(),
                time(extent.most_s).trim_start()
            ),
        ));
    }
    all
}

fn slowest(figures: &Figures<'_>) -> Markup {
    let mut links: Vec<_> = figures.links.iter().collect();
    links.sort_by(|one, other| other.mean_s.total_cmp(&one.mean_s));
    let alone = |from: usize, to: usize| {
        let again = figures.retests();
        again
            .iter()
            .find(|one| (one.from, one.to) == (from, to))
            .map(|one| one.new_s)
    };
    html! {
        section #slowest {
            h2 { "The slowest links" }
            (table(html! { th { "from" } th { "to" } th .number { "time" } th .number { "rate" } th .number { "bandwidth" } th .number { "median message" } th .number { "99 % of messages" } th .number { "time in isolation" } }, html! {
                @for link in links.into_iter().take(WORST) {
                    @let spread = link.times.last().and_then(|time| time.spread);
                    tr {
                        td { (figures.rank(link.from)) }
                        td { (figures.rank(link.to)) }
                        td .number { (time(link.mean_s).trim_start()) }
                        td .number { (rate(figures.bandwidth(link.mean_s))) }
                        td .number { (bandwidth(figures.bandwidth(link.mean_s)).trim_start()) }
                        td .number { @if let Some(spread) = spread { (time(spread.median_s).trim_start()) } }
                        td .number { @if let Some(spread) = spread { (time(spread.p99_s).trim_start()) } }
                        td .number { @if let Some(seconds) = alone(link.from, link.to) { (time(seconds).trim_start()) } }
                    }
                }
            }))
        }
    }
}
