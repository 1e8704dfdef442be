//! Routes of pages and sessions, and their answers. Downloads are in [`super::documents`], those of the API in [`super::openapi`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{
    ConnectInfo, DefaultBodyLimit, Form, FromRequest, Path, Query, RawQuery, Request, State,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde::Deserialize;
use tokio::task::block_in_place;

use super::answers::{
    self, MOST_LISTED, Search, absent, of_run, problem, show, shown, status_of, take, tell,
};
use super::app::App;
use super::caching::{compressed, compressed_events};
use super::documents::{busy, compare, download, history};
use super::guard::{Asker, Near, RemoteUser, TooMany, is_reading, own_page, page_of};
use super::queue::Declined;
use super::request::{Fields, Refusal, Typed};
use super::run_store::RunName;
use super::state::State as RunState;
use super::{caching, events, metrics, openapi, pages, rate_limit};

/// Maximum number of bytes of a request's body.
const MOST_BODY: usize = 16 * 1024;
/// Maximum number of latest runs on the first page.
const MOST_LATEST: usize = 8;

const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";
const PERMISSIONS: &str = "camera=(), microphone=(), geolocation=()";

/// Builds the router with all routes, access control included.
pub(super) fn routes(app: &Arc<App>) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/confirm", get(confirm))
        .route("/start", post(start))
        .route("/runs", get(list))
        .route("/runs/{name}", compressed(get(run)))
        .route("/runs/{name}/cancel", post(cancel))
        .route(
            "/runs/{name}/events",
            compressed_events(get(events::follow::<false>)),
        )
        .route("/runs/{name}/{file}", compressed(get(download::<false>)))
        .route("/compare", get(compare))
        .route("/history", get(history))
        .route("/login", get(login).post(log_in))
        .route("/logout", post(log_out))
        .route("/assets/{file}", compressed(get(asset)))
        .route("/health", get(metrics::health))
        .route("/metrics", get(metrics::measures))
        .nest("/api/v1", openapi::routes())
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(app), admit))
        .with_state(Arc::clone(app))
}

/// Checks a request before any route runs, and gives every answer the headers for security and caching.
async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|ConnectInfo(address)| address.ip());
    let near = request.extensions().get::<Near>().copied();
    let near = near.unwrap_or(Near::OtherUser);
    let path = request.uri().path().to_owned();
    let is_api = path.starts_with("/api/");
    let admitted = decide(&app, &mut request, (peer, near));
    let asker = request.extensions().get::<Asker>().cloned();
    let mut answer = match admitted {
        Ok(()) => next.run(request).await,
        Err((StatusCode::UNAUTHORIZED, _)) if !is_api && path != "/metrics" => {
            to_login(&app, asker.as_ref().unwrap_or(&Asker::default()))
        }
        Err((status, what)) => problem(&app, is_api, status, what),
    };
    let kind = answer.headers().get(header::CONTENT_TYPE);
    if answer.status().is_client_error()
        && kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"))
    {
        // An extractor answers with words of its parser.
        let status = answer.status();
        answer = problem(&app, is_api, status, "the request cannot be read");
    }
    answers::draw(&app, &asker.unwrap_or_default(), &mut answer);
    match answer.status() {
        StatusCode::UNAUTHORIZED => {
            let ask = HeaderValue::from_static("Bearer realm=\"pipebench\"");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
        }
        StatusCode::TOO_MANY_REQUESTS => {
            let wait = rate_limit::wait_s(app.queue.now_ms());
            answer
                .headers_mut()
                .insert(header::RETRY_AFTER, wait.into());
        }
        _ => {}
    }
    for (name, value) in [
        ("content-security-policy", PAGE_POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", PERMISSIONS),
        ("cache-control", "no-store"),
    ] {
        let value = HeaderValue::from_static(value);
        answer.headers_mut().entry(name).or_insert(value);
    }
    answer
}

fn decide(
    app: &App,
    request: &mut Request,
    (peer, near): (Option<IpAddr>, Near),
) -> Result<(), (StatusCode, &'static str)> {
    let guard = &app.guard;
    let from = guard.origin(request.headers(), peer);
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        let what = "the request has more than one Host header";
        return Err((StatusCode::BAD_REQUEST, what));
    }
    if !guard.is_own_name(request.headers()) {
        let what =
            "this site does not answer under this host name (add it to names in the site's file)";
        return Err((StatusCode::MISDIRECTED_REQUEST, what));
    }
    let mut asker = guard
        .see(request.headers(), from, app.queue.now_ms())
        .map_err(|TooMany| (StatusCode::TOO_MANY_REQUESTS, TOO_MANY))?;
    if asker.has_wrong_token {
        tell(&asker, "wrong token");
        return Err((StatusCode::UNAUTHORIZED, "wrong token"));
    }
    if let (Some(RemoteUser(user)), true) =
        (request.extensions().get(), app.queue.site.trust_remote_user)
    {
        asker.user = Some(user.clone());
        asker.is_known = true;
    }
    asker.page = page_of(request, &app.base);
    request.extensions_mut().insert(asker.clone());
    let path = request.uri().path();
    let is_open =
        matches!(path, "/login" | "/health" | "/api/v1/health") || path.starts_with("/assets/");
    let is_read = is_reading(request.method());
    if path.starts_with("/api/") && !is_read && asker.is_known && !asker.has_token {
        // A browser sends sessions and passwords unasked, even for foreign pages. Only a program sends the token.
        let what =
            "the API needs the token itself (Authorization: Bearer), not a session or a password";
        return Err((StatusCode::UNAUTHORIZED, what));
    }
    let may_read = is_read && guard.may_read(request.headers(), peer, near);
    if !(asker.is_known || is_open || may_read) {
        return Err((
            StatusCode::UNAUTHORIZED,
            "this request needs the site's token",
        ));
    }
    if !is_read && !guard.is_from_here(request.headers()) {
        let what = "a page of another site sent this request";
        return Err((StatusCode::FORBIDDEN, what));
    }
    Ok(())
}

async fn nothing(State(app): State<Arc<App>>, request: Request) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    absent(&app, is_api)
}

async fn other_method(State(app): State<Arc<App>>, method: Method, request: Request) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let what = format!("this page does not accept {method}");
    problem(&app, is_api, StatusCode::METHOD_NOT_ALLOWED, &what)
}

/// A form: its fields, and the mark that proves that it is ours.
#[derive(Deserialize)]
struct Marked {
    #[serde(default)]
    mark: String,
    #[serde(flatten)]
    fields: Typed,
}

/// A form from our own pages, and its sender. Extraction rejects every other form with status 403.
struct Own(Asker, Marked);

impl FromRequest<Arc<App>> for Own {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let asker = request.extensions().get::<Asker>().cloned();
        let headers = request.headers().clone();
        let form = Form::<Marked>::from_request(request, app).await;
        let Form(form) = form.map_err(IntoResponse::into_response)?;
        asker
            .filter(|asker| app.guard.is_own_form(asker, &form.mark, &headers))
            .map(|asker| Self(asker, form))
            .ok_or_else(|| problem(app, false, StatusCode::FORBIDDEN, FOREIGN))
    }
}

const TOO_MANY: &str = "too many wrong tokens: wait a minute";
const FOREIGN: &str = "this form is from another site or has expired: go back, reload the page and send the form again";

/// Leads to the login, and from there to the page that was asked for.
fn to_login(app: &App, asker: &Asker) -> Response {
    Redirect::to(&pages::login_address(app, asker)).into_response()
}

/// The first page. Its address can have values for the form, or the name of a run to run again.
async fn home(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Query(mut typed): Query<Typed>,
) -> Response {
    // To run it again is to start a run.
    if typed.contains_key("again") && !asker.is_known {
        return to_login(&app, &asker);
    }
    block_in_place(|| {
        app.queue.sweep();
        let again: Option<RunName> = typed.get("again").and_then(|name| name.parse().ok());
        if let Some(request) = again.and_then(|name| app.queue.run_store.request(&name)) {
            typed = request.asked.fields.typed();
            // Another user can be the one who runs it again.
            typed.remove("by");
        }
        let under_way = app.queue.under_way();
        let (latest, _) = app.queue.find("", MOST_LATEST);
        let latest: Vec<RunState> = latest.into_iter().filter(RunState::is_over).collect();
        let page = pages::home(&app, &asker, &typed, None, &under_way, &latest);
        shown(page)
    })
}

/// The question before a start. It changes nothing and has an address, so that a browser can go back to it. The address has a ticket: the question
/// starts one run, however often it is answered.
async fn confirm(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    RawQuery(query): RawQuery,
    Query(typed): Query<Typed>,
) -> Response {
    if !asker.is_known {
        return to_login(&app, &asker);
    }
    let query = query.unwrap_or_default();
    let values = query.split('&').filter(|one| !one.starts_with("ticket="));
    let values = values.collect::<Vec<_>>().join("&");
    let now_ms = app.queue.now_ms();
    let ticket = typed.get("ticket").map_or("", String::as_str);
    let Some(run) = app.guard.run_of(ticket, now_ms) else {
        let ticket = app.guard.ticket(&app.queue.new_name(), now_ms);
        let to = format!("{}/confirm?{values}&ticket={ticket}", app.base);
        return Redirect::to(&to).into_response();
    };
    let Some(_turn) = app.turn().await else {
        return busy(&app, false);
    };
    block_in_place(|| {
        let fields = Fields::read(&typed);
        match app.queue.offer(&fields) {
            Ok(offer) => {
                let question = pages::Question {
                    fields: &fields,
                    offer: &offer,
                    under_way: &app.queue.under_way(),
                    ticket,
                    started: app.queue.run_store.has(&run).then_some(&run),
                    values: &values,
                };
                shown(pages::question(&app, &asker, &question))
            }
            Err(refusal) => refused(&app, &asker, &typed, &refusal),
        }
    })
}

fn refused(app: &App, asker: &Asker, typed: &Typed, refusal: &Refusal) -> Response {
    let under_way = app.queue.under_way();
    let page = pages::home(app, asker, typed, Some(refusal), &under_way, &[]);
    show(StatusCode::UNPROCESSABLE_ENTITY, page)
}

async fn start(State(app): State<Arc<App>>, Own(asker, form): Own) -> Response {
    block_in_place(|| {
        let ticket = form.fields.get("ticket");
        let wanted = ticket.and_then(|ticket| app.guard.run_of(ticket, app.queue.now_ms()));
        match take(&app, &asker, &Fields::read(&form.fields), wanted) {
            Ok(name) => Redirect::to(&format!("{}/runs/{name}", app.base)).into_response(),
            Err(Declined::Refused(refusal)) => refused(&app, &asker, &form.fields, &refusal),
            Err(declined) => problem(&app, false, status_of(&declined), &declined.to_string()),
        }
    })
}

async fn list(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Query(search): Query<Search>,
) -> Response {
    let before = match search.before(&app) {
        Ok(before) => before,
        Err(refusal) => return *refusal,
    };
    block_in_place(|| {
        let (found, more) =
            app.queue
                .find_before(before.as_ref(), |state| state.has(&search.q), MOST_LISTED);
        shown(pages::list(&app, &asker, &search.q, &found, more))
    })
}

async fn run(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Path(name): Path<String>,
) -> Response {
    let Some((_, state)) = block_in_place(|| answers::known(&app, &name)) else {
        return absent(&app, false);
    };
    // The page of a run that is over has figures of its record.
    let turn = match state.is_over() {
        true => app.turn().await.ok_or(()).map(Some),
        false => Ok(None),
    };
    match turn {
        Ok(_turn) => block_in_place(|| shown(pages::run(&app, &asker, &state))),
        Err(()) => busy(&app, false),
    }
}

async fn cancel(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Own(asker, _): Own,
) -> Response {
    of_run(&app, false, &name, |name, _| {
        answers::cancel(&app, false, &asker, &name, |_| {
            Redirect::to(&format!("{}/runs/{name}", app.base)).into_response()
        })
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Token {
    token: String,
    /// Page to show after the login.
    to: String,
    /// Login link that the server printed.
    link: String,
}

async fn login(
    State(app): State<Arc<App>>,
    Extension(mut asker): Extension<Asker>,
    method: Method,
    headers: HeaderMap,
    Query(asked): Query<Token>,
) -> Response {
    let now_ms = app.queue.now_ms();
    // Only a reader uses the link up.
    let is_look = method == Method::HEAD || headers.contains_key("sec-purpose");
    asker.page = own_page(&asked.to);
    match asked.link.as_str() {
        "" if asker.session.is_some() => to_page(&app, &asker).into_response(),
        link if link.is_empty() || is_look => shown(pages::login(&app, &asker, None)),
        link if block_in_place(|| app.guard.use_link(link, now_ms)) => logged_in(&app, &asker),
        _ => {
            let what = "the login link has expired or was used before";
            let page = pages::login(&app, &asker, Some(what));
            show(StatusCode::UNAUTHORIZED, page)
        }
    }
}

/// Leads to the page that was asked for before the login.
fn to_page(app: &App, asker: &Asker) -> Redirect {
    let page = asker.page.as_deref().unwrap_or("/");
    Redirect::to(&format!("{}{page}", app.base))
}

/// Opens a session and leads to the page that was asked for.
fn logged_in(app: &App, asker: &Asker) -> Response {
    let cookie = app
        .guard
        .open_session(&app.queue.random(), app.queue.now_ms(), &app.base);
    tell(asker, "login");
    ([(header::SET_COOKIE, cookie)], to_page(app, asker)).into_response()
}

async fn log_in(
    State(app): State<Arc<App>>,
    Extension(mut asker): Extension<Asker>,
    Form(form): Form<Token>,
) -> Response {
    let now_ms = app.queue.now_ms();
    asker.page = own_page(&form.to);
    match block_in_place(|| app.guard.is_token(&form.token, asker.from, now_ms)) {
        Ok(true) => logged_in(&app, &asker),
        Ok(false) => {
            tell(&asker, "wrong token");
            let what = "wrong token";
            let page = pages::login(&app, &asker, Some(what));
            show(StatusCode::UNAUTHORIZED, page)
        }
        Err(TooMany) => problem(&app, false, StatusCode::TOO_MANY_REQUESTS, TOO_MANY),
    }
}

async fn log_out(State(app): State<Arc<App>>, Own(asker, _): Own) -> Response {
    let now_ms = app.queue.now_ms();
    let closed = block_in_place(|| app.guard.close_session(&asker, now_ms, &app.base));
    let Ok(cookie) = closed else {
        let what =
            "cannot store the logout: the session stays valid until it expires (is the disk full?)";
        return problem(&app, false, StatusCode::INTERNAL_SERVER_ERROR, what);
    };
    let to = Redirect::to(&format!("{}/", app.base));
    ([(header::SET_COOKIE, cookie)], to).into_response()
}

async fn asset(
    State(app): State<Arc<App>>,
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some((kind, text)) = pages::asset(&file) else {
        return absent(&app, false);
    };
    let tag = caching::tag_of(text);
    let answer = caching::unchanged(&headers, &tag);
    let answer = answer.unwrap_or_else(|| {
        let head = [(header::CONTENT_TYPE, kind), (header::ETAG, tag.as_str())];
        (head, text).into_response()
    });
    ([(header::CACHE_CONTROL, "no-cache")], answer).into_response()
}
