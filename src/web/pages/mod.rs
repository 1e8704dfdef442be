//! The pages, shared by server and CGI program. A server's pages follow a run by events; a CGI program's pages reload.

mod chart;
mod compare;
mod history;
mod list;
mod run;
mod start;

pub(super) use compare::compare;
pub(super) use history::{History, history};
pub(super) use list::list;
pub(super) use run::{part, run};
pub(super) use start::{Question, home, question};

use maud::{DOCTYPE, Markup, html};

use crate::record::VerdictWord;
use crate::report::page as sheet;
use crate::report::page::head;
use crate::units::{show_age, show_rate, show_utc, sum};

use super::app::App;
use super::guard::Asker;
use super::state::{Stage, State};

const STYLE: &str = include_str!("../assets/site.css");
const SCRIPT: &str = include_str!("../assets/live.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// Content type and text of a file that pages load, if it exists.
pub(super) fn asset(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "sheet.css" => ("text/css; charset=utf-8", sheet::STYLE),
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
                @for sheet in ["sheet", "site"] { link rel="stylesheet" href={ (base) "/assets/" (sheet) ".css" }; }
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
                        a href=(login_address(app, asker)) { "Log in" }
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
pub(super) fn problem(app: &App, asker: &Asker, status: u16, what: &str) -> Markup {
    let body = html! {
        h1 { "Request failed" }
        p role="alert" .complaint { (sentence(&format!("{what} ({status})"))) }
        p { a href={ (app.base) "/" } { "Back to the start page" } }
    };
    page(app, asker, "Request failed", None, body)
}

/// Address of the login, which leads back to the page that the asker asked for.
pub(super) fn login_address(app: &App, asker: &Asker) -> String {
    let to = asker
        .page
        .as_deref()
        .map(|page| format!("?to={}", in_address(page)));
    format!("{}/login{}", app.base, to.unwrap_or_default())
}

/// A text as a value in an address.
fn in_address(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' | b':' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// Login page, which asks for the token.
pub(super) fn login(app: &App, asker: &Asker, complaint: Option<&str>) -> Markup {
    let body = html! {
        h1 { "Log in" }
        p .note { "You need this site's token to start or cancel a run. Ask the person who runs the site: the site file names the file that holds the token." }
        @if let Some(complaint) = complaint { p role="alert" .complaint { (sentence(complaint)) } }
        form .fields method="post" action={ (app.base) "/login" } {
            @if let Some(page) = &asker.page { input type="hidden" name="to" value=(page); }
            label for="token" { "Token" }
            input #token type="password" name="token" autocomplete="current-password" required autofocus;
            button { "Log in" }
        }
    };
    page(app, asker, "Log in", None, body)
}

/// An error as a sentence. A word at its beginning gets a capital; an option or the name of a host stays as it is.
fn sentence(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    let is_word = !word.is_empty() && word.bytes().all(|letter| letter.is_ascii_lowercase());
    let (first, rest) = text.split_at(usize::from(is_word));
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{}{rest}{end}", first.to_uppercase())
}

/// Badge of a run.
fn badge(state: &State) -> Markup {
    let (class, word) = class_and_word(state);
    html! { span .badge .(class) { (word) } }
}

/// Verdict of a run, or its stage.
fn word(state: &State) -> String {
    class_and_word(state).1
}

fn class_and_word(state: &State) -> (&'static str, String) {
    match (state.state, state.verdict) {
        (Stage::Queued, _) => ("none", "queued".to_owned()),
        (Stage::Running, _) => ("busy", "running".to_owned()),
        (Stage::Cancelling, _) => ("busy", "cancelling".to_owned()),
        (Stage::Cancelled, _) => ("none", "cancelled".to_owned()),
        (Stage::Failed, _) => ("fail", "failed".to_owned()),
        (Stage::Ended, _) if state.aborted => ("none", "aborted".to_owned()),
        (Stage::Ended, Some(word)) => (class_of(word), word.to_string()),
        (Stage::Ended, None) => ("none", "ended".to_owned()),
    }
}

fn class_of(word: VerdictWord) -> &'static str {
    match word {
        VerdictWord::Pass => "pass",
        VerdictWord::Fail | VerdictWord::Invalid => "fail",
        VerdictWord::Undecided | VerdictWord::HostLimited => "open",
        VerdictWord::NotJudged => "none",
    }
}

/// A date in UTC. The page's script adds the local time.
fn date(at_ms: u64) -> Markup {
    html! { time datetime=(utc(at_ms)) { (show_utc(at_ms)) " UTC" } }
}

/// A date as in the attribute of a `time` element.
fn utc(at_ms: u64) -> String {
    show_utc(at_ms).replace(' ', "T") + "Z"
}

/// List of runs. A desktop shows each run as a row, a phone as a card.
fn rows(app: &App, asker: &Asker, states: &[State]) -> Markup {
    let now_ms = app.queue.now_ms();
    html! {
        table .runs {
            thead { tr {
                @for column in ["verdict", "run", "when", "took", "result", "by"] { th scope="col" { (column) } }
                th scope="col" { span .unseen { "actions" } }
            } }
            tbody { @for state in states { (row(app, asker, state, now_ms)) } }
        }
    }
}

fn row(app: &App, asker: &Asker, state: &State, now_ms: u64) -> Markup {
    let base = &app.base;
    html! {
        tr {
            td { (badge(state)) }
            td .what {
                a href={ (base) "/runs/" (state.name) } { (state.title) " " small { (state.name) } }
                @let texts = [&state.hosts, &state.what, &state.note];
                @for text in texts.into_iter().filter(|text| !text.is_empty() && **text != state.title) { div .note { (text) } }
            }
            td { @if let Some(at) = state.when_ms() { time datetime=(utc(at)) title={ (show_utc(at)) " UTC" } { (ago(at, now_ms)) } } }
            td { (state.took.as_deref().unwrap_or_default()) }
            td { (result(state)) }
            td { (state.by) }
            td {
                @if state.is_measured() { a href={ (base) "/compare?now=" (state.name) } { "compare" } " " }
                @if asker.is_known && state.asked_ms.is_some() { a href={ (base) "/?again=" (state.name) } { "run again" } }
            }
        }
    }
}

/// The reason why a run failed, else its rate now or its weakest port.
fn result(state: &State) -> String {
    let rates = state.live.iter().flat_map(|live| &live.received_bits_per_s);
    match (&state.why, &state.live, &state.weakest) {
        (Some(why), ..) => why.clone(),
        (None, Some(_), _) => show_rate(sum(rates.copied()) as f64),
        (None, None, Some(weakest)) if !weakest.is_empty() => format!("weakest {weakest}"),
        (None, None, _) => String::new(),
    }
}

/// Age of a time for people, in its largest unit: `4 min ago`.
fn ago(at_ms: u64, now_ms: u64) -> String {
    let age = show_age(now_ms.saturating_sub(at_ms) / 1000);
    let largest: Vec<&str> = age.split(' ').take(2).collect();
    format!("{} ago", largest.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::answers;
    use crate::web::app::tests::app;
    use crate::web::state::tests::state;

    const NAME: &str = "pb-20261123-034713-f63c44";

    /// Symptom: of a run that found its host busy, the list showed only "weakest local3 receive 0.00 Gbit/s".
    #[test]
    fn the_list_tells_why_a_run_failed_and_blames_no_port() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let mut run = state(NAME);
        let page = |run: &State| {
            let runs = std::slice::from_ref(run);
            rows(&app, &Asker::default(), runs).into_string()
        };
        let healthy = page(&run);
        for text in [
            "weakest n03 receive",
            "rack 7 - mesh",
            "n[01-16]",
            "11 s",
            "4 min ago",
            ">PASS<",
        ] {
            assert!(healthy.contains(text), "{text}: {healthy}");
        }
        let compare = format!("/compare?now={NAME}");
        assert!(
            healthy.contains(&compare) && !healthy.contains("again"),
            "{healthy}"
        );
        run.verdict = Some(VerdictWord::Invalid);
        run.why = Some("local1: busy: run c97c3b".to_owned());
        let busy = page(&run);
        assert!(
            busy.contains("busy: run c97c3b") && !busy.contains("weakest"),
            "{busy}"
        );
        assert!(!busy.contains(&compare), "{busy}");
    }

    /// Symptom: a run that ended with its server had the red badge INVALID.
    #[test]
    fn an_aborted_run_has_no_red_badge() {
        let mut run = state(NAME);
        run.verdict = Some(VerdictWord::Invalid);
        assert_eq!(
            badge(&run).into_string(),
            "<span class=\"badge fail\">INVALID</span>"
        );
        run.aborted = true;
        assert_eq!(
            badge(&run).into_string(),
            "<span class=\"badge none\">aborted</span>"
        );
    }

    /// Symptom: error pages offered "Log in" to a user who was logged in.
    #[test]
    fn an_error_page_knows_who_is_logged_in() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let asker = Asker {
            session: Some("x".to_owned()),
            ..Asker::default()
        };
        let status = axum::http::StatusCode::NOT_FOUND;
        let mut answer = answers::problem(&app, false, status, "there is no such page");
        answers::draw(&app, &asker, &mut answer);
        let body = axum::body::to_bytes(answer.into_body(), 65536);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let body = runtime.unwrap().block_on(body).unwrap();
        let page = String::from_utf8(body.to_vec()).unwrap();
        assert!(page.contains("There is no such page (404)."), "{page}");
        assert!(
            page.contains("Log out") && !page.contains("Log in"),
            "{page}"
        );
    }

    #[test]
    fn an_error_is_a_sentence_and_names_stay_as_they_are() {
        for (text, shown) in [
            ("wrong token", "Wrong token."),
            (
                "--pattern mesh needs more nodes",
                "--pattern mesh needs more nodes.",
            ),
            ("n1: busy: run pb-1", "n1: busy: run pb-1."),
            (
                "a test takes 2 h (give less)",
                "A test takes 2 h (give less).",
            ),
            ("Done.", "Done."),
            ("", "."),
        ] {
            assert_eq!(sentence(text), shown);
        }
        assert_eq!(
            in_address("/?again=a b&\u{e9}"),
            "/%3Fagain%3Da%20b%26%C3%A9"
        );
    }

    /// Symptom: dates were in UTC alone, and no program or script could read them.
    #[test]
    fn a_date_is_in_utc_and_a_script_can_add_the_local_time() {
        let date = date(1_795_405_633_000).into_string();
        let own = "<time datetime=\"2026-11-23T03:47:13Z\">2026-11-23 03:47:13 UTC</time>";
        assert_eq!(date, own);
        assert!(SCRIPT.contains("time[datetime]"));
    }

    #[test]
    fn an_age_has_its_largest_unit() {
        assert_eq!(ago(0, 245_000), "4 min ago");
        assert_eq!(ago(0, 400_000_000), "4 d ago");
        assert_eq!(ago(2000, 1000), "0 s ago");
    }
}
