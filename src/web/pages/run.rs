//! Page of one run: its place in the queue, live figures while it runs, results once it has ended. The first page and the events that follow it show
//! what [`part`] draws.

mod chart;
mod pairs;

use maud::{Markup, html};

use crate::record::Live;
use crate::report::format::Format;
use crate::units::{show_age, show_rate};
use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::state::{Stage, State};

use super::{badge, date, mark, page};

/// Interval at which a page without events reloads, in seconds.
const REFRESH_S: u32 = 3;

/// Page of a run.
pub(crate) fn run(app: &App, asker: &Asker, state: &State) -> Markup {
    let is_over = state.is_over();
    let refresh = (!is_over && app.event_hub.is_none()).then_some(REFRESH_S);
    let body = html! {
        @if !is_over && app.event_hub.is_some() {
            noscript { p .note { "This page needs JavaScript to update itself. Reload it to see new figures." } }
            p #lost .notice role="alert" hidden { span {} " " a href="" { "Reload the page" } }
        }
        (part(app, state))
        @if asker.is_known && can_be_cancelled(state) {
            form #cancel method="post" action={ (app.base) "/runs/" (state.name) "/cancel" } {
                (mark(app, asker)) button .danger { "Cancel this run" }
            }
        }
    };
    page(app, asker, &state.name, refresh, body)
}

/// The part of the page that changes with the state of the run. It is the same for all readers.
pub(crate) fn part(app: &App, state: &State) -> Markup {
    let is_followed = app.event_hub.is_some() && !state.is_over();
    let events = is_followed.then(|| format!("{}/runs/{}/events", app.base, state.name));
    let ahead = match state.state {
        Stage::Queued => app.queue.ahead(state),
        _ => Vec::new(),
    };
    draw(&app.base, events, state, &ahead, app.queue.now_ms())
}

fn can_be_cancelled(state: &State) -> bool {
    matches!(state.state, Stage::Queued | Stage::Running)
}

/// Draws a run that waits for the runs `ahead`. The page's script looks for `events`, the address of the next parts.
fn draw(base: &str, events: Option<String>, state: &State, ahead: &[State], now_ms: u64) -> Markup {
    let own = format!("{base}/runs/{}", state.name);
    html! {
        div #run data-events=[events] data-cancel=[can_be_cancelled(state).then_some("")] {
            h1 { (state.name) " " (badge(state)) }
            p .what { (state.what) @if !state.note.is_empty() { " - " (state.note) } }
            @match state.state {
                Stage::Queued => (queued(base, ahead, now_ms)),
                Stage::Running | Stage::Cancelling => (under_way(state)),
                Stage::Ended | Stage::Cancelled | Stage::Failed => (ended(&own, state)),
            }
            dl {
                dt { "requested by" } dd { (state.by) }
                @if let Some(at) = state.asked_ms { dt { "requested" } dd { (date(at)) } }
                @if let Some(at) = state.began_ms { dt { "started" } dd { (date(at)) } }
                @if let Some(ms) = state.data_ms { dt { "planned data time" } dd { (show_age(ms.div_ceil(1000))) } }
                @if let Some(code) = state.exit_code { dt { "exit code" } dd { (code) } }
            }
        }
    }
}

fn ended(own: &str, state: &State) -> Markup {
    html! {
        section #ended aria-label="result" {
            @if let Some(sentence) = state.sentence.as_ref().filter(|_| state.state == Stage::Ended) { p .verdict { (sentence) } }
            @if let Some(why) = &state.why { p .notice { (why) } }
            @if state.has_record {
                p { a .button href={ (own) "/report" } { "Open the report" } }
                ul .files { @for form in Format::ALL.map(Format::row) { li { a href={ (own) "/" (form.file) } { (form.label) } } } }
            }
        }
    }
}

/// Place of a run in the queue: the runs `ahead`, the first of which holds the fabric, and the time that they take.
fn queued(base: &str, ahead: &[State], now_ms: u64) -> Markup {
    html! {
        section #queue aria-label="place in the queue" aria-live="polite" {
            @match ahead {
                [] => p { "Queued: next to start." },
                [first, rest @ ..] => {
                    p {
                        "Queued: number " (ahead.len()) " in the queue of its fabric. It waits for "
                        a href={ (base) "/runs/" (first.name) } { (first.name) }
                        " (" @if !first.what.is_empty() { (first.what) ", " } "requested by " (first.by) ")"
                        @match rest.len() { 0 => {}, 1 => " and one other run", others => { " and " (others) " other runs" } }
                        "."
                    }
                    @if let Some(seconds) = wait_s(ahead, now_ms) {
                        p { "It starts in about " (show_age(seconds)) ": data flow that long in the runs ahead of it. Their starts and retests are not counted." }
                    }
                }
            }
        }
    }
}

/// Time in which data still flow in these runs, in seconds, if all of their plans are known. Rounded up to a multiple of five, since it is an estimate.
fn wait_s(ahead: &[State], now_ms: u64) -> Option<u64> {
    let left_ms = ahead.iter().map(|run| {
        let passed_ms = run.began_ms.map_or(0, |began| now_ms.saturating_sub(began));
        Some(run.data_ms?.saturating_sub(passed_ms))
    });
    let left_ms: Option<Vec<u64>> = left_ms.collect();
    let seconds = crate::units::sum(left_ms?.into_iter()).div_ceil(1000);
    Some(seconds.max(1).next_multiple_of(5))
}

fn under_way(state: &State) -> Markup {
    let live = state.live.clone().unwrap_or_default();
    let total = crate::units::sum(live.received_bits_per_s.iter().copied());
    let least = live.received_bits_per_s.iter().zip(&live.nodes).min();
    html! {
        section #live aria-label="live figures" {
            p #stage aria-live="polite" { (stage_text(state, &live)) }
            progress #progress max="1" value=(share(state, &live)) aria-label="share of the planned time" {}
            ul .tiles {
                @if let Some((rate, name)) = least {
                    li { b #total { (show_rate(total as f64)) } span { "received by all nodes" } }
                    li { b #least { (show_rate(*rate as f64)) } span { "slowest node: " span #leastname { (name) } } }
                }
                @if let Some(test) = &live.test {
                    li { b #test { "test " (test.number) " of " (test.of) } span #what { (test.what) } }
                }
            }
            @if !live.course_bits_per_s.is_empty() { (chart::chart(&live, state.data_ms)) }
            (pairs::pairs(&live))
        }
    }
}

fn stage_text(state: &State, live: &Live) -> String {
    match state.state {
        Stage::Cancelling => "cancelling: the processes of the run are ending".to_owned(),
        _ if live.stage.is_empty() => "starting".to_owned(),
        _ => live.stage.clone(),
    }
}

/// Share of the planned data time that is over, from 0 to 1.
fn share(state: &State, live: &Live) -> String {
    let seconds = live.course_bits_per_s.len() as u64 * live.stretch_s;
    let planned = state.data_ms.unwrap_or_default().max(1);
    format!("{:.3}", (seconds as f64 * 1000.0 / planned as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::run_store::RunStore;
    use crate::web::run_store::tests::request;

    const NAME: &str = "pb-20261121-101500-abcdef";

    /// State of a run of 60 s.
    fn state(stage: Stage) -> State {
        let folder = tempfile::tempdir().unwrap();
        let run_store = RunStore::open(folder.path()).unwrap();
        run_store.add(&request(NAME, 1000, "a")).unwrap();
        let state = run_store.state(&NAME.parse().unwrap(), 1000).unwrap();
        State {
            state: stage,
            data_ms: Some(60_000),
            ..state
        }
    }

    fn draw_of(state: &State, ahead: &[State], now_ms: u64) -> String {
        let events = (!state.is_over()).then(|| "/runs/x/events".to_owned());
        draw("/base", events, state, ahead, now_ms).into_string()
    }

    /// Symptom: after Cancel, the page said "running ... starting" with the Cancel button until the run was over.
    #[test]
    fn a_cancelled_run_does_not_say_that_it_starts() {
        let running = draw_of(&state(Stage::Running), &[], 2000);
        assert!(running.contains(">starting<"), "{running}");
        assert!(running.contains("data-cancel"), "{running}");
        let cancelling = draw_of(&state(Stage::Cancelling), &[], 2000);
        assert!(cancelling.contains(">cancelling<"), "{cancelling}");
        assert!(cancelling.contains(">cancelling: "), "{cancelling}");
        assert!(!cancelling.contains("starting"), "{cancelling}");
        assert!(!cancelling.contains("data-cancel"), "{cancelling}");
        // It is not over, so the page follows it on.
        assert!(cancelling.contains("data-events"), "{cancelling}");
    }

    /// Symptom: the page of a waiting run showed 0.00 Gbit/s, an empty chart and an empty matrix, and no link to the run that it waits for.
    #[test]
    fn a_waiting_run_shows_no_figures_but_whom_it_waits_for_and_how_long() {
        let first = State {
            began_ms: Some(10_000),
            ..state(Stage::Running)
        };
        let second = State {
            name: "pb-20261121-101501-abcdef".to_owned(),
            ..state(Stage::Queued)
        };
        // 20 s of the first run are over.
        let page = draw_of(
            &state(Stage::Queued),
            &[first.clone(), second.clone()],
            30_000,
        );
        for text in [
            "number 2 in the queue",
            "href=\"/base/runs/pb-20261121-101500-abcdef\"",
            "(rack 7: quick, requested by anna) and one other run.",
            "in about 1 min 40 s",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        for text in ["bit/s", "<svg", "<table", "<progress"] {
            assert!(!page.contains(text), "{text}: {page}");
        }
        assert_eq!(wait_s(std::slice::from_ref(&first), u64::MAX), Some(5));
        let unknown = State {
            data_ms: None,
            ..second
        };
        assert_eq!(wait_s(&[first, unknown], 0), None);
        let page = draw_of(&state(Stage::Queued), &[], 30_000);
        assert!(page.contains("next to start"), "{page}");
    }

    /// Symptom: the page and its script each drew the figures, and differed. The script looks for these names.
    #[test]
    fn the_script_finds_what_the_page_names() {
        let script = include_str!("../assets/live.js");
        let page = draw_of(&state(Stage::Running), &[], 0);
        assert!(page.starts_with("<div id=\"run\" data-events="), "{page}");
        for name in ["\"run\"", "\"lost\"", "\"cancel\"", "\"readout\"", "#pairs"] {
            assert!(script.contains(name), "{name}");
        }
        // A run that is over has no address of further parts.
        assert!(!draw_of(&state(Stage::Failed), &[], 0).contains("data-events"));
        // The script draws nothing.
        for word in ["bit/s", "toFixed", "JSON.parse"] {
            assert!(!script.contains(word), "{word}");
        }
    }
}
