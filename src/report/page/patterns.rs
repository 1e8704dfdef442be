//! The Intel MPI Benchmarks' patterns on the page: times and throughput over the length of messages, and the tables as the run printed them.

use maud::{Markup, html};

use crate::judge::names::and_more;
use crate::plan::imb::{Benchmark, Imb, Mode, Table};
use crate::record::{ImbRecord, Measured, Record, TableRecord};
use crate::report::{count, each_once, imb};
use crate::stats::imb::{megabytes_per_s, over};
use crate::units::{show_bytes, show_us};

use super::svg::{at, below, grid, path};
use super::table::table;

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 96.0;
/// Minimum vertical distance between the names of curves.
const APART: f64 = 11.0;
const BELOW: f64 = 34.0;
const ABOVE: f64 = 22.0;

/// A curve of a picture.
struct Curve {
    name: String,
    /// True if it belongs to a run beside this one.
    beside: bool,
    /// Index of its colour. Curves of several runs for the same thing have the same colour.
    colour: usize,
    points: Vec<(f64, f64)>,
}

/// Letters that distinguish runs; this run has the first one.
const LETTERS: [&str; MOST_BESIDE + 1] = ["A", "B", "C", "D", "E", "F"];
/// Maximum number of runs beside this one: more could not be distinguished.
pub const MOST_BESIDE: usize = 5;

/// The sections on patterns, each with its name: curves with spreads, and tables.
pub(super) fn sections(
    record: &Record,
    plan: &Imb,
    job: &ImbRecord,
    beside: &[Record],
) -> Vec<(&'static str, Markup)> {
    let others = beside.iter().map(of_patterns);
    let runs: Vec<Option<(&Imb, &ImbRecord)>> = std::iter::once(Some((plan, job)))
        .chain(others)
        .take(LETTERS.len())
        .collect();
    let benchmarks = each_once(job.tables.iter().map(|table| table.table.benchmark));
    let curves = html! {
        section #patterns {
            h2 { "Times and throughput over the length of messages" }
            p { "Messages went over " (said_of(plan, record)) "." }
            p .note { "Times of the slowest rank, both axes logarithmic; a line for each number of ranks. Lengths start at 1 byte. One-sided transfers: each completed separately, or all together." }
            @if !beside.is_empty() {
                p .note {
                    @for (letter, run) in LETTERS.iter().zip(std::iter::once(record).chain(beside)) {
                        b { (letter) } " " (run.name()) ", " (over_what(run)) ". "
                    }
                    "Dashed lines show the other runs."
                }
            }
            @for benchmark in benchmarks { (of_benchmark(&runs, benchmark)) }
        }
    };
    let printed = html! {
        section #printed { h2 { "Tables" } div .wide tabindex="0" { pre { (imb::tables(plan, job)) } } }
    };
    vec![("curves", curves), ("tables", printed)]
}

/// The tiles for the first screen: benchmarks, ranks, and the best and worst of all lines.
pub(super) fn tiles(record: &Record, plan: &Imb, imb: &ImbRecord) -> Markup {
    /// Most benchmarks that are named.
    const NAMED: usize = 4;
    let benchmarks = each_once(imb.tables.iter().map(|table| table.table.benchmark));
    let names: Vec<&str> = benchmarks.iter().map(|one| one.name()).collect();
    let shown = names[..names.len().min(NAMED)].join(", ");
    let more = and_more(names.len(), NAMED, ", ");
    let lines = imb.tables.iter().flat_map(|table| {
        let measured = table.lines.iter().filter(|line| line.left_out.is_none());
        measured.filter_map(|line| Some((&table.table, line.bytes, over(&line.groups)?.most_s)))
    });
    let lines: Vec<(&Table, usize, f64)> = lines.filter(|(.., seconds)| *seconds > 0.0).collect();
    let said = |table: &Table, bytes: usize| {
        let of = if bytes > 0 {
            format!(", {}", show_bytes(bytes as u64))
        } else {
            String::new()
        };
        format!("{}, {}{of}", table.benchmark.name(), name(table))
    };
    let times = || lines.iter().copied();
    let shortest = times().min_by(|a, b| a.2.total_cmp(&b.2));
    let longest = times().max_by(|a, b| a.2.total_cmp(&b.2));
    let rates = times().filter(|(table, bytes, _)| imb::has_rate(table.benchmark) && *bytes > 0);
    let rates = rates.map(|(table, bytes, seconds)| {
        let rate = megabytes_per_s(plan, table, bytes, seconds);
        (table, bytes, rate)
    });
    let highest = rates.max_by(|a, b| a.2.total_cmp(&b.2));
    html! {
        li { b { (count(imb.tables.len(), "table")) } span { (shown) (more) } }
        li { b { (imb.ranks.len()) } span { "ranks on " (count(record.plan.nodes.len(), "node")) } }
        @for (what, line) in [("shortest", shortest), ("longest", longest)] {
            @if let Some((table, bytes, seconds)) = line { li { b { (show_us(seconds)) } span { (what) " time: " (said(table, bytes)) } } }
        }
        @if let Some((table, bytes, rate)) = highest { li { b { (format!("{rate:.2} MB/s")) } span { "highest throughput: " (said(table, bytes)) } } }
    }
}

/// Transport of a run's messages and the rules that it followed, as text.
fn over_what(record: &Record) -> String {
    let patterns = of_patterns(record);
    patterns.map_or("no patterns".to_owned(), |(plan, _)| said_of(plan, record))
}

/// Plan and results of a record of patterns.
fn of_patterns(record: &Record) -> Option<(&Imb, &ImbRecord)> {
    match record.measured() {
        Measured::Imb(plan, imb) => Some((plan, imb)),
        Measured::Acceptance(..) | Measured::Linktest(..) | Measured::Latency(..) => None,
    }
}

fn said_of(plan: &Imb, record: &Record) -> String {
    format!(
        "{}, rules: {} (a megabyte has {} bytes)",
        imb::transport(plan, &record.hosts),
        plan.rules.name(),
        plan.rules.megabyte()
    )
}

/// The pictures and tables of a benchmark. `runs` are this one and those beside it, as far as they are of patterns.
fn of_benchmark(runs: &[Option<(&Imb, &ImbRecord)>], benchmark: Benchmark) -> Markup {
    // The tables of all runs, each with the number of its run.
    let mut all: Vec<(usize, &Imb, &TableRecord)> = Vec::new();
    for (run, known) in runs.iter().enumerate() {
        let Some((plan, job)) = known else { continue };
        let tables = job.tables.iter();
        let tables = tables.filter(|table| table.table.benchmark == benchmark);
        all.extend(tables.map(|table| (run, *plan, table)));
    }
    let own = all.iter().filter(|(run, ..)| *run == 0);
    let tables: Vec<&TableRecord> = own.map(|(.., table)| *table).collect();
    let kinds = each_once(all.iter().map(|(.., table)| name(&table.table)));
    let curves = |of: &dyn Fn(&Imb, &TableRecord, usize, f64) -> f64| -> Vec<Curve> {
        let curve = |(run, imb, table): &(usize, &Imb, &TableRecord)| {
            let kind = name(&table.table);
            Curve {
                colour: kinds.iter().position(|one| *one == kind).unwrap_or(0),
                name: match runs.len() {
                    1 => kind,
                    _ => format!("{} {kind}", LETTERS[*run]),
                },
                beside: *run > 0,
                points: points(imb, table, of),
            }
        };
        let curves = all.iter().map(curve);
        curves.filter(|one| one.points.len() > 1).collect()
    };
    let times = curves(&|_, _, _, seconds| seconds * 1e6);
    let has_rate = imb::has_rate(benchmark);
    let rates =
        curves(&|imb, table, bytes, seconds| megabytes_per_s(imb, &table.table, bytes, seconds));
    html! {
        h3 { (benchmark.name()) }
        @if times.is_empty() { (bare(&tables)) } @else {
            div .wide tabindex="0" {
                (picture(&format!("{}: microseconds of a repetition", benchmark.name()), "time, us", &times))
                @if has_rate { (picture(&format!("{}: throughput", benchmark.name()), "throughput, MB/s", &rates)) }
            }
        }
        (spreads(benchmark, &tables))
    }
}

/// Table of times for a benchmark with too few message lengths for a curve, or with no length at all.
fn bare(tables: &[&TableRecord]) -> Markup {
    let us = |seconds: f64| format!("{:.2}", seconds * 1e6);
    let rows = tables.iter().flat_map(|table| {
        let lines = table.lines.iter();
        lines.filter_map(move |line| Some((name(&table.table), line, over(&line.groups)?)))
    });
    html! {
        (table(html! {
            th { "ranks" } th .number { "bytes" } th .number { "repetitions" } th .number { "t_min us" } th .number { "t_max us" } th .number { "t_avg us" }
        }, html! {
            @for (who, line, times) in rows {
                tr {
                    td { (who) } td .number { (line.bytes) } td .number { (line.repetitions) }
                    td .number { (us(times.least_s)) } td .number { (us(times.most_s)) } td .number { (us(times.mean_s)) }
                }
            }
        }))
    }
}

/// Spread of the repetitions of each length, which the suite does not report.
fn spreads(benchmark: Benchmark, tables: &[&TableRecord]) -> Markup {
    let us = |seconds: f64| format!("{:.2}", seconds * 1e6);
    let maybe = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), us);
    let rows = tables.iter().flat_map(|table| {
        let lines = table.lines.iter();
        lines.flat_map(move |line| {
            let groups = line.groups.iter().enumerate();
            groups.filter_map(move |(group, times)| {
                // One batch has no spread.
                let spread = times.spread.filter(|spread| spread.batches > 1)?;
                let several = table.table.groups.len() > 1;
                let who = match several {
                    true => format!("{}, group {group}", name(&table.table)),
                    false => name(&table.table),
                };
                Some((who, line, spread))
            })
        })
    });
    let rows: Vec<_> = rows.collect();
    html! {
        @if !rows.is_empty() {
            // Shown only on the screen: on paper it would fill many pages.
            details .spreads {
                summary { (benchmark.name()) ": median, percentiles and spread" }
                (table(html! {
                    th { "ranks" } th .number { "bytes" } th .number { "repetitions" } th .number { "in batches of" } th .number { "least us" } th .number { "median us" }
                    th .number { "95 % us" } th .number { "99 % us" } th .number { "most us" } th .number { "variation" }
                }, html! {
                    @for (who, line, spread) in &rows {
                        tr {
                            td { (who) } td .number { (line.bytes) } td .number { (line.repetitions) } td .number { (spread.of) }
                            td .number { (us(spread.least_s)) } td .number { (us(spread.median_s)) } td .number { (maybe(spread.p95_s)) }
                            td .number { (maybe(spread.p99_s)) } td .number { (us(spread.most_s)) } td .number { (format!("{:.1} %", 100.0 * spread.variation)) }
                        }
                    }
                }))
            }
        }
    }
}

fn name(table: &Table) -> String {
    let ranks = match table.groups.len() {
        1 if table.group_size() == 1 => "1 rank".to_owned(),
        1 => format!("{} ranks", table.group_size()),
        groups => format!("{groups} x {}", table.group_size()),
    };
    match table.mode {
        None => ranks,
        Some(Mode::Aggregate) => format!("{ranks}, all"),
        Some(Mode::NonAggregate) => format!("{ranks}, each"),
    }
}

fn points(
    imb: &Imb,
    table: &TableRecord,
    of: &dyn Fn(&Imb, &TableRecord, usize, f64) -> f64,
) -> Vec<(f64, f64)> {
    let measured = table
        .lines
        .iter()
        .filter(|line| line.bytes > 0 && line.left_out.is_none());
    measured
        .filter_map(|line| {
            let seconds = over(&line.groups)?.most_s;
            let value = of(imb, table, line.bytes, seconds);
            (value > 0.0 && value.is_finite()).then_some((line.bytes as f64, value))
        })
        .collect()
}

/// The least and the largest figure of all points of curves.
fn extent(curves: &[Curve], of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let figures = curves.iter().flat_map(|curve| &curve.points).map(of);
    figures.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
        (least.min(one), most.max(one))
    })
}

/// Exponents of the powers of ten that bound all values.
fn decades(curves: &[Curve]) -> (i32, i32) {
    let (least, most) = extent(curves, |(_, value)| value.log10());
    let whole = |value: f64| {
        (-30..=30)
            .find(|power| f64::from(*power) >= value)
            .unwrap_or(30)
    };
    let (least, most) = (whole(least.floor()), whole(most.ceil()));
    (least, most.max(least + 1))
}

/// A picture. `upward` names its upright axis, with the unit.
fn picture(title: &str, upward: &str, curves: &[Curve]) -> Markup {
    let (low, high) = decades(curves);
    let (first, last) = extent(curves, |(bytes, _)| bytes.log2());
    let wide = (last - first).max(1.0);
    let x = |bytes: f64| LEFT + (bytes.log2() - first) / wide * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| {
        let part = (value.log10() - f64::from(low)) / f64::from(high - low);
        HEIGHT - BELOW - part * (HEIGHT - BELOW - ABOVE)
    };
    let points = |curve: &Curve| -> Vec<(f64, f64)> {
        let points = curve.points.iter();
        points
            .map(|(bytes, value)| (x(*bytes), y(*value)))
            .collect()
    };
    let last_of = |curve: &Curve| curve.points.last().map_or(HEIGHT, |(_, value)| y(*value));
    let ends: Vec<f64> = curves.iter().map(last_of).collect();
    let marks: Vec<u32> = (0..=30).step_by(4).collect();
    let marks = marks.into_iter().filter(|log| {
        let log = f64::from(*log);
        log >= first && log <= last
    });
    html! {
        svg .curves role="img" aria-label=(title) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
            title { (title) }
            text x="2" y="11" { (upward) }
            (below((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 3.0, "length of a message"))
            @for power in low..=high {
                (grid(LEFT, WIDTH - RIGHT, y(10_f64.powi(power)), &decade(power)))
            }
            @for log in marks {
                (below(x(2_f64.powi(log.cast_signed())), HEIGHT - BELOW + 16.0, &length(log)))
            }
            @for curve in curves {
                path class={ "curve k" (curve.colour % 6) @if curve.beside { " beside" } } d=(path(points(curve))) { title { (curve.name) } }
            }
            @for (curve, height) in curves.iter().zip(apart(&ends, ABOVE, HEIGHT - BELOW)) {
                text class={ "k" (curve.colour % 6) } x=(at(WIDTH - RIGHT + 4.0)) y=(at(height + 4.0)) { (curve.name) }
            }
        }
    }
}

/// Heights near the wished ones that do not overlap, between two bounds as long as the room suffices.
fn apart(wished: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wished.len()).collect();
    order.sort_by(|one, other| wished[*one].total_cmp(&wished[*other]));
    let mut heights = wished.to_vec();
    let mut last = top - APART;
    for place in &order {
        heights[*place] = heights[*place].max(last + APART);
        last = heights[*place];
    }
    let mut next = bottom + APART;
    for place in order.iter().rev() {
        heights[*place] = heights[*place].min(next - APART);
        next = heights[*place];
    }
    heights
}

fn decade(power: i32) -> String {
    match power {
        0..=6 => format!("{}", 10_f64.powi(power)),
        -3..=-1 => format!(
            "{:.*}",
            usize::try_from(-power).unwrap_or(0),
            10_f64.powi(power)
        ),
        _ => format!("1e{power}"),
    }
}

fn length(log: u32) -> String {
    match log {
        0..=9 => format!("{} B", 1_u64 << log),
        10..=19 => format!("{} KiB", 1_u64 << (log - 10)),
        _ => format!("{} MiB", 1_u64 << (log - 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lines_do_not_lie_on_top_of_each_other() {
        assert_eq!(apart(&[50.0, 20.0], 0.0, 100.0), [50.0, 20.0]);
        assert_eq!(apart(&[50.0, 48.0, 51.0], 0.0, 100.0), [59.0, 48.0, 70.0]);
        assert_eq!(apart(&[99.0, 98.0], 0.0, 100.0), [100.0, 89.0]);
        assert!(apart(&[], 0.0, 1.0).is_empty());
    }

    #[test]
    fn axes_bound_what_is_drawn() {
        let curve = |points: &[(f64, f64)]| Curve {
            name: String::new(),
            beside: false,
            colour: 0,
            points: points.to_vec(),
        };
        assert_eq!(decades(&[curve(&[(1.0, 3.0), (2.0, 250.0)])]), (0, 3));
        assert_eq!(decades(&[curve(&[(1.0, 10.0), (2.0, 10.0)])]), (1, 2));
        assert_eq!(decades(&[curve(&[(1.0, 0.02)])]), (-2, -1));
        assert_eq!(
            (decade(-2), decade(3), decade(9)),
            ("0.01".to_owned(), "1000".to_owned(), "1e9".to_owned())
        );
        assert_eq!(
            (length(4), length(16), length(22)),
            ("16 B".to_owned(), "64 KiB".to_owned(), "4 MiB".to_owned())
        );
    }
}
