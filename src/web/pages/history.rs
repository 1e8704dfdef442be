//! Page that shows what a port carried in each of the kept runs: was it always so?

use std::sync::Arc;

use maud::{Markup, html};

use crate::report::history::{PortFigures, WayFigures};
use crate::units::{percent, show_rate, show_utc};
use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::state::State;

use super::{badge, chart, page, utc};

/// Runs of the page, latest first, with the figures of their ports.
pub(crate) struct History<'a> {
    /// Words that all of these runs match.
    pub words: &'a str,
    /// Name of the port. Empty: in each direction the slowest port of each run.
    pub port: &'a str,
    pub runs: Vec<(State, Arc<[PortFigures]>)>,
    /// True if older runs match.
    pub more: bool,
}

/// Figures of a direction, with the name of their port.
type Named<'a> = (&'a str, &'a WayFigures);

/// Page with the history of a port.
pub(crate) fn history(app: &App, asker: &Asker, history: &History<'_>) -> Markup {
    let ports = history.runs.first().map_or(&[][..], |(_, ports)| ports);
    let port = history.port;
    let named = if port.is_empty() {
        "the slowest port"
    } else {
        port
    };
    let runs = history.runs.iter().map(|(state, ports)| {
        let ways = [0, 1].map(|way| lowest(ports, port, way));
        (state, ways)
    });
    let is_measured =
        |(_, ways): &(&State, [Option<Named<'_>>; 2])| ways.iter().any(Option::is_some);
    let shown: Vec<_> = runs.filter(is_measured).collect();
    let other = history.runs.len() - shown.len();
    // A limited run, or another test, is no drop of a port.
    let is_alike = |state: &State| {
        shown
            .first()
            .is_some_and(|(latest, _)| (&latest.what, &latest.hosts) == (&state.what, &state.hosts))
    };
    let alike = shown.iter().rev().filter(|(state, _)| is_alike(state));
    let dates: Vec<u64> = alike
        .clone()
        .filter_map(|(state, _)| state.when_ms())
        .collect();
    let ends =
        [dates.first(), dates.last()].map(|at| at.map_or_else(String::new, |at| show_utc(*at)));
    let rates: Vec<[Option<f64>; 2]> = alike
        .map(|(_, ways)| ways.map(|way| Some(way?.1.rate_bits_per_s)))
        .collect();
    let mut all = shown.iter().flat_map(|(_, ways)| ways.iter().flatten());
    let has_shares = all.any(|(_, way)| way.share.is_some());
    let body = html! {
        h1 { "History of " (named) }
        form .fields action={ (app.base) "/history" } {
            label for="q" { "Runs with" }
            input #q type="search" name="q" value=(history.words) maxlength="200" placeholder="host, verdict, date, person, purpose";
            label for="port" { "Port" }
            input #port name="port" value=(port) list="ports" maxlength="200" placeholder="the slowest port of each run";
            datalist #ports { @for port in ports { option value=(port.label) {} } }
            button { "Show" }
        }
        @if shown.is_empty() {
            p { "No run that matches has figures of this port." }
        } @else {
            @if rates.len() > 1 {
                (chart::over_runs(&rates, ends))
                @if rates.len() < shown.len() { p .note { "The lines join the " (rates.len()) " runs that made the same test on the same hosts as the latest one." } }
            }
            div .wide tabindex="0" { table {
                thead { tr {
                    th scope="col" { "run" } th scope="col" { "started (UTC)" } th scope="col" { "verdict" }
                    @for way in ["sends", "receives"] { th scope="col" .number { (way) } @if has_shares { th scope="col" .number { "of expected" } } }
                    th scope="col" { "test" }
                } }
                tbody { @for (state, ways) in &shown { tr {
                    td { a href={ (app.base) "/runs/" (state.name) } { (state.name) } }
                    td { @if let Some(at) = state.when_ms() { time datetime=(utc(at)) title={ (show_utc(at)) " UTC" } { (show_utc(at)) } } }
                    td { (badge(state)) }
                    @for way in ways { (cells(*way, port.is_empty(), has_shares)) }
                    td { (state.what) }
                } } }
            } }
        }
        @if other > 0 { p .note { (other) " of the runs have no figures of this port." } }
        @if let Some((last, _)) = history.runs.last().filter(|_| history.more) {
            form action={ (app.base) "/history" } {
                @for (name, value) in [("q", history.words), ("port", port), ("before", &last.name)] { input type="hidden" name=(name) value=(value); }
                button { "Older runs" }
            }
        }
    };
    page(app, asker, &format!("History of {named}"), None, body)
}

/// Figures of a direction: of this port, or of the slowest one if none is named.
fn lowest<'a>(ports: &'a [PortFigures], port: &str, way: usize) -> Option<Named<'a>> {
    let wanted = ports
        .iter()
        .filter(|one| port.is_empty() || one.label == port);
    let figures = wanted.filter_map(|one| Some((one.label.as_str(), one.ways.get(way)?.as_ref()?)));
    figures.min_by(|(_, a), (_, b)| a.rate_bits_per_s.total_cmp(&b.rate_bits_per_s))
}

fn cells(way: Option<Named<'_>>, with_name: bool, has_shares: bool) -> Markup {
    html! {
        td .number data-word=[way.and_then(|(_, way)| way.word)] {
            @if let Some((port, way)) = way { @if with_name { (port) " " } (show_rate(way.rate_bits_per_s)) }
        }
        @if has_shares { td .number { @if let Some(share) = way.and_then(|(_, way)| way.share) { (format!("{:.1} %", percent(share))) } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::VerdictWord;
    use crate::web::app::tests::app;
    use crate::web::state::tests::state;

    fn run(name: &str, rate_bits_per_s: f64, word: VerdictWord) -> (State, Arc<[PortFigures]>) {
        let way = WayFigures {
            rate_bits_per_s,
            share: Some(rate_bits_per_s / 10e9),
            word: Some(word),
        };
        let port = PortFigures {
            label: "n3".to_owned(),
            ways: [None, Some(way)],
        };
        (state(name), [port].into())
    }

    /// Symptom: after half a year, no page showed whether a port had always been so slow.
    #[test]
    fn a_port_is_shown_over_the_kept_runs() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let runs = vec![
            run("pb-20261123-034713-f63c44", 4.2e9, VerdictWord::Fail),
            run("pb-20260523-034713-f63c44", 9.4e9, VerdictWord::Pass),
            (state("pb-20260423-034713-f63c44"), [].into()),
        ];
        let mut shown = History {
            words: "n[01-16]",
            port: "n3",
            runs,
            more: true,
        };
        let page = |shown: &History<'_>| history(&app, &Asker::default(), shown).into_string();
        let found = page(&shown);
        for text in [
            "History of n3",
            "value=\"n[01-16]\"",
            "data-word=\"FAIL\">4.20 Gbit/s",
            "94.0 %",
            "href=\"/runs/pb-20260523-034713-f63c44\"",
            "1 of the runs have no figures",
            "name=\"before\" value=\"pb-20260423-034713-f63c44\"",
            "<polyline class=\"receives\" points=\"0.0,",
        ] {
            assert!(found.contains(text), "{text}: {found}");
        }
        shown.port = "n9";
        assert!(page(&shown).contains("No run that matches"));
        shown.port = "";
        let faster = PortFigures {
            label: "n4".to_owned(),
            ways: shown.runs[0].1[0].ways.map(|way| {
                way.map(|way| WayFigures {
                    rate_bits_per_s: 9e9,
                    ..way
                })
            }),
        };
        let both = [shown.runs[0].1[0].clone(), faster];
        shown.runs[0].1 = both.into();
        let found = page(&shown);
        assert!(
            found.contains("History of the slowest port") && found.contains(">n3 4.20 Gbit/s"),
            "{found}"
        );
        assert!(!found.contains(">9.00 Gbit/s"), "{found}");
    }
}
