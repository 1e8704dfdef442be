//! Documents made from records: reports, tables, comparisons. Only a few are made at the same time.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::task::block_in_place;

use crate::report::compare::Comparison;
use crate::report::format::{Format, Source};
use crate::report::json;
use crate::store::runs::RECORD;

use super::answers::{MOST_LISTED, absent, problem, shown};
use super::app::App;
use super::guard::Asker;
use super::run_store::RunName;
use super::state::State as RunState;
use super::{caching, pages};

/// Content security policy of a report, which has inline styles and no scripts.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Sends a file made from a run's record, to an API client or to a page. Status 404 without such a run, file or record, 503 when too many documents are
/// being made or sent.
pub(super) async fn download<const IS_API: bool>(
    State(app): State<Arc<App>>,
    Path((name, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let Ok(_turn) = app.heavy.try_acquire() else {
        return busy(&app, IS_API);
    };
    block_in_place(|| {
        let run = name.parse().ok();
        let made = run.and_then(|run: RunName| document(&app, &run, &file));
        let Some((kind, text, is_shown)) = made else {
            return absent(&app, IS_API);
        };
        let tag = caching::tag_of(&text);
        if let Some(answer) = caching::unchanged(&headers, &tag) {
            return answer;
        }
        let Some(body) = app.sending.body(text) else {
            return busy(&app, IS_API);
        };
        let head = [(header::CONTENT_TYPE, kind.to_owned()), (header::ETAG, tag)];
        let mut answer = (head, body).into_response();
        let headers = answer.headers_mut();
        let policy = HeaderValue::from_static(REPORT_POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        let saved = format!("attachment; filename=\"{name}-{file}\"");
        if let (Ok(saved), false) = (HeaderValue::from_str(&saved), is_shown) {
            headers.insert(header::CONTENT_DISPOSITION, saved);
        }
        answer
    })
}

/// Builds the answer with status 503. Records are large, so only a few are read at the same time.
fn busy(app: &App, is_api: bool) -> Response {
    let what = "the server is busy with other documents: try again in a moment";
    let page = problem(app, is_api, StatusCode::SERVICE_UNAVAILABLE, what);
    ([(header::RETRY_AFTER, "2")], page).into_response()
}

/// Makes the document of a run with this file name: content type, text, and true if a browser shows it instead of saving it.
fn document(app: &App, name: &RunName, file: &str) -> Option<(&'static str, String, bool)> {
    let is_shown = file == "report";
    let wanted = |one: &Format| match is_shown {
        true => *one == Format::Html,
        false => one.row().file == file,
    };
    let form = Format::ALL.into_iter().find(wanted)?.row();
    let text = app.queue.run_store.text(name, RECORD)?;
    let source = Source {
        record: &json::read(&text).ok()?,
        text: &text,
        baseline: None,
        beside: &[],
    };
    Some((form.media_type, (form.write)(&source).ok()?, is_shown))
}

/// Names of two runs to compare.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Pair {
    before: String,
    now: String,
}

/// Sends the page that compares two runs.
pub(super) async fn compare(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Query(pair): Query<Pair>,
) -> Response {
    let Ok(_turn) = app.heavy.try_acquire() else {
        return busy(&app, false);
    };
    block_in_place(|| {
        let record = |name: &str| {
            let name = name.parse().ok();
            name.and_then(|name: RunName| app.queue.run_store.record(&name))
        };
        let (before, now) = (record(&pair.before), record(&pair.now));
        let both = before.as_ref().zip(now.as_ref());
        let comparison = both.map(|(before, now)| Comparison::of(before, now));
        let asked = !(pair.before.is_empty() && pair.now.is_empty());
        if asked && comparison.is_none() {
            return absent(&app, false);
        }
        let (runs, _) = app.queue.find("", MOST_LISTED);
        let runs: Vec<RunState> = runs.into_iter().filter(|run| run.has_record).collect();
        shown(pages::compare(&app, &asker, &runs, comparison.as_ref()))
    })
}
