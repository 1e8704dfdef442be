//! Page of one run: its place in the queue, live figures while it runs, results once it has ended. The first page and the events that follow it show
//! what [`part`] draws.

mod pairs;

use maud::{Markup, html};

use crate::record::{Live, Record};
use crate::report::format::Format;
use crate::report::{count, history, page as sheet};
use crate::units::{show_age, show_rate};
use crate::web::answers::MOST_SEARCH;
use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::state::{Stage, State};

use super::{badge, chart, date, mark, page, sentence, word};

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
        @if asker.is_known && can_be_cancelled(state) {
            form #cancel method="post" action={ (app.base) "/runs/" (state.name) "/cancel" } {
                (mark(app, asker)) button .danger { "Cancel this run" }
            }
        }
        (part(app, state))
    };
    page(app, asker, &title(state), refresh, body)
}

/// The part of the page that changes with the state of the run. It is the same for all readers. Reads the record of a run that is over: callers limit
/// how many are read at the same time.
pub(crate) fn part(app: &App, state: &State) -> Markup {
    let is_followed = app.event_hub.is_some() && !state.is_over();
    let ahead = match state.state {
        Stage::Queued => app.queue.ahead(state),
        _ => Vec::new(),
    };
    let name = state.name.parse().ok().filter(|_| state.is_over());
    Part {
        base: &app.base,
        events: is_followed.then(|| format!("{}/runs/{}/events", app.base, state.name)),
        state,
        ahead: &ahead,
        record: name.and_then(|name| app.queue.run_store.record(&name)),
        now_ms: app.queue.now_ms(),
    }
    .draw()
}

/// Title of the page: what became of the run, for whom waits in another tab.
fn title(state: &State) -> String {
    format!("{} - {}", word(state), state.title)
}

fn can_be_cancelled(state: &State) -> bool {
    matches!(state.state, Stage::Queued | Stage::Running)
}

/// A run to draw.
struct Part<'a> {
    base: &'a str,
    /// Address of the next parts, which the page's script looks for.
    events: Option<String>,
    state: &'a State,
    /// The runs that it waits for.
    ahead: &'a [State],
    /// Its record, once it is over.
    record: Option<Record>,
    now_ms: u64,
}

impl Part<'_> {
    fn draw(&self) -> Markup {
        let state = self.state;
        let is_named = state.title != state.name;
        html! {
            div #run data-events=[self.events.as_ref()] data-cancel=[can_be_cancelled(state).then_some("")] data-title=(title(state)) {
                h1 { (state.title) " " (badge(state)) }
                p .what { (state.what) @if !state.note.is_empty() { " - " (state.note) } @if is_named { " " small .note { (state.name) } } }
                @match state.state {
                    Stage::Queued => (queued(self.base, self.ahead, self.now_ms)),
                    Stage::Running | Stage::Cancelling => (under_way(state)),
                    Stage::Ended | Stage::Cancelled | Stage::Failed => (self.ended()),
                }
                dl {
                    dt { "requested by" } dd { (state.by) }
                    @if let Some(at) = state.asked_ms { dt { "requested" } dd { (date(at)) } }
                    @if let Some(at) = state.began_ms { dt { "started" } dd { (date(at)) } }
                    @if let Some(at) = state.ended_ms { dt { "ended" } dd { (date(at)) } }
                    @if let Some(took) = &state.took { dt { "took" } dd { (took) } }
                    @if let Some(ms) = state.data_ms { dt { "planned length" } dd { (show_age(ms.div_ceil(1000))) } }
                    @if let Some(code) = state.exit_code { dt { "exit code" } dd { (code) } }
                }
            }
        }
    }

    /// The result, and what one does next.
    fn ended(&self) -> Markup {
        let (base, state) = (self.base, self.state);
        let own = format!("{base}/runs/{}", state.name);
        // The verdict of a run that was cut short is only that it was.
        let has_result = state.state == Stage::Ended && !state.aborted;
        let is_readable = self.record.is_some();
        let next = html! {
            @if state.has_record && !is_readable { p .notice { "The record of this run cannot be read." } }
            p .actions {
                @if is_readable { a .button href={ (own) "/report" } { "Open the report" } }
                @if state.asked_ms.is_some() { a .button .plain href={ (base) "/?again=" (state.name) } { "Run again" } }
                @if state.is_measured() { a .button .plain href={ (base) "/compare?now=" (state.name) } { "Compare with the run before" } }
            }
        };
        html! {
            section #ended aria-label="result" {
                @if let Some(why) = &state.why { p .notice { (sentence(why)) } }
                @match self.record.as_ref().filter(|_| has_result) { Some(record) => (sheet::result(record, &next)), None => (next) }
                @if let Some(record) = self.record.as_ref().filter(|_| state.is_measured()) { (self.history(record)) }
                @if is_readable {
                    h2 { "Downloads" }
                    ul .files { @for form in Format::ALL.map(Format::row) { li { a href={ (own) "/" (form.file) } { (form.label) } } } }
                }
            }
        }
    }

    /// The way to earlier figures of a port.
    fn history(&self, record: &Record) -> Markup {
        let ports = history::ports(record);
        // A search has a limit; the first host is in all runs of these hosts.
        let hosts = &self.state.hosts;
        let first = record.plan.nodes.first().map_or("", |node| &node.label);
        let words = if hosts.len() <= MOST_SEARCH {
            hosts
        } else {
            first
        };
        html! {
            @if !ports.is_empty() {
                h2 { "Earlier runs of these hosts" }
                form .search action={ (self.base) "/history" } {
                    input type="hidden" name="q" value=(words);
                    label .unseen for="port" { "Port" }
                    select #port name="port" { option value="" { "the slowest port of each run" } @for port in &ports { option value=(port.label) { (port.label) } } }
                    button .plain { "History" }
                }
            }
        }
    }
}

/// A run that waits: the runs `ahead`, the first of which holds the fabric, and the time that they take.
fn queued(base: &str, ahead: &[State], now_ms: u64) -> Markup {
    html! {
        section #queue aria-label="place in the queue" aria-live="polite" {
            @if ahead.is_empty() { p { "This run is the next to start." } } @else {
                p { "This run waits for " (count(ahead.len(), "run")) ", since runs that share ports must not load them at the same time:" }
                ol {
                    @for run in ahead {
                        li { a href={ (base) "/runs/" (run.name) } { (run.title) } ", " (word(run)) ", requested by " (run.by) @if !run.what.is_empty() { " (" (run.what) ")" } }
                    }
                }
                p {
                    @match wait_s(ahead, now_ms) {
                        Some(seconds) => { "It starts in about " (show_age(seconds)) ". Starts and retests of these runs can make that longer." }
                        None => "How long that takes is unknown, since not all of these runs have a planned length.",
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
            @if let Some(left) = left_s(state, &live) { p #left .note { "About " (show_age(left)) " of data left. Starts, drains and retests are not counted." } }
            progress #progress max="1" value=(share(state, &live)) aria-label="share of the planned time" {}
            ul .tiles {
                @if let Some((rate, name)) = least {
                    li { b #total { (show_rate(total as f64)) } span { "received by all nodes" } }
                    li { b #least { (show_rate(*rate as f64)) } span { "slowest node: " span #leastname { (name) } } }
                }
                @if let Some(test) = &live.test {
                    li { b #test { @if test.kind.is_empty() { "test" } @else { (test.kind) } " " (test.number) " of " (test.of) } span #what { (test.what) } }
                }
            }
            @if !live.course_bits_per_s.is_empty() { (chart::over_time(&live, state.data_ms)) }
            (pairs::pairs(&live))
            @if !live.events.is_empty() {
                h2 { "Events" }
                ol #events tabindex="0" aria-label="events, latest first" { @for event in live.events.iter().rev() { li { time { (event.after_s) " s" } " " (event.what) } } }
            }
        }
    }
}

fn stage_text(state: &State, live: &Live) -> String {
    match state.state {
        Stage::Cancelling => "cancelling: the processes of the run are ending".to_owned(),
        _ if state.live.is_none() && state.has_record => "writing the result".to_owned(),
        _ if live.stage.is_empty() => "starting".to_owned(),
        _ => live.stage.clone(),
    }
}

/// Seconds in which data have flowed.
fn passed_s(live: &Live) -> u64 {
    (live.course_bits_per_s.len() as u64).saturating_mul(live.stretch_s)
}

/// Share of the planned data time that is over, from 0 to 1; without one, that of the parts of the test.
fn share(state: &State, live: &Live) -> String {
    let (over, all) = match (state.data_ms, &live.test) {
        (Some(ms), _) => (passed_s(live) as f64 * 1000.0, ms as f64),
        // A table runs, and a step has ended.
        (None, Some(test)) => {
            let running = if test.kind == "step" { 0 } else { 1 };
            (test.number.saturating_sub(running) as f64, test.of as f64)
        }
        (None, None) => (0.0, 1.0),
    };
    format!("{:.3}", (over / all.max(1.0)).min(1.0))
}

/// Planned time in which data still flow, in seconds. `None` if it is unknown or over.
fn left_s(state: &State, live: &Live) -> Option<u64> {
    let planned_s = state.data_ms?.div_ceil(1000);
    let is_running = state.state == Stage::Running && state.live.is_some();
    planned_s
        .checked_sub(passed_s(live))
        .filter(|left| is_running && *left > 0)
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
        let part = Part {
            base: "/base",
            events,
            state,
            ahead,
            record: None,
            now_ms,
        };
        part.draw().into_string()
    }

    /// Symptom: the page did not show how long a run would still take.
    #[test]
    fn a_running_run_says_how_long_data_still_flow() {
        let live = |seconds: usize| Live {
            course_bits_per_s: vec![1; seconds],
            stretch_s: 1,
            ..Live::default()
        };
        let running = |seconds: usize, data_ms: Option<u64>| State {
            live: Some(live(seconds)),
            data_ms,
            ..state(Stage::Running)
        };
        let page = draw_of(&running(20, Some(60_000)), &[], 0);
        assert!(page.contains("About 40 s of data left"), "{page}");
        assert!(page.contains("value=\"0.333\""), "{page}");
        let retests = draw_of(&running(70, Some(60_000)), &[], 0);
        assert!(!retests.contains("of data left") && retests.contains("value=\"1.000\""));
        // A link test has steps and no time.
        let mut steps = live(0);
        steps.test = Some(crate::record::LiveTest {
            kind: "step".to_owned(),
            number: 3,
            of: 15,
            ..crate::record::LiveTest::default()
        });
        let of_steps = State {
            live: Some(steps),
            ..running(0, None)
        };
        assert!(draw_of(&of_steps, &[], 0).contains("value=\"0.200\""));
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
            "waits for 2 runs, since",
            "href=\"/base/runs/pb-20261121-101500-abcdef\">pb-20261121-101500-abcdef</a>, running, requested by anna (rack 7: quick)",
            "</a>, queued, requested by",
            "It starts in about 1 min 40 s.",
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
        assert_eq!(wait_s(&[first.clone(), unknown.clone()], 0), None);
        let page = draw_of(&state(Stage::Queued), &[first, unknown], 0);
        assert!(page.contains("How long that takes is unknown"), "{page}");
        let page = draw_of(&state(Stage::Queued), &[], 30_000);
        assert!(page.contains("the next to start"), "{page}");
    }

    /// Symptom: at its end a run lost its figures, and the page had only links.
    #[test]
    fn the_page_of_a_run_that_is_over_begins_with_its_result() {
        let record = include_str!("../../../tests/golden/slow-receiver/record.json");
        let ended = State {
            has_record: true,
            verdict: Some(crate::record::VerdictWord::Fail),
            hosts: "n[1-4]".to_owned(),
            ..state(Stage::Ended)
        };
        let part = Part {
            base: "/base",
            events: None,
            state: &ended,
            ahead: &[],
            record: Some(crate::report::json::read(record).unwrap()),
            now_ms: 0,
        };
        let page = part.draw().into_string();
        let mut rest = page.as_str();
        // In this order.
        for text in [
            "data-title=\"FAIL - pb-20261121-101500-abcdef\"",
            "<header data-word=\"FAIL\">",
            "n3 receive",
            "<ul class=\"tiles\">",
            "/base/runs/pb-20261121-101500-abcdef/report",
            "/base/?again=pb-20261121-101500-abcdef",
            "/base/compare?now=pb-20261121-101500-abcdef",
            "Findings",
            "svg class=\"heat\"",
            "svg class=\"course\"",
            "action=\"/base/history\"",
            "<option value=\"n3\">",
            "summary.txt",
        ] {
            let (_, after) = rest
                .split_once(text)
                .unwrap_or_else(|| panic!("{text}: {page}"));
            rest = after;
        }
        // The page allows no inline styles.
        assert!(!page.contains("style="), "{page}");
    }

    /// Symptom: of a cancelled run the page said "cancelled", INVALID in red, and twice "ended by SIGINT".
    #[test]
    fn a_run_that_was_cut_short_has_its_reason_and_no_verdict() {
        let record = include_str!("../../../tests/golden/slow-receiver/record.json");
        let cancelled = State {
            has_record: true,
            why: Some("the run was cancelled".to_owned()),
            ..state(Stage::Cancelled)
        };
        let mut part = Part {
            base: "",
            events: None,
            state: &cancelled,
            ahead: &[],
            record: crate::report::json::read(record).ok(),
            now_ms: 0,
        };
        let page = part.draw().into_string();
        assert!(
            page.contains("The run was cancelled.") && page.contains("Open the report"),
            "{page}"
        );
        assert!(!page.contains("<header"), "{page}");
        // Symptom: a record that cannot be read left a page without a word.
        part.record = None;
        let page = part.draw().into_string();
        assert!(
            page.contains("cannot be read") && !page.contains("/report"),
            "{page}"
        );
    }

    /// Symptom: between the last figures and the result the page said "starting".
    #[test]
    fn a_run_whose_result_is_written_does_not_start_again() {
        let writing = State {
            has_record: true,
            ..state(Stage::Running)
        };
        let page = draw_of(&writing, &[], 0);
        assert!(
            page.contains("writing the result") && !page.contains("of data left"),
            "{page}"
        );
    }

    /// Symptom: the page and its script each drew the figures, and differed. The script looks for these names.
    #[test]
    fn the_script_finds_what_the_page_names() {
        let script = include_str!("../assets/live.js");
        let page = draw_of(&state(Stage::Running), &[], 0);
        assert!(page.starts_with("<div id=\"run\" data-events="), "{page}");
        for name in [
            "\"run\"",
            "\"lost\"",
            "\"cancel\"",
            "\"readout\"",
            "#cells",
            "dataset",
        ] {
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
