//! List of all runs, and search by words.

use maud::{Markup, html};

use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::state::State;

use super::{in_address, page, rows};

/// Verdicts and states that the list can be limited to.
const VERDICTS: [&str; 6] = [
    "PASS",
    "FAIL",
    "UNDECIDED",
    "HOST-LIMITED",
    "NOT JUDGED",
    "INVALID",
];
const STATES: [&str; 6] = [
    "queued",
    "running",
    "ended",
    "aborted",
    "cancelled",
    "failed",
];

/// Page with the found runs, latest first. `more` is true if more runs match.
pub(crate) fn list(app: &App, asker: &Asker, words: &str, found: &[State], more: bool) -> Markup {
    let body = html! {
        h1 { "Runs" }
        (filters(app, words, "verdict", &VERDICTS))
        (filters(app, words, "state", &STATES))
        form .search role="search" action={ (app.base) "/runs" } {
            label .unseen for="q" { "Search words" }
            input #q type="search" name="q" value=(words) maxlength="200" placeholder="run name, host, verdict, date, person, purpose";
            button { "Search" }
        }
        @if found.is_empty() {
            p { @if words.is_empty() { "No runs yet." } @else { "No run matches all of these words." } }
        } @else {
            (rows(app, asker, found))
            form .actions action={ (app.base) "/history" } {
                input type="hidden" name="q" value=(words);
                button .plain { "History of these runs" }
            }
        }
        @if let Some(last) = found.last().filter(|_| more) {
            form action={ (app.base) "/runs" } {
                input type="hidden" name="q" value=(words);
                input type="hidden" name="before" value=(last.name);
                button { "Older runs" }
            }
        }
    };
    page(app, asker, "Runs", None, body)
}

/// A link for each value of a filter, which puts it among the search words or takes it out of them. At most one value of a filter is set.
fn filters(app: &App, words: &str, key: &str, values: &[&str]) -> Markup {
    let word = |value: &str| format!("{key}:{}", value.to_lowercase().replace(' ', "-"));
    let is_set = |value: &str| {
        words
            .split_whitespace()
            .any(|own| own.eq_ignore_ascii_case(&word(value)))
    };
    let is_other = |own: &&str| {
        !values
            .iter()
            .any(|value| own.eq_ignore_ascii_case(&word(value)))
    };
    let others: Vec<&str> = words.split_whitespace().filter(is_other).collect();
    let to = |value: &str| {
        let own = (!is_set(value)).then(|| word(value));
        let words: Vec<&str> = others.iter().copied().chain(own.as_deref()).collect();
        format!("{}/runs?q={}", app.base, in_address(&words.join(" ")))
    };
    html! {
        div .filters role="group" aria-label=(key) {
            @for value in values { a href=(to(value)) aria-current=[is_set(value).then_some("true")] { (value) } " " }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::app::tests::app;
    use crate::web::run_store::tests::request;

    /// Symptom: a user had to know the words for verdicts and states to search for them.
    #[test]
    fn filters_set_and_clear_the_search_words() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let page = |words: &str| list(&app, &Asker::default(), words, &[], false).into_string();
        let link = |words: &str, current: &str, value: &str| {
            format!("href=\"/runs?q={words}\"{current}>{value}</a>")
        };
        let current = " aria-current=\"true\"";
        let plain = page("anna");
        assert!(
            plain.contains(&link("anna%20verdict:not-judged", "", "NOT JUDGED")),
            "{plain}"
        );
        assert!(!plain.contains("aria-current"), "{plain}");
        let set = page("verdict:fail anna Verdict:PASS state:ended");
        for (words, current, value) in [
            ("anna%20state:ended", current, "FAIL"),
            ("anna%20state:ended%20verdict:undecided", "", "UNDECIDED"),
            ("verdict:fail%20anna%20Verdict:PASS", current, "ended"),
        ] {
            let link = link(words, current, value);
            assert!(set.contains(&link), "{link}: {set}");
        }
    }

    /// Symptom: of more than fifty runs, the older ones could be found only by a guess of their words.
    #[test]
    fn older_runs_are_a_button_away() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        for second in 0..5 {
            let name = format!("pb-20261121-10150{second}-abcdef");
            app.queue.run_store.add(&request(&name, 1000, "a")).unwrap();
        }
        let mut before = None;
        let mut seen = Vec::new();
        for count in [2, 2, 1] {
            let (found, more) = app
                .queue
                .find_before(before.as_ref(), |run| run.has("anna"), 2);
            let page = list(&app, &Asker::default(), "anna", &found, more).into_string();
            let last = found.last().unwrap().name.clone();
            let next = format!("name=\"before\" value=\"{last}\"");
            assert_eq!((found.len(), page.contains(&next)), (count, more), "{page}");
            before = last.parse().ok();
            seen.extend(found.into_iter().map(|run| run.name));
        }
        let all = (0..5)
            .rev()
            .map(|second| format!("pb-20261121-10150{second}-abcdef"));
        assert_eq!(seen, all.collect::<Vec<_>>());
    }
}
