//! The API under `/api/v1`. [`super::openapi`] describes it; tests check the two against each other.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, Path, Query, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::block_in_place;

use crate::outside;

use super::answers::{self, absent, check_search, of_run, problem_of, status_of, take};
use super::app::App;
use super::caching::compressed;
use super::documents::{busy, download};
use super::guard::Asker;
use super::queue::Declined;
use super::request::{Extent, Fields, Refusal};
use super::site::Site;
use super::state::State as RunState;
use super::{caching, events, metrics, openapi};

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
        .route("/runs/{name}/record", compressed(get(record)))
        .route("/runs/{name}/{file}", compressed(get(download::<true>)))
        .route("/health", get(metrics::health))
        .route("/metrics", get(metrics::measures))
}

async fn describe() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, openapi::DOCUMENT).into_response()
}

/// What a site allows.
#[derive(Serialize)]
pub(super) struct SiteAnswer<'a> {
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

impl<'a> SiteAnswer<'a> {
    /// Describes what a site allows.
    pub(super) fn of(site: &'a Site) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            groups: site
                .groups_in_order()
                .into_iter()
                .map(|(name, _)| name)
                .collect(),
            patterns: &site.allow.patterns,
            profiles: &site.allow.profiles,
            most_phases: site.allow.phases,
            free_hosts: site.allow.free_hosts,
            most_time_ms: site.limits.time_ns / 1_000_000,
            most_duration_ms: site.limits.duration_ns / 1_000_000,
            most_rate_bits_per_s: site.limits.rate_bits_per_s,
        }
    }
}

async fn site(State(app): State<Arc<App>>) -> Response {
    Json(SiteAnswer::of(&app.queue.site)).into_response()
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
        let body = Json::<Value>::from_request(request, app).await;
        let Json(body) = body.map_err(|why| {
            let what = match &why {
                JsonRejection::MissingJsonContentType(_) => {
                    "the body must be JSON (Content-Type: application/json)"
                }
                JsonRejection::BytesRejection(_) => "the body is too large or incomplete",
                _ => "the body is not JSON",
            };
            problem_of(why.status(), what, None)
        })?;
        fields_of(body).map(Self).map_err(|(what, field)| {
            let field = field.as_deref().map(outside::clean);
            problem_of(StatusCode::UNPROCESSABLE_ENTITY, what, field.as_deref())
        })
    }
}

/// Reads the fields of a body. The error is a sentence, and the name of the wrong field.
fn fields_of(body: Value) -> Result<Fields, (&'static str, Option<String>)> {
    let Value::Object(given) = &body else {
        return Err(("the body must be an object with fields", None));
    };
    let known = serde_json::to_value(Fields::default()).unwrap_or_default();
    for (name, value) in given {
        let what = match known.get(name) {
            None => "there is no such field",
            Some(Value::String(_)) if !value.is_string() => "must be text",
            Some(Value::Null) if !value.is_null() && !value.is_u64() => "must be a whole number",
            Some(_) => continue,
        };
        return Err((what, Some(name.clone())));
    }
    serde_json::from_value(body).map_err(|_| ("the fields cannot be read", None))
}

async fn offer(State(app): State<Arc<App>>, Body(fields): Body) -> Response {
    let Some(_turn) = app.turn().await else {
        return busy(&app, true);
    };
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
    RawQuery(query): RawQuery,
    search: Result<Query<Search>, QueryRejection>,
) -> Response {
    let search = match search {
        Ok(Query(search)) => search,
        Err(rejection) => {
            let what = "the query has an unknown key, a key twice, or a value that is no number";
            let field = query.as_deref().and_then(wrong_key);
            return problem_of(rejection.status(), what, field);
        }
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
    let (runs, more) = block_in_place(|| {
        app.queue
            .find_before(before.as_ref(), |state| state.has(&search.q), most)
    });
    let next = runs.last().filter(|_| more).map(|run| run.name.clone());
    Json(ListAnswer { runs, more, next }).into_response()
}

/// Key of the first pair of a query that cannot be read.
fn wrong_key(query: &str) -> Option<&str> {
    let is_wrong = |pair: &&str| {
        let uri = format!("/?{pair}").parse::<Uri>();
        uri.is_ok_and(|uri| Query::<Search>::try_from_uri(&uri).is_err())
    };
    let pair = query.split('&').find(is_wrong)?;
    pair.split('=').next()
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

async fn record(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(_turn) = app.turn().await else {
        return busy(&app, true);
    };
    of_run(&app, true, &name, |name, _| {
        let Some(text) = app.queue.run_store.record_text(&name) else {
            return problem_of(
                StatusCode::CONFLICT,
                "the run has no record, or none yet",
                None,
            );
        };
        let tag = caching::tag_of(&text);
        if let Some(answer) = caching::unchanged(&headers, &tag) {
            return answer;
        }
        match app.sending.body(text) {
            Some(body) => {
                let kind = "application/json".to_owned();
                let head = [(header::CONTENT_TYPE, kind), (header::ETAG, tag)];
                (head, body).into_response()
            }
            None => {
                let what = "the server is busy with other records: try again in a moment";
                problem_of(StatusCode::SERVICE_UNAVAILABLE, what, None)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Symptom: the answer to a wrong field was a text of the parser, and did not name the field.
    #[test]
    fn a_body_that_cannot_be_read_is_refused_by_its_field_and_in_plain_words() {
        let refused = |body: Value| {
            let (what, field) = fields_of(body).unwrap_err();
            (what, field.unwrap_or_default())
        };
        let of = |what, field: &str| (what, field.to_owned());
        assert_eq!(refused(json!({"group": 7})), of("must be text", "group"));
        assert_eq!(
            refused(json!({"phases": "2"})),
            of("must be a whole number", "phases")
        );
        assert_eq!(
            refused(json!({"phases": -2})),
            of("must be a whole number", "phases")
        );
        assert_eq!(
            refused(json!({"by": "anna", "x": 1})),
            of("there is no such field", "x")
        );
        assert_eq!(
            refused(json!([])),
            of("the body must be an object with fields", "")
        );
        let fields = fields_of(json!({"group": "rack 7", "phases": null, "by": "anna"})).unwrap();
        assert_eq!(
            (fields.group.as_str(), fields.by.as_str()),
            ("rack 7", "anna")
        );
    }

    #[test]
    fn a_query_that_cannot_be_read_is_refused_by_its_key() {
        assert_eq!(wrong_key("q=a&most=x"), Some("most"));
        assert_eq!(wrong_key("q=a&least=1&most=2"), Some("least"));
        assert_eq!(wrong_key("q=a&q=b"), None);
    }
}
