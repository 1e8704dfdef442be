//! The API under `/api/v1`, and metrics for a monitoring system. [`super::openapi`] describes the API; tests check the two against each other.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;

use crate::report::metrics::Exposition;

use super::answers::{self, absent, check_search, of_run, problem_of, status_of, take};
use super::app::App;
use super::guard::Asker;
use super::queue::Declined;
use super::request::{Extent, Fields, Refusal};
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
        .route("/runs/{name}/events", get(events::follow::<true>))
        .route("/runs/{name}/cancel", post(cancel))
        .route("/runs/{name}/record", get(record))
}

async fn describe() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, openapi::DOCUMENT).into_response()
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

/// Fields in the body of a request. Extraction answers any other body with an error.
struct Body(Fields);

impl FromRequest<Arc<App>> for Body {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let body = Json::<Fields>::from_request(request, app).await;
        body.map(|Json(fields)| Self(fields))
            .map_err(|why| problem_of(why.status(), &why.body_text(), None))
    }
}

async fn offer(State(app): State<Arc<App>>, Body(fields): Body) -> Response {
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
    /// Name of a run: the answer has runs before it.
    before: Option<String>,
}

#[derive(Serialize)]
struct ListAnswer {
    runs: Vec<RunState>,
    more: bool,
    /// Value of `before` that continues the list.
    next: Option<String>,
}

async fn list(
    State(app): State<Arc<App>>,
    search: Result<Query<Search>, QueryRejection>,
) -> Response {
    let search = match search {
        Ok(Query(search)) => search,
        Err(rejection) => return problem_of(rejection.status(), &rejection.body_text(), None),
    };
    let refuse = |field, what: String| declined(&Declined::Refused(Refusal::of(field, what)));
    if let Err(what) = check_search(&search.q) {
        return refuse("q", what.to_owned());
    }
    let most = search.most.unwrap_or(MOST);
    if !(1..=MOST).contains(&most) {
        return refuse("most", format!("must be from 1 to {MOST}"));
    }
    let Ok(before) = search.before.map(|name| name.parse()).transpose() else {
        return refuse("before", "must be the name of a run".to_owned());
    };
    let (runs, more) = block_in_place(|| app.queue.find_before(before.as_ref(), &search.q, most));
    let next = runs.last().filter(|_| more).map(|run| run.name.clone());
    Json(ListAnswer { runs, more, next }).into_response()
}

async fn start(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Body(fields): Body,
) -> Response {
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
        Ok((None, _)) => absent(&app, true),
        Err(why) => declined(&why),
    }
}

async fn state(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    of_run(&app, true, &name, |_, state| Json(state).into_response())
}

async fn cancel(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Path(name): Path<String>,
) -> Response {
    let conflict = |what: &str| problem_of(StatusCode::CONFLICT, what, None);
    of_run(&app, true, &name, |name, state| match state.is_over() {
        true => conflict("the run is over"),
        false => answers::cancel(&app, true, &asker, &name, |asked| match asked {
            true => StatusCode::ACCEPTED.into_response(),
            false => conflict("the run has no runner process"),
        }),
    })
}

async fn record(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let _turn = app.heavy.acquire().await;
    of_run(&app, true, &name, |name, _| {
        let Some(text) = app.queue.run_store.record_text(&name) else {
            return problem_of(
                StatusCode::CONFLICT,
                "the run has no record, or none yet",
                None,
            );
        };
        match app.sending.body(text) {
            Some(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            None => {
                let what = "the server is busy with other records: try again in a moment";
                problem_of(StatusCode::SERVICE_UNAVAILABLE, what, None)
            }
        }
    })
}

/// Metrics for a monitoring system, in OpenMetrics: numbers of waiting and running runs, their throughput, and the exit code of the latest run.
pub(super) fn metrics(app: &App) -> String {
    let under_way = app.queue.under_way();
    let (latest, _) = app.queue.find("", 1);
    let of = |run: &RunState| vec![("run", run.name.clone())];
    let mut out = Exposition::default();
    let runs = [("queued", Stage::Queued), ("running", Stage::Running)];
    let runs = runs.map(|(word, stage)| {
        let count = under_way.iter().filter(|run| run.state == stage).count();
        (vec![("state", word.to_owned())], count as f64)
    });
    out.gauges("pipebench_runs", "Number of queued and running runs.", runs);
    let rates = under_way.iter().filter_map(|run| {
        let received = run.live.as_ref()?.received_bits_per_s.iter().copied();
        Some((of(run), crate::units::sum(received) as f64))
    });
    let help = "Rate that all nodes of a run received in the last second.";
    out.gauges("pipebench_received_bits_per_second", help, rates);
    let code = |run: &RunState| Some((of(run), f64::from(run.exit_code?)));
    let help = "Exit code of the latest run, if it has ended.";
    let codes = latest.iter().filter_map(code);
    out.gauges("pipebench_latest_exit_code", help, codes);
    out.finish()
}
