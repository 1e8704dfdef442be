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
            input #q type="search" name="q" value=(words) maxlength="200" placeholder="run name, hosts, verdict, person, purpose";
            button { "Search" }
        }
        @if found.is_empty() {
            p { @if words.is_empty() { "No runs yet." } @else { "No run matches all of these words." } }
        } @else { (rows(app, found)) }
        @if more { p .note { "More runs match: add search words to narrow the list." } }
    };
    page(app, asker, "Runs", None, body)
}
