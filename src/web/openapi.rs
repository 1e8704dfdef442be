//! The routes of the API, and its OpenAPI description for generated clients. Handlers and types describe themselves; what many operations share is added
//! here. `tests/openapi.rs` compares answers of a server with the description.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{self, Content, Ref, RefOr, Schema};
use utoipa::{OpenApi, PartialSchema};

use super::answers::{PROBLEM_KIND, Problem};
use super::app::App;
use super::caching::compressed;
use super::run_store::RunName;
use super::{api, documents, events, metrics};

/// Answers of every operation, of those that read a body, and of those that name a run, unless they describe the status themselves.
const ALWAYS: [(&str, &str); 4] = [
    ("401", "The token is missing or wrong."),
    ("403", "A page of another site sent the request."),
    ("421", "The site does not answer under this host name."),
    ("429", "Too many wrong tokens within a minute."),
];
const OF_BODIES: [(&str, &str); 4] = [
    ("400", "The body is not JSON."),
    ("413", "The body is too large."),
    ("415", "The content type of the body is not JSON."),
    (
        "422",
        "A field is unknown, or the site does not allow its value.",
    ),
];
const OF_RUNS: [(&str, &str); 1] = [("404", "There is no such run.")];

/// Types in which a field can be missing: a request, a problem, and a record with its parts, which an earlier version can have written.
const PARTIAL: [&str; 6] = [
    "Fields", "Problem", "Record", "Missing", "Trouble", "Verdict",
];

#[derive(OpenApi)]
#[openapi(
    info(description = "Start, watch and cancel the runs that a site allows. Each request that changes something needs the site's token \
        (Authorization: Bearer). If other machines can reach the server's address, reading needs the token, too; docs/web.md lists all cases."),
    servers((url = "/api/v1")),
    security(("token" = [])),
    paths(
        describe, api::site, api::offer, api::list, api::start, api::state, events::follow, api::cancel, api::record,
        documents::download, metrics::health, metrics::measures,
    ),
    components(schemas(Problem, RunName)),
)]
struct Api;

/// Builds the router of the API.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/openapi.json", get(describe))
        .route("/site", get(api::site))
        .route("/offer", post(api::offer))
        .route("/runs", get(api::list).post(api::start))
        .route("/runs/{name}", get(api::state))
        .route("/runs/{name}/events", get(events::follow::<true>))
        .route("/runs/{name}/cancel", post(api::cancel))
        .route("/runs/{name}/record", compressed(get(api::record)))
        .route(
            "/runs/{name}/{file}",
            compressed(get(documents::download::<true>)),
        )
        .route("/health", get(metrics::health))
        .route("/metrics", get(metrics::measures))
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "The document.", body = Object)))]
async fn describe() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

fn text() -> String {
    let text = document().to_pretty_json().unwrap_or_default();
    // utoipa 5.5 writes this key of links as its field is called.
    text.replace("\"operation_id\":", "\"operationId\":")
}

fn document() -> openapi::OpenApi {
    let mut document = Api::openapi();
    for (path, item) in &mut document.paths.paths {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            complete(path, operation);
        }
    }
    let mut components = document.components.take().unwrap_or_default();
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("token", token);
    for (name, schema) in &mut components.schemas {
        if let RefOr::T(Schema::Object(object)) = schema
            && !object.properties.is_empty()
            && !PARTIAL.contains(&name.as_str())
        {
            // Answers have all of their fields, those that are null included.
            object.required = object.properties.keys().cloned().collect();
            let no_others = AdditionalProperties::FreeForm(false);
            object.additional_properties = Some(Box::new(no_others));
        }
    }
    document.components = Some(components);
    document
}

/// Adds what an operation shares with others.
fn complete(path: &str, operation: &mut Operation) {
    // They are the names of modules.
    operation.tags = None;
    let answers = &mut operation.responses.responses;
    let of_bodies = operation.request_body.iter().flat_map(|_| OF_BODIES);
    let of_runs = path.contains("{name}").then_some(OF_RUNS);
    let shared = ALWAYS.into_iter().chain(of_bodies);
    for (status, what) in shared.chain(of_runs.into_iter().flatten()) {
        let answer = || openapi::Response::new(what).into();
        answers.entry(status.to_owned()).or_insert_with(answer);
    }
    let is_tagged = answers.contains_key("304");
    for (status, answer) in answers {
        let RefOr::T(answer) = answer else { continue };
        let mut add_header = |name: &str, schema, what| {
            let header = HeaderBuilder::new().schema(schema).description(Some(what));
            answer.headers.insert(name.to_owned(), header.build());
        };
        match status.as_str() {
            "200" if is_tagged => add_header(
                "ETag",
                String::schema(),
                "Tag of the text. A request with it in If-None-Match gets 304 if the text is the same.",
            ),
            "429" => add_header(
                "Retry-After",
                u64::schema(),
                "Seconds until the next minute.",
            ),
            _ => {}
        }
        if status.as_str() >= "400" {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            answer.content.insert(PROBLEM_KIND.to_owned(), problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// Symptom: health, metrics and downloads were not described.
    #[test]
    fn each_route_is_described_with_its_methods_and_no_other_is() {
        let mut routes = BTreeSet::new();
        let code = include_str!("openapi.rs").split("#[cfg(test)]").next();
        for route in code.unwrap().split(".route(").skip(1) {
            let (path, rest) = route.split_once("\",").unwrap();
            let path = path.trim().trim_start_matches('"');
            let handlers = rest.split(".route(").next().unwrap();
            for method in ["get", "post"] {
                if handlers.contains(&format!("{method}(")) {
                    routes.insert((path.to_owned(), method.to_owned()));
                }
            }
        }
        let document: Value = serde_json::from_str(&text()).unwrap();
        let paths = document["paths"].as_object().unwrap().iter();
        let described = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (path.clone(), method.clone()))
        });
        assert_eq!(described.collect::<BTreeSet<_>>(), routes);
        assert!(routes.len() > 10, "{routes:?}");
        let links = &document["paths"]["/runs"]["post"]["responses"]["201"]["links"];
        for operation in ["state", "cancel", "record"] {
            assert_eq!(links[operation]["operationId"], operation, "{links}");
        }
    }

    /// Records are sent as they are stored, those of earlier versions included.
    #[test]
    fn each_record_has_the_fields_that_are_described() {
        let document: Value = serde_json::from_str(&text()).unwrap();
        let schema = &document["components"]["schemas"]["Record"];
        let required = schema["required"].as_array().unwrap();
        for record in [
            include_str!("../../tests/golden/one-host/record.json"),
            include_str!("../../tests/golden/version-1/acceptance.json"),
            include_str!("../../tests/golden/version-1/imb.json"),
            include_str!("../../tests/golden/version-1/latency.json"),
            include_str!("../../tests/golden/version-1/linktest.json"),
        ] {
            let record: Value = serde_json::from_str(record).unwrap();
            for field in required {
                let field = field.as_str().unwrap();
                assert!(record.get(field).is_some(), "{field}");
            }
        }
    }
}
