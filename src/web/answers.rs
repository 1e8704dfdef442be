//! Helpers shared by pages and API: they accept a request, or build the answer that refuses it.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Response};
use axum::{Extension, Json};
use maud::Markup;
use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;
use utoipa::ToSchema;

use crate::outside;

use super::app::App;
use super::guard::Asker;
use super::queue::Declined;
use super::request::Fields;
use super::run_store::RunName;
use super::state::State;
use super::{pages, tools};

/// Maximum number of runs in a list on a page.
pub(super) const MOST_LISTED: usize = 50;
/// Maximum length of a search, in characters and in words.
pub(super) const MOST_SEARCH: usize = 200;
const MOST_WORDS: usize = 8;
/// Content type of an error answer for API clients.
pub(super) const PROBLEM_KIND: &str = "application/problem+json";

/// Builds an error answer: a page, which [`draw`] completes, or a JSON document for API clients.
pub(super) fn problem(_: &App, is_api: bool, status: StatusCode, what: &str) -> Response {
    match is_api {
        true => problem_of(status, what, None),
        false => {
            let what = Unshown(what.to_owned());
            (status, Extension(what), Html("")).into_response()
        }
    }
}

/// Text of an error page that is not drawn yet: the page shows who is logged in, so the layer that identifies senders draws it.
#[derive(Clone)]
struct Unshown(String);

/// Draws the page of an answer that is an error page.
pub(super) fn draw(app: &App, asker: &Asker, answer: &mut Response) {
    if let Some(Unshown(what)) = answer.extensions_mut().remove() {
        let page = pages::problem(app, asker, answer.status().as_u16(), &what);
        *answer.body_mut() = page.into_string().into();
    }
}

/// Builds an answer from a page and its status.
pub(super) fn show(status: StatusCode, page: Markup) -> Response {
    (status, Html(page.into_string())).into_response()
}

/// Builds an answer from a page, with status 200.
pub(super) fn shown(page: Markup) -> Response {
    show(StatusCode::OK, page)
}

/// Builds the answer with status 404.
pub(super) fn absent(app: &App, is_api: bool) -> Response {
    let what = "there is no such page or run";
    problem(app, is_api, StatusCode::NOT_FOUND, what)
}

/// Builds the answer for the run with this name, or that with status 404.
pub(super) fn of_run(
    app: &App,
    is_api: bool,
    name: &str,
    answer: impl FnOnce(RunName, State) -> Response,
) -> Response {
    block_in_place(|| match known(app, name) {
        Some((name, state)) => answer(name, state),
        None => absent(app, is_api),
    })
}

/// Cancels a run and logs that. Gives `done` true if the run is asked to end, and false if it is over or has no runner.
pub(super) fn cancel(
    app: &App,
    is_api: bool,
    asker: &Asker,
    name: &RunName,
    done: impl FnOnce(bool) -> Response,
) -> Response {
    match app.queue.cancel(name) {
        Ok(asked) => {
            if asked {
                tell(asker, &format!("cancel {name}"));
            }
            done(asked)
        }
        Err(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            problem(app, is_api, status, &error.to_string())
        }
    }
}

/// Problem details (RFC 9457).
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Problem<'a> {
    #[schema(inline)]
    r#type: ProblemType,
    /// The status in words.
    title: &'static str,
    status: u16,
    /// Error, in a sentence.
    detail: &'a str,
    /// Name of the wrong field or query key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    field: Option<&'a str>,
}

/// The status says what kind of problem it is.
#[derive(Serialize, ToSchema)]
enum ProblemType {
    #[serde(rename = "about:blank")]
    Blank,
}

/// Builds an error answer for API clients. `field` names the wrong field of the request.
pub(super) fn problem_of(status: StatusCode, what: &str, field: Option<&str>) -> Response {
    let kind = [(CONTENT_TYPE, PROBLEM_KIND)];
    let problem = Problem {
        r#type: ProblemType::Blank,
        title: status.canonical_reason().unwrap_or_default(),
        status: status.as_u16(),
        detail: what,
        field,
    };
    (status, kind, Json(problem)).into_response()
}

/// Starts the run of a request and logs the start. Counts each attempt against the limit of starts per minute.
pub(super) fn take(
    app: &App,
    asker: &Asker,
    fields: &Fields,
    wanted: Option<RunName>,
) -> Result<RunName, Declined> {
    // Count before the checks: a refused request costs an attempt too, and 200 simultaneous requests count as 200.
    if !app.guard.count_start(asker.from, app.queue.now_ms()) {
        return Err(Declined::TooOften);
    }
    let name = app.queue.start(fields, wanted)?;
    tell(asker, &format!("start {name} by {:?}", fields.by));
    Ok(name)
}

/// HTTP status of a request that was not accepted.
pub(super) fn status_of(declined: &Declined) -> StatusCode {
    match declined {
        Declined::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Declined::Full(..) => StatusCode::CONFLICT,
        Declined::TooOften => StatusCode::TOO_MANY_REQUESTS,
        Declined::Store(_) | Declined::Runner(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Writes one log line to standard error. Pass no token and no cookie, and quote every text that comes from a client.
pub(super) fn tell(asker: &Asker, what: &str) {
    let from = asker
        .from
        .map_or_else(|| "an unknown address".to_owned(), |from| from.to_string());
    tools::tell(&format!("{what} from {from}"));
}

/// Checks that a search is short enough to match against all runs, and that a page can show it. The error is a sentence.
pub(super) fn check_search(words: &str) -> Result<(), &'static str> {
    let is_long = words.chars().count() > MOST_SEARCH;
    if is_long || words.split_whitespace().count() > MOST_WORDS {
        return Err("a search can have at most 8 words and 200 characters");
    }
    match words.contains(outside::steers) {
        true => Err("the search has control characters"),
        false => Ok(()),
    }
}

/// Query of a page that lists runs: words that runs match, the name of a port, and the name of a run, before which the listed runs began.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Search {
    pub q: String,
    pub port: String,
    before: String,
}

impl Search {
    /// Checks the query and reads the name of the run. The error is the answer that refuses it.
    pub(super) fn before(&self, app: &App) -> Result<Option<RunName>, Box<Response>> {
        let checked = check_search(&self.q).and_then(|()| check_search(&self.port));
        checked
            .map_err(|what| problem(app, false, StatusCode::UNPROCESSABLE_ENTITY, what))
            .map_err(Box::new)?;
        match self.before.as_str() {
            "" => Ok(None),
            name => name
                .parse()
                .map(Some)
                .map_err(|()| Box::new(absent(app, false))),
        }
    }
}

/// The run with this name and its state, if it exists.
pub(super) fn known(app: &App, name: &str) -> Option<(RunName, State)> {
    let name: RunName = name.parse().ok()?;
    let state = app.queue.state(&name)?;
    Some((name, state))
}
