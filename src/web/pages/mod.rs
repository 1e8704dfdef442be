//! The pages, shared by server and CGI program. A server's pages follow a run by events; a CGI program's pages reload.

mod compare;
mod list;
mod run;
mod start;

pub(super) use compare::compare;
pub(super) use list::list;
pub(super) use run::{part, run};
pub(super) use start::{home, question};

use maud::{DOCTYPE, Markup, html};

use crate::record::VerdictWord;
use crate::report::page::head;
use crate::units::show_utc;

use super::app::App;
use super::guard::Asker;
use super::run_store::RunName;
use super::state::{Stage, State};

const STYLE: &str = include_str!("../assets/site.css");
const SCRIPT: &str = include_str!("../assets/live.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// Content type and text of a file that pages load, if it exists.
pub(super) fn asset(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "site.css" => ("text/css; charset=utf-8", STYLE),
        "live.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return None,
    })
}

/// A whole page. `refresh` is the number of seconds until it reloads.
fn page(app: &App, asker: &Asker, title: &str, refresh: Option<u32>, body: Markup) -> Markup {
    let base = &app.base;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(&format!("{title} - pipebench")))
                @if let Some(seconds) = refresh { meta http-equiv="refresh" content=(seconds); }
                link rel="icon" type="image/svg+xml" href={ (base) "/assets/icon.svg" };
                link rel="stylesheet" href={ (base) "/assets/site.css" };
                @if app.event_hub.is_some() { script src={ (base) "/assets/live.js" } defer {} }
            }
            body {
                a .skip href="#content" { "Skip to content" }
                nav aria-label="pages" {
                    a .home href={ (base) "/" } { "pipebench" }
                    a href={ (base) "/runs" } { "Runs" }
                    a href={ (base) "/compare" } { "Compare" }
                    span .space {}
                    @if asker.session.is_some() {
                        form method="post" action={ (base) "/logout" } { (mark(app, asker)) button .plain { "Log out" } }
                    } @else if let Some(user) = &asker.user {
                        span { (user) }
                    } @else {
                        a href={ (base) "/login" } { "Log in" }
                    }
                }
                main #content { (body) }
            }
        }
    }
}

/// Hidden form field with the mark that proves that a form is ours.
fn mark(app: &App, asker: &Asker) -> Markup {
    html! { input type="hidden" name="mark" value=(app.guard.mark(asker)); }
}

/// Error page.
pub(super) fn problem(app: &App, status: u16, what: &str) -> Markup {
    let body = html! {
        h1 { "Request failed" }
        p role="alert" .complaint { (what) " (" (status) ")." }
        p { a href={ (app.base) "/" } { "Back to the start page" } }
    };
    page(app, &Asker::default(), "Request failed", None, body)
}

/// Login page, which asks for the token. `run` is the run to show after the login.
pub(super) fn login(
    app: &App,
    asker: &Asker,
    run: Option<&RunName>,
    complaint: Option<&str>,
) -> Markup {
    let body = html! {
        h1 { "Log in" }
        p .note { "You need this site's token to start or cancel a run. Ask the person who runs the site: the site file names the file that holds the token." }
        @if let Some(complaint) = complaint { p role="alert" .complaint { (complaint) "." } }
        form .fields method="post" action={ (app.base) "/login" } {
            @if let Some(run) = run { input type="hidden" name="run" value=(run); }
            label for="token" { "Token" }
            input #token type="password" name="token" autocomplete="current-password" required autofocus;
            button { "Log in" }
        }
    };
    page(app, asker, "Log in", None, body)
}

/// Badge of a run: its verdict, or its stage.
fn badge(state: &State) -> Markup {
    let (class, word) = match (state.state, state.verdict) {
        (Stage::Queued, _) => ("none", "queued".to_owned()),
        (Stage::Running, _) => ("busy", "running".to_owned()),
        (Stage::Cancelling, _) => ("busy", "cancelling".to_owned()),
        (Stage::Cancelled, _) => ("none", "cancelled".to_owned()),
        (Stage::Failed, _) => ("fail", "failed".to_owned()),
        (Stage::Ended, Some(word)) => (class_of(word), word.to_string()),
        (Stage::Ended, None) => ("none", "ended".to_owned()),
    };
    html! { span .badge .(class) { (word) } }
}

fn class_of(word: VerdictWord) -> &'static str {
    match word {
        VerdictWord::Pass => "pass",
        VerdictWord::Fail | VerdictWord::Invalid => "fail",
        VerdictWord::Undecided | VerdictWord::HostLimited => "open",
        VerdictWord::NotJudged => "none",
    }
}

/// A date in UTC, in a `time` element that programs can read.
fn date(at_ms: u64) -> Markup {
    html! { time { (show_utc(at_ms)) " UTC" } }
}

/// List of runs. A phone shows each run as a card, a desktop as a row.
fn rows(app: &App, states: &[State]) -> Markup {
    html! {
        ul .runs {
            @for state in states {
                li {
                    a href={ (app.base) "/runs/" (state.name) } { (state.name) }
                    (badge(state))
                    span .what {
                        @if state.what.is_empty() { @if let Some(nodes) = state.nodes { (nodes) " nodes" } } @else { (state.what) }
                        @if !state.note.is_empty() { " - " (state.note) }
                    }
                    span .by { (state.by) }
                    @if let Some(weakest) = state.weakest.as_ref().filter(|text| !text.is_empty()) { span .weakest { "weakest " (weakest) } }
                    @else if let Some(why) = &state.why { span .weakest { (why) } }
                }
            }
        }
    }
}
