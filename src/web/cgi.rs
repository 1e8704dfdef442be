//! `pipebench cgi`: one request from environment and standard input, one answer on standard output (RFC 3875). The routes are those of the server.
//! Runs are detached, and pages reload instead of listening to events.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Method, Request, Response, Uri};
use tower::ServiceExt;

use super::app::{App, MOST_HEAVY};
use super::guard::{Guard, RemoteUser};
use super::queue::Queue;
use super::routes::routes;
use super::run_store::FolderError;
use super::sending::Sending;
use super::site::Site;
use super::token::TokenError;
use super::tools::Tools;

/// Maximum number of bytes read of a body. The routes allow less.
const MOST_BODY: u64 = 64 * 1024;
/// Maximum number of bytes of an answer: the record of a large run.
const MOST_ANSWER: usize = 1 << 30;

/// Reason why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgiError {
    /// The named variable is not set, so this is no CGI request.
    #[error("this is a CGI program: {0} is not set (let a web server run it, see docs/web.md)")]
    NoRequest(&'static str),
    /// The folder of runs cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Standard input or output failed.
    #[error("{}", crate::sys::why(.0))]
    Stream(#[from] io::Error),
    /// The request cannot be understood at all.
    #[error("cannot read the request or its answer")]
    Garbage,
}

/// Access to the variables that a web server sets.
pub(super) struct Variables<'a>(pub &'a dyn Fn(&str) -> Option<String>);

/// Answers the CGI request of this process: reads the body from `input`, writes the answer to `output`.
pub(crate) fn answer(
    site: Site,
    tools: &Tools,
    variable: &dyn Fn(&str) -> Option<String>,
    input: impl Read,
    mut output: impl Write,
) -> Result<(), CgiError> {
    let variables = Variables(variable);
    let request = request_of(&variables, input)?;
    let queue = Queue::new(site, tools.clone(), None)?;
    let guard = Guard::new(&queue.site, false, Some(&queue.site.results), tools.random)?;
    let base = (variables.0)("SCRIPT_NAME").unwrap_or_default();
    let app = Arc::new(App {
        queue,
        guard,
        event_hub: None,
        base: base.trim_end_matches('/').to_owned(),
        heavy: tokio::sync::Semaphore::new(MOST_HEAVY),
        figures: std::sync::Mutex::default(),
        sending: Sending::new(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let text = runtime.block_on(async {
        let Ok(answer) = routes(&app).oneshot(request).await;
        written(answer).await
    })?;
    output.write_all(&text)?;
    Ok(output.flush()?)
}

fn request_of(variables: &Variables<'_>, input: impl Read) -> Result<Request<Body>, CgiError> {
    let get = |name: &str| (variables.0)(name).filter(|text| !text.is_empty());
    let method = get("REQUEST_METHOD").ok_or(CgiError::NoRequest("REQUEST_METHOD"))?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| CgiError::Garbage)?;
    let path = get("PATH_INFO").unwrap_or_else(|| "/".to_owned());
    let query = get("QUERY_STRING").map_or_else(String::new, |query| format!("?{query}"));
    let uri: Uri = format!("{}{query}", quoted(&path))
        .parse()
        .map_err(|_| CgiError::Garbage)?;
    let length = get("CONTENT_LENGTH")
        .and_then(|text| text.parse::<u64>().ok())
        .unwrap_or(0);
    let mut body = Vec::new();
    // This limit is above that of the routes, so they still detect a body that is too large.
    input.take(length.min(MOST_BODY)).read_to_end(&mut body)?;
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .body(Body::from(body))
        .map_err(|_| CgiError::Garbage)?;
    let headers = request.headers_mut();
    let named = [
        ("content-type", "CONTENT_TYPE"),
        ("host", "HTTP_HOST"),
        ("cookie", "HTTP_COOKIE"),
        ("if-none-match", "HTTP_IF_NONE_MATCH"),
        ("origin", "HTTP_ORIGIN"),
        ("authorization", "HTTP_AUTHORIZATION"),
        ("sec-fetch-site", "HTTP_SEC_FETCH_SITE"),
        ("x-forwarded-for", "HTTP_X_FORWARDED_FOR"),
        ("x-real-ip", "HTTP_X_REAL_IP"),
        ("forwarded", "HTTP_FORWARDED"),
        ("via", "HTTP_VIA"),
    ];
    for (name, variable) in named {
        if let Some(value) = get(variable).and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(name, value);
        }
    }
    if let Some(user) = get("REMOTE_USER") {
        request.extensions_mut().insert(RemoteUser(user));
    }
    if let Some(from) = get("REMOTE_ADDR").and_then(|text| text.parse::<IpAddr>().ok()) {
        let from = ConnectInfo(SocketAddr::new(from, 0));
        request.extensions_mut().insert(from);
    }
    Ok(request)
}

/// Percent-encodes a path again: web servers pass it decoded.
fn quoted(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:".contains(&byte);
    path.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

async fn written(answer: Response<Body>) -> Result<Vec<u8>, CgiError> {
    let (parts, body) = answer.into_parts();
    let body = to_bytes(body, MOST_ANSWER)
        .await
        .map_err(|_| CgiError::Garbage)?;
    let mut text = format!("Status: {}\r\n", parts.status).into_bytes();
    for (name, value) in &parts.headers {
        text.extend(name.as_str().as_bytes());
        text.extend(b": ");
        text.extend(value.as_bytes());
        text.extend(b"\r\n");
    }
    text.extend(b"\r\n");
    text.extend(body);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_variables_are_a_request_or_an_error(method in ".{0,8}", path in ".{0,30}", query in ".{0,30}", length in ".{0,6}") {
            let get = |name: &str| match name {
                "REQUEST_METHOD" => Some(method.clone()),
                "PATH_INFO" => Some(path.clone()),
                "QUERY_STRING" => Some(query.clone()),
                "CONTENT_LENGTH" => Some(length.clone()),
                _ => None,
            };
            match request_of(&Variables(&get), &b"abc"[..]) {
                Ok(_) | Err(_) => {}
            }
        }
    }

    #[test]
    fn a_request_has_what_the_server_says_of_it() {
        let get = |name: &str| {
            let value = match name {
                "REQUEST_METHOD" => "POST",
                "PATH_INFO" => "/runs/a b",
                "QUERY_STRING" => "q=x",
                "CONTENT_LENGTH" => "2",
                "HTTP_HOST" => "localhost:8080",
                "REMOTE_ADDR" => "10.0.0.1",
                "REMOTE_USER" => "anna",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let request = request_of(&Variables(&get), &b"abcd"[..]).unwrap();
        assert_eq!(request.uri().to_string(), "/runs/a%20b?q=x");
        assert_eq!(
            request
                .extensions()
                .get::<RemoteUser>()
                .map(|user| user.0.as_str()),
            Some("anna")
        );
        assert!(
            request
                .extensions()
                .get::<ConnectInfo<SocketAddr>>()
                .is_some()
        );
        let missing = request_of(&Variables(&|_| None), io::empty()).unwrap_err();
        assert!(missing.to_string().contains("REQUEST_METHOD"), "{missing}");
    }
}
