//! Documents made from records: reports, tables, comparisons. Only a few are made at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::task::block_in_place;
use utoipa::openapi::{Content, ObjectBuilder, RefOr, Response as Described, Schema, Type};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use crate::report::compare::Comparison;
use crate::report::format::{Format, Source};
use crate::report::history::{PortFigures, ports};
use crate::report::json;
use crate::report::page::{Back, served};
use crate::store::runs::RECORD;

use super::answers::{MOST_LISTED, Search, absent, problem, shown};
use super::app::App;
use super::guard::Asker;
use super::run_store::RunName;
use super::state::State as RunState;
use super::{caching, pages};

/// Maximum number of runs on a page of a history.
const MOST_IN_HISTORY: usize = 30;
/// Maximum number of bytes of records that one page of a history reads.
const MOST_READ_BYTES: u64 = 32 << 20;
/// Maximum number of runs whose figures of ports are kept in memory.
const MOST_FIGURES: usize = 500;

/// Content security policy of a report, which has inline styles and no scripts.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// A report of a run that has ended, as pipebench report makes it.
// Pages send it, too.
#[utoipa::path(get, path = "/runs/{name}/{file}",
    params(RunName, ("file" = inline(FileName), Path, description = "Name of the file.")),
    responses(
        File,
        (status = 304, description = "The client has the text with this tag."),
        (status = 404, description = "There is no such run or file, or the run has no record."),
        (status = 503, description = "The server is busy with other documents."),
    ))]
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

/// Name of a report's file.
enum FileName {}

impl PartialSchema for FileName {
    fn schema() -> RefOr<Schema> {
        let names = Format::ALL.map(|format| format.row().file);
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.enum_values(Some(names)).into()
    }
}

impl ToSchema for FileName {}

/// Answer with a report.
enum File {}

impl IntoResponses for File {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let mut file = Described::new("The report.");
        for row in Format::ALL.map(Format::row) {
            let kind = row.media_type.split(';').next().unwrap_or_default();
            file.content.insert(kind.to_owned(), Content::default());
        }
        BTreeMap::from([("200".to_owned(), file.into())])
    }
}

/// Builds the answer with status 503. Records are large, so only a few are read at the same time.
pub(super) fn busy(app: &App, is_api: bool) -> Response {
    let what = "the server is busy with other documents: try again in a moment";
    let page = problem(app, is_api, StatusCode::SERVICE_UNAVAILABLE, what);
    ([(header::RETRY_AFTER, "2")], page).into_response()
}

/// Makes the document of a run with this file name: content type, text, and true if a browser shows it instead of saving it.
fn document(app: &App, name: &RunName, file: &str) -> Option<(&'static str, String, bool)> {
    let text = app.queue.run_store.text(name, RECORD)?;
    let record = json::read(&text).ok()?;
    if file == "report" {
        let back = Back {
            to: &format!("{}/runs/{name}", app.base),
            name: &format!("run {name}"),
        };
        let page = served(&record, &back);
        return Some((Format::Html.row().media_type, page, true));
    }
    let form = Format::ALL
        .map(Format::row)
        .into_iter()
        .find(|row| row.file == file)?;
    let source = Source {
        record: &record,
        text: &text,
        baseline: None,
        beside: &[],
    };
    Some((form.media_type, (form.write)(&source).ok()?, false))
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
        let (runs, _) = app.queue.find("", MOST_LISTED);
        let mut runs: Vec<RunState> = runs.into_iter().filter(RunState::is_measured).collect();
        // A named run can be older, or have no verdict.
        for name in [&pair.before, &pair.now] {
            if name.is_empty() || runs.iter().any(|run| run.name == *name) {
                continue;
            }
            let named = name
                .parse()
                .ok()
                .and_then(|name: RunName| app.queue.state(&name));
            let Some(named) = named.filter(|run| run.has_record) else {
                return absent(&app, false);
            };
            runs.push(named);
        }
        runs.sort_by(|a, b| b.name.cmp(&a.name));
        let chosen = choose(&runs, &pair);
        let record = |name: &str| {
            let name = name.parse().ok();
            name.and_then(|name: RunName| app.queue.run_store.record(&name))
        };
        let is_asked = !(pair.before.is_empty() && pair.now.is_empty());
        let both = chosen.filter(|_| is_asked);
        let both = both.and_then(|[before, now]| record(before).zip(record(now)));
        let comparison = both.map(|(before, now)| Comparison::of(&before, &now));
        let chosen = chosen.unwrap_or_default();
        shown(pages::compare(
            &app,
            &asker,
            &runs,
            chosen,
            comparison.as_ref(),
        ))
    })
}

/// Sends the page with the history of a port over the kept runs.
pub(super) async fn history(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Query(wanted): Query<Search>,
) -> Response {
    let before = match wanted.before(&app) {
        Ok(before) => before,
        Err(refusal) => return *refusal,
    };
    let Ok(_turn) = app.heavy.try_acquire() else {
        return busy(&app, false);
    };
    block_in_place(|| {
        let is_measured = |state: &RunState| state.has(&wanted.q) && state.is_measured();
        let (found, mut more) =
            app.queue
                .find_before(before.as_ref(), is_measured, MOST_IN_HISTORY);
        let mut left_bytes = MOST_READ_BYTES;
        let mut runs = Vec::new();
        for state in found {
            let Ok(name) = state.name.parse() else {
                continue;
            };
            let Some(figures) = figures_of(&app, &name, &mut left_bytes) else {
                more = true;
                break;
            };
            runs.push((state, figures));
        }
        let history = pages::History {
            words: &wanted.q,
            port: &wanted.port,
            runs,
            more,
        };
        shown(pages::history(&app, &asker, &history))
    })
}

/// Figures of ports of a run that is over; none if its record cannot be read. `None` if the record is longer than what is left to read, unless it is the
/// first one.
fn figures_of(app: &App, name: &RunName, left_bytes: &mut u64) -> Option<Arc<[PortFigures]>> {
    let known = || app.figures.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(figures) = known().get(name) {
        return Some(Arc::clone(figures));
    }
    let bytes = app.queue.run_store.record_bytes(name);
    if bytes > *left_bytes && *left_bytes < MOST_READ_BYTES {
        return None;
    }
    *left_bytes = left_bytes.saturating_sub(bytes);
    let record = app.queue.run_store.record(name);
    let figures: Arc<[PortFigures]> = record.as_ref().map(ports).unwrap_or_default().into();
    let mut known = known();
    known.insert(name.clone(), Arc::clone(&figures));
    while known.len() > MOST_FIGURES {
        known.pop_first();
    }
    Some(figures)
}

/// Names of the earlier and the later of two runs to compare: the named ones; else the latest run, and the run before it that is most like it. `runs` has
/// the latest first. `None` without two runs of one kind.
fn choose<'a>(runs: &'a [RunState], pair: &'a Pair) -> Option<[&'a str; 2]> {
    let named = |name: &str| runs.iter().position(|run| run.name == name);
    let before = named(&pair.before);
    let now = named(&pair.now).or_else(|| (0..runs.len()).find(|at| Some(*at) != before))?;
    let later = &runs[now];
    let earlier = runs[now + 1..].iter().filter(|run| run.kind == later.kind);
    let likeness = |run: &RunState| (run.hosts == later.hosts, run.what == later.what);
    // Of equals the latest.
    let before = before.map(|at| &runs[at]);
    let before = before.or_else(|| earlier.rev().max_by_key(|run| likeness(run)))?;
    Some([&before.name, &later.name])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::state::tests::state;

    const NAMES: [&str; 4] = [
        "pb-20261124-101500-abcdef",
        "pb-20261123-101500-abcdef",
        "pb-20261122-101500-abcdef",
        "pb-20261121-101500-abcdef",
    ];

    /// Symptom: six requests for a history read 180 records and kept every other page waiting for half a minute.
    #[test]
    fn a_history_reads_each_record_once_and_stops_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let app = crate::web::app::tests::app(folder.path());
        let names = [NAMES[0], NAMES[1]].map(|name| name.parse::<RunName>().unwrap());
        let record = include_str!("../../tests/golden/one-host/record.json");
        for name in &names {
            let run = app.queue.run_store.folder_of(name);
            std::fs::create_dir(&run).unwrap();
            std::fs::write(run.join(RECORD), record).unwrap();
        }
        let mut left_bytes = MOST_READ_BYTES;
        let first = figures_of(&app, &names[0], &mut left_bytes).unwrap();
        assert!(!first.is_empty() && left_bytes == MOST_READ_BYTES - record.len() as u64);
        std::fs::remove_dir_all(app.queue.run_store.folder_of(&names[0])).unwrap();
        assert_eq!(figures_of(&app, &names[0], &mut left_bytes), Some(first));
        left_bytes = 1;
        assert_eq!(figures_of(&app, &names[1], &mut left_bytes), None);
    }

    /// Symptom: the page compared a run with the one before, of another kind, and showed an empty table.
    #[test]
    fn a_run_is_compared_with_one_of_its_kind() {
        let mut runs = NAMES.map(state);
        runs[1].kind = "linktest".to_owned();
        runs[3].kind = "linktest".to_owned();
        runs[2].what = "rack 7: quick, rotate, 2 phases".to_owned();
        let chosen = |now: &str| {
            let pair = Pair {
                now: now.to_owned(),
                ..Pair::default()
            };
            choose(&runs, &pair).map(|names| names.map(str::to_owned))
        };
        let [latest, test, other, oldest] = NAMES.map(str::to_owned);
        assert_eq!(chosen(&latest), Some([other.clone(), latest]));
        assert_eq!(chosen(&test), Some([oldest, test]));
        assert_eq!(chosen(&other), None);
    }

    /// Symptom: the page chose the latest run twice, and the button gave "+0.0 %" everywhere.
    #[test]
    fn two_different_runs_are_chosen_and_alike_ones_first() {
        let mut runs = NAMES.map(state);
        runs[1].hosts = "m[01-16]".to_owned();
        let chosen = |before: &str, now: &str| {
            let (before, now) = (before.to_owned(), now.to_owned());
            let pair = Pair { before, now };
            choose(&runs, &pair).map(|names| names.map(str::to_owned))
        };
        let [latest, other, like, oldest] = NAMES.map(str::to_owned);
        let expected = |before: &String, now: &String| Some([before.clone(), now.clone()]);
        assert_eq!(chosen("", ""), expected(&like, &latest));
        assert_eq!(chosen("", &other), expected(&like, &other));
        assert_eq!(chosen(&latest, ""), expected(&latest, &other));
        assert_eq!(chosen(&other, &oldest), expected(&other, &oldest));
        assert_eq!(chosen("", &oldest), None);
        assert_eq!(choose(&runs[..1], &Pair::default()), None);
    }
}
