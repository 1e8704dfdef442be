//! The API under `/api/v1`, and metrics for a monitoring system. [`super::openapi`] describes the API; tests check the two against each other.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;

use crate::store::runs::RECORD;

use super::answers::{is_search, known, problem_of, status_of, take, tell};
use super::app::App;
use super::guard::Asker;
use super::queue::Declined;
use super::request::{Extent, Fields};
use super::state::{Stage, State as RunState};
use super::{events, openapi};

/// Maximum number of runs in an answer.
const MOST: usize = 200;

/// Builds the router of the API.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/openapi.json", get(describe))
        .route("/site", get(site))
        .route("/offer", post(offer))
        .route("/runs", get(list).post(start))
        .route("/runs/{name}", get(state))
        .route("/runs/{name}/events", get(listen))
        .route("/runs/{name}/cancel", post(cancel))
        .route("/runs/{name}/record", get(record))
}

fn absent() -> Response {
    problem_of(StatusCode::NOT_FOUND, "there is no such run", None)
}

async fn describe() -> Response {
    (
        [(header::CONTENT_TYPE, "application/json")],
        openapi::DOCUMENT,
    )
        .into_response()
}

#[derive(Serialize)]
struct SiteAnswer<'a> {
    version: &'static str,
    groups: Vec<&'a String>,
    patterns: &'a [String],
    profiles: &'a [String],
    most_phases: usize,
    free_hosts: bool,
    most_time_ms: u64,
    most_duration_ms: u64,
    most_rate_bits_per_s: Option<u64>,
}

async fn site(State(app): State<Arc<App>>) -> Response {
    let site = &app.queue.site;
    let answer = SiteAnswer {
        version: env!("CARGO_PKG_VERSION"),
        groups: site.groups.keys().collect(),
        patterns: &site.allow.patterns,
        profiles: &site.allow.profiles,
        most_phases: site.allow.phases,
        free_hosts: site.allow.free_hosts,
        most_time_ms: site.limits.time_ns / 1_000_000,
        most_duration_ms: site.limits.duration_ns / 1_000_000,
        most_rate_bits_per_s: site.limits.rate_bits_per_s,
    };
    Json(answer).into_response()
}

#[derive(Serialize)]
struct OfferAnswer {
    what: String,
    fabric: String,
    question: String,
    extent: Extent,
}

fn declined(declined: &Declined) -> Response {
    match declined {
        Declined::Refused(refusal) => {
            problem_of(status_of(declined), &refusal.what, Some(refusal.field))
        }
        _ => problem_of(status_of(declined), &declined.to_string(), None),
    }
}

/// Reads the fields of a body, or builds the error answer.
fn fields_of(body: Result<Json<Fields>, JsonRejection>) -> Result<Fields, Box<Response>> {
    match body {
        Ok(Json(fields)) => Ok(fields),
        Err(why) => Err(Box::new(problem_of(why.status(), &why.body_text(), None))),
    }
}

async fn offer(State(app): State<Arc<App>>, body: Result<Json<Fields>, JsonRejection>) -> Response {
    let fields = match fields_of(body) {
        Ok(fields) => fields,
        Err(answer) => return *answer,
    };
    let _turn = app.heavy.acquire().await;
    match block_in_place(|| app.queue.offer(&fields)) {
        Ok(offer) => Json(OfferAnswer {
            what: offer.asked.what,
            fabric: offer.asked.fabric,
            question: offer.extent.question(),
            extent: offer.extent,
        })
        .into_response(),
        Err(refusal) => declined(&Declined::Refused(refusal)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    #[serde(default)]
    q: String,
    most: Option<usize>,
}

#[derive(Serialize)]
struct ListAnswer {
    runs: Vec<RunState>,
    more: bool,
}

async fn list(
    State(app): State<Arc<App>>,
    search: Result<Query<Search>, QueryRejection>,
) -> Response {
    let search = match search {
        Ok(Query(search)) => search,
        Err(rejection) => return problem_of(rejection.status(), &rejection.body_text(), None),
    };
    if !is_search(&search.q) {
        return problem_of(
            StatusCode::UNPROCESSABLE_ENTITY,
            "at most 8 words, and 200 letters",
            Some("q"),
        );
    }
    let most = search.most.unwrap_or(MOST);
    if !(1..=MOST).contains(&most) {
        return problem_of(
            StatusCode::UNPROCESSABLE_ENTITY,
            &format!("from 1 to {MOST}"),
            Some("most"),
        );
    }
    let (runs, more) = block_in_place(|| app.queue.find(&search.q, most));
    Json(ListAnswer { runs, more }).into_response()
}

async fn start(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    body: Result<Json<Fields>, JsonRejection>,
) -> Response {
    let fields = match fields_of(body) {
        Ok(fields) => fields,
        Err(answer) => return *answer,
    };
    let taken = block_in_place(|| {
        let name = take(&app, &asker, &fields, None)?;
        Ok((app.queue.state(&name), name))
    });
    match taken {
        Ok((Some(state), name)) => {
            let place = HeaderValue::from_str(&format!("{}/api/v1/runs/{name}", app.base));
            let mut answer = (StatusCode::CREATED, Json(state)).into_response();
            if let Ok(place) = place {
                answer.headers_mut().insert(header::LOCATION, place);
            }
            answer
        }
        Ok((None, _)) => absent(),
        Err(why) => declined(&why),
    }
}

async fn state(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    match block_in_place(|| known(&app, &name)) {
        Some((_, state)) => Json(state).into_response(),
        None => absent(),
    }
}

async fn listen(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Path(name): Path<String>,
) -> Response {
    match block_in_place(|| known(&app, &name)) {
        Some((name, _)) => events::answer(&app, &name, asker.from, true),
        None => absent(),
    }
}

async fn cancel(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Path(name): Path<String>,
) -> Response {
    block_in_place(|| {
        let Some((name, state)) = known(&app, &name) else {
            return absent();
        };
        if state.is_over() {
            return problem_of(StatusCode::CONFLICT, "it is over", None);
        }
        match app.queue.cancel(&name) {
            Ok(true) => {
                tell(&asker, &format!("cancel {name}"));
                StatusCode::ACCEPTED.into_response()
            }
            Ok(false) => problem_of(StatusCode::CONFLICT, "nobody sees to it any more", None),
            Err(error) => problem_of(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None),
        }
    })
}

async fn record(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let _turn = app.heavy.acquire().await;
    block_in_place(|| {
        let Some((name, _)) = known(&app, &name) else {
            return absent();
        };
        match app.queue.run_store.text(&name, RECORD) {
            Some(text) => match app.sending.body(text) {
                Some(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
                None => {
                    let what = "many records are being sent: try again in a moment";
                    problem_of(StatusCode::SERVICE_UNAVAILABLE, what, None)
                }
            },
            None => problem_of(StatusCode::CONFLICT, "it has no record, or none yet", None),
        }
    })
}

/// Metrics for a monitoring system, in OpenMetrics: numbers of waiting and running runs, their throughput, and the exit code of the latest run.
pub(super) fn metrics(app: &App) -> String {
    let under_way = app.queue.under_way();
    let (latest, _) = app.queue.find("", 1);
    let count = |stage: Stage| under_way.iter().filter(|run| run.state == stage).count();
    let mut text = String::new();
    let mut family = |name: &str, help: &str, lines: &[(String, String)]| {
        let mut write = || -> std::fmt::Result {
            writeln!(text, "# TYPE {name} gauge\n# HELP {name} {help}")?;
            for (labels, value) in lines {
                writeln!(text, "{name}{labels} {value}")?;
            }
            Ok(())
        };
        // Writing to a string cannot fail.
        match write() {
            Ok(()) | Err(_) => {}
        }
    };
    let runs = [("queued", Stage::Queued), ("running", Stage::Running)];
    let lines =
        runs.map(|(word, stage)| (format!("{{state=\"{word}\"}}"), count(stage).to_string()));
    family("pipebench_runs", "Runs that wait or run.", &lines);
    let rates: Vec<(String, String)> = under_way
        .iter()
        .filter_map(|run| {
            let received = run.live.as_ref()?.received_bits_per_s.iter().copied();
            let labels = format!("{{run=\"{}\"}}", run.name);
            Some((labels, crate::units::sum(received).to_string()))
        })
        .collect();
    family(
        "pipebench_received_bits_per_second",
        "What all nodes of a run received in the last second.",
        &rates,
    );
    let codes: Vec<(String, String)> = latest
        .iter()
        .filter_map(|run| {
            Some((
                format!("{{run=\"{}\"}}", run.name),
                run.exit_code?.to_string(),
            ))
        })
        .collect();
    family(
        "pipebench_latest_exit_code",
        "Exit code of the latest run, if it has ended.",
        &codes,
    );
    text + "# EOF\n"
}
