//! List of all runs, and search by words.

use maud::{Markup, html};

use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::state::State;

use super::{page, rows};

/// Page with the found runs, latest first. `more` is true if more runs match.
pub(crate) fn list(app: &App, asker: &Asker, words: &str, found: &[State], more: bool) -> Markup {
    let body = html! {
        h1 { "Runs" }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::app::tests::app;
    use crate::web::run_store::tests::request;

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
