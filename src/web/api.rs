//! Requests and answers of the API under `/api/v1`. [`super::openapi`] has the table of its routes, and its description.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, Path, Query, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::block_in_place;
use utoipa::{IntoParams, ToSchema};

use crate::outside;
use crate::record::Record;

use super::answers::{self, absent, check_search, of_run, problem_of, status_of, take};
use super::app::App;
use super::caching;
use super::documents::busy;
use super::guard::Asker;
use super::queue::Declined;
use super::request::{Extent, Fields, Refusal};
use super::run_store::RunName;
use super::site::Site;
use super::state::State as RunState;

/// Maximum number of runs in an answer.
const MOST: usize = 200;

/// What a site allows.
#[derive(Serialize, ToSchema)]
#[schema(as = Site)]
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

impl<'a> SiteAnswer<'a> {
    /// Describes what a site allows.
    fn of(site: &'a Site) -> Self {
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

/// What the site allows.
#[utoipa::path(get, path = "/site",
    responses((status = 200, description = "The groups, choices and limits of the site.", body = SiteAnswer)))]
pub(super) async fn site(State(app): State<Arc<App>>) -> Response {
    Json(SiteAnswer::of(&app.queue.site)).into_response()
}

/// The question that the page asks before a start.
#[derive(Serialize, ToSchema)]
#[schema(as = Offer)]
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
pub(super) struct Body(Fields);

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

/// Describe what a run would load, and for how long. Starts nothing.
#[utoipa::path(post, path = "/offer", request_body = Fields,
    responses((status = 200, description = "The question that the page asks before a start.", body = OfferAnswer)))]
pub(super) async fn offer(State(app): State<Arc<App>>, Body(fields): Body) -> Response {
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

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Search {
    /// Search words. A run matches if it has all of them.
    #[serde(default)]
    #[param(max_length = 200)]
    q: String,
    /// Maximum number of runs.
    #[param(minimum = 1, maximum = 200)]
    most: Option<usize>,
    /// Name of a run. The answer has runs before it.
    #[param(value_type = Option<RunName>)]
    before: Option<String>,
}

/// Runs, latest first.
#[derive(Serialize, ToSchema)]
#[schema(as = Runs)]
struct ListAnswer {
    runs: Vec<RunState>,
    more: bool,
    /// Value of `before` that continues the list, if more runs match.
    #[schema(value_type = Option<RunName>)]
    next: Option<String>,
}

/// Runs, latest first.
#[utoipa::path(get, path = "/runs", params(Search),
    responses(
        (status = 200, description = "The runs.", body = ListAnswer),
        (status = 400, description = "The query is malformed."),
        (status = 422, description = "The query asks for too many runs, has too many words, or names no run."),
    ))]
pub(super) async fn list(
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

/// Start a run, or queue it.
#[utoipa::path(post, path = "/runs", request_body = Fields,
    responses(
        (status = 201, description = "The run is in the queue.", body = RunState,
            headers(("Location" = String, description = "Path of the run's state.")),
            links(
                ("state" = (operation_id = "state", parameters(("name" = "$response.body#/name")))),
                ("cancel" = (operation_id = "cancel", parameters(("name" = "$response.body#/name")))),
                ("record" = (operation_id = "record", parameters(("name" = "$response.body#/name")))),
            )),
        (status = 409, description = "Too many runs already wait for the fabric."),
        (status = 429, description = "Too many wrong tokens or starts within a minute."),
        (status = 500, description = "The server cannot store the request or start the run."),
    ))]
pub(super) async fn start(
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

/// The current state of a run.
#[utoipa::path(get, path = "/runs/{name}", params(RunName),
    responses((status = 200, description = "The state of the run.", body = RunState)))]
pub(super) async fn state(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    of_run(&app, true, &name, |_, state| Json(state).into_response())
}

/// Cancel a run: end it, or remove it from the queue.
#[utoipa::path(post, path = "/runs/{name}/cancel", params(RunName),
    responses(
        (status = 202, description = "The server has asked the run to end."),
        (status = 409, description = "The run is over, or it has no runner process."),
        (status = 500, description = "The server cannot store the cancellation."),
    ))]
pub(super) async fn cancel(
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

/// The record of a run that has ended. docs/record.md describes its format.
#[utoipa::path(get, path = "/runs/{name}/record", params(RunName),
    responses(
        (status = 200, description = "The record.", body = Record),
        (status = 304, description = "The client has the text with this tag."),
        (status = 409, description = "The run has no record, or none yet."),
        (status = 503, description = "The server is busy with other documents."),
    ))]
pub(super) async fn record(
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
    use crate::web::answers::MOST_SEARCH;

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
    fn limits_of_a_query_are_described_as_they_are_checked() {
        let described = serde_json::to_value(Search::into_params(|| None)).unwrap();
        let most = |at: usize, word: &str| described[at]["schema"][word].as_u64();
        assert_eq!(most(0, "maxLength"), Some(MOST_SEARCH as u64));
        assert_eq!(most(1, "maximum"), Some(MOST as u64));
    }

    #[test]
    fn a_query_that_cannot_be_read_is_refused_by_its_key() {
        assert_eq!(wrong_key("q=a&most=x"), Some("most"));
        assert_eq!(wrong_key("q=a&least=1&most=2"), Some("least"));
        assert_eq!(wrong_key("q=a&q=b"), None);
    }
}
