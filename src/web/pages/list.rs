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
            label .unseen for="q" { "Words" }
            input #q type="search" name="q" value=(words) maxlength="200" placeholder="name, hosts, verdict, who, what for";
            button { "Search" }
        }
        @if found.is_empty() {
            p { @if words.is_empty() { "No runs yet." } @else { "No run has all of these words." } }
        } @else { (rows(app, found)) }
        @if more { p .note { "There are more: search for words of theirs." } }
    };
    page(app, asker, "Runs", None, body)
}
