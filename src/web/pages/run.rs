//! Page of one run: live figures while it runs, results once it has ended.

use maud::{Markup, html};

use crate::record::Live;
use crate::report::format::Format;
use crate::units::{Scale, show_age, show_rate};
use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::state::{Stage, State};

use super::{badge, date, mark, page};

/// Interval at which a page without events reloads, in seconds.
const REFRESH_S: u32 = 3;
/// Number of nodes above which pairs are shown by colour alone.
const MOST_NAMED: usize = 16;

/// Page of a run.
pub(crate) fn run(app: &App, asker: &Asker, state: &State) -> Markup {
    let is_over = state.is_over();
    let own = format!("{}/runs/{}", app.base, state.name);
    let refresh = (!is_over && app.event_hub.is_none()).then_some(REFRESH_S);
    let body = html! {
        h1 { (state.name) " " (badge(state)) }
        p .what { (state.what) @if !state.note.is_empty() { " - " (state.note) } }
        @if is_over { (ended(&own, state)) } @else { (going_on(app, asker, &own, state)) }
        dl {
            dt { "requested by" } dd { (state.by) }
            @if let Some(at) = state.asked_ms { dt { "requested" } dd { (date(at)) } }
            @if let Some(at) = state.began_ms { dt { "started" } dd { (date(at)) } }
            @if let Some(ms) = state.data_ms { dt { "planned data time" } dd { (show_age(ms.div_ceil(1000))) } }
            @if let Some(code) = state.exit_code { dt { "exit code" } dd { (code) } }
        }
    };
    page(app, asker, &state.name, refresh, body)
}

fn ended(own: &str, state: &State) -> Markup {
    html! {
        @if let Some(sentence) = state.sentence.as_ref().filter(|_| state.state == Stage::Ended) { p .verdict { (sentence) } }
        @if let Some(why) = &state.why { p .notice { (why) } }
        @if state.has_record {
            p { a .button href={ (own) "/report" } { "Open the report" } }
            ul .files { @for form in Format::ALL.map(Format::row) { li { a href={ (own) "/" (form.file) } { (form.label) } } } }
        }
    }
}

fn going_on(app: &App, asker: &Asker, own: &str, state: &State) -> Markup {
    let live = state.live.clone().unwrap_or_default();
    let total: u64 = crate::units::sum(live.received_bits_per_s.iter().copied());
    let least = live.received_bits_per_s.iter().zip(&live.nodes).min();
    let events = app.event_hub.is_some().then(|| format!("{own}/events"));
    html! {
        @if app.event_hub.is_some() {
            noscript { p .note { "This page needs JavaScript to update itself. Reload it to see new figures." } }
        }
        section #live aria-label="live figures" data-events=[events] data-state=(state.state) {
            p #stage aria-live="polite" { (stage_text(state, &live)) }
            progress #progress max="1" value=(part(state, &live)) aria-label="share of the planned time" {}
            ul .tiles {
                li { b #total { (show_rate(total as f64)) } span { "received by all nodes" } }
                li { b #least { @match least { Some((rate, _)) => { (show_rate(*rate as f64)) } None => { "-" } } }
                    span { "slowest node: " span #leastname { @if let Some((_, name)) = least { (name) } } } }
                li { b #test { @match &live.test { Some(test) => { "test " (test.number) " of " (test.of) } None => { "-" } } }
                    span #what { (live.test.as_ref().map_or("", |test| test.what.as_str())) } }
            }
            h2 { "Rate" }
            (course(&live))
            p #scale .note { (scale(&live)) }
            h2 { "Pairs" }
            p .note { span #unit { (unit_of_pairs(&live).unit) } " in the last second. Rows send, columns receive. Blue: at least 80 % of the fastest pair; orange: 70 to 80 %; red: less." }
            div .wide { (matrix(&live)) }
            p #slowest .note { (slowest(&live)) }
        }
        @if asker.is_known {
            form method="post" action={ (own) "/cancel" } { (mark(app, asker)) button .danger { "Cancel this run" } }
        }
    }
}

fn stage_text(state: &State, live: &Live) -> String {
    match (state.state, state.before, &state.behind) {
        (Stage::Queued, Some(before @ 1..), Some(first)) => {
            format!("queued: {before} ahead, first {first}")
        }
        (Stage::Queued, ..) => "queued: next to start".to_owned(),
        _ if live.stage.is_empty() => "starting".to_owned(),
        _ => live.stage.clone(),
    }
}

/// Fraction of the planned data time that is over, from 0 to 1.
fn part(state: &State, live: &Live) -> String {
    let seconds = live.course_bits_per_s.len() as u64 * live.stretch_s;
    let planned = state.data_ms.unwrap_or_default().max(1);
    format!("{:.3}", (seconds as f64 * 1000.0 / planned as f64).min(1.0))
}

/// Chart of the rate over time. The script draws the same chart.
fn course(live: &Live) -> Markup {
    let rates = &live.course_bits_per_s;
    let most = rates.iter().copied().max().unwrap_or(0).max(1);
    let last = rates.len().saturating_sub(1).max(1);
    let point = |(index, rate): (usize, &u64)| {
        let x = index as f64 / last as f64 * 600.0;
        let y = 120.0 - *rate as f64 / most as f64 * 116.0;
        format!("{x:.1},{y:.1}")
    };
    let points: Vec<String> = rates.iter().enumerate().map(point).collect();
    html! {
        svg #course viewBox="0 0 600 122" preserveAspectRatio="none" role="img" aria-label="rate over time" {
            polyline points=(points.join(" ")) {}
        }
    }
}

fn scale(live: &Live) -> String {
    let most = live.course_bits_per_s.iter().copied().max().unwrap_or(0);
    let most = show_rate(most as f64);
    let seconds = live.course_bits_per_s.len() as u64 * live.stretch_s;
    format!("from 0 to {most}, over {seconds} s")
}

/// Names the pair with the lowest rate in the last second.
fn slowest(live: &Live) -> String {
    let rows = live.matrix_bits_per_s.iter().enumerate();
    let cells = rows.flat_map(|(from, row)| {
        let row = row.iter().enumerate();
        row.filter_map(move |(to, rate)| Some(((*rate)?, from, to)))
    });
    let name = |node: usize| live.nodes.get(node).map_or("", String::as_str);
    cells.min().map_or_else(String::new, |(rate, from, to)| {
        let (from, to, rate) = (name(from), name(to), show_rate(rate as f64));
        format!("slowest pair: {from} to {to}, {rate}")
    })
}

/// The unit in which the matrix shows all rates.
fn unit_of_pairs(live: &Live) -> Scale {
    let rates = live.matrix_bits_per_s.iter().flatten().flatten();
    Scale::of(rates.max().copied().unwrap_or(0) as f64)
}

/// Matrix of pairs, with names and figures where there is room for them. The script draws the same matrix.
fn matrix(live: &Live) -> Markup {
    let scale = unit_of_pairs(live);
    let rows = &live.matrix_bits_per_s;
    let most = rows.iter().flatten().flatten().copied().max();
    let most = most.unwrap_or(0).max(1);
    let name = |node: usize| live.nodes.get(node).map_or("", String::as_str);
    html! {
        table #matrix class=[(rows.len() > MOST_NAMED).then_some("dense")] data-named=(MOST_NAMED) aria-label="rates of pairs" {
            thead { tr { th {} @for to in 0..rows.len() { th scope="col" { (name(to)) } } } }
            tbody {
                @for (from, row) in rows.iter().enumerate() {
                    tr {
                        th scope="row" { (name(from)) }
                        @for rate in row {
                            td class=(shade(*rate, most)) { @if let Some(rate) = rate { (scale.show(*rate as f64)) } }
                        }
                    }
                }
            }
        }
    }
}

fn shade(rate: Option<u64>, most: u64) -> String {
    const BOUNDS: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 0.95];
    let Some(rate) = rate else {
        return "empty".to_owned();
    };
    let share = rate as f64 / most as f64;
    let class = BOUNDS.iter().filter(|bound| share >= **bound).count();
    format!("c{class}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: 0.0841 Gbit/s for a pair at a port of 100 Mbit/s.
    #[test]
    fn a_slow_pair_is_no_fraction_of_a_gbit() {
        let live = Live {
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            course_bits_per_s: vec![84_100_000],
            stretch_s: 1,
            matrix_bits_per_s: vec![vec![None, Some(84_100_000)], vec![Some(150_000), None]],
            ..Live::default()
        };
        assert_eq!(scale(&live), "from 0 to 84.10 Mbit/s, over 1 s");
        assert_eq!(slowest(&live), "slowest pair: n2 to n1, 150.0 kbit/s");
        assert_eq!(unit_of_pairs(&live).unit, "Mbit/s");
        let matrix = matrix(&live).into_string();
        assert!(
            matrix.contains(">84.10<") && matrix.contains(">0.15<"),
            "{matrix}"
        );
        assert!(!matrix.contains("class=\"\""), "{matrix}");
    }
}
