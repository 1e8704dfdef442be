//! `pipebench serve`: takes connections, in bounded number and for bounded time, and answers by the routes.
//!
//! The first thread starts keepers and lives as long as the server, since a keeper ends with the thread that started it; connections are
//! served by others.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, StatusCode, Uri, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{AbortHandle, block_in_place};
use tower::ServiceExt;
use tower_http::timeout::TimeoutLayer;

use crate::store::StoreError;
use crate::sys::{clock, peers};

use super::clerk::{Clerk, tend};
use super::crowd::{Crowd, Place};
use super::events::Desk;
use super::guard::{Guard, Near, TokenError};
use super::routes::routes;
use super::{App, MOST_HEAVY, Site, Tools};

/// Connections at the same time.
const MOST_CONNECTIONS: usize = 256;
/// Of them those of one address that is not this machine's.
const MOST_OF_ADDRESS: usize = 32;
/// Bytes of the head of a request.
const MOST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
/// A head that is not there by then is not waited for, nor is a further request on a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Nor is an answer, a body that does not come included. Events have begun by then.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// A client that takes nothing for so long is gone.
const TAKE_TIME: Duration = Duration::from_secs(30);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder of runs cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The address cannot be had.
    #[error("cannot listen on {}: {}", .0, crate::sys::why(.1))]
    Listen(SocketAddr, io::Error),
    /// The system refuses.
    #[error("cannot serve: {}", crate::sys::why(.0))]
    System(#[from] io::Error),
}

/// Serves until `stop` is set. `ready` is told the address, once it is listened on.
pub fn serve(
    site: Site,
    address: SocketAddr,
    tools: &Tools,
    stop: &Arc<AtomicBool>,
    ready: &dyn Fn(SocketAddr),
) -> Result<(), ServeError> {
    let base: Arc<str> = site.base.as_str().into();
    let open = !address.ip().is_loopback();
    let (clerk, wanted) = Clerk::serving(site.clone(), tools.clone())?;
    let guard = Guard::new(&clerk.site, open, None, tools.random)?;
    let shelf = clerk.shelf.clone();
    let app = Arc::new(App {
        clerk,
        guard,
        desk: Some(Arc::new(Desk::new())),
        base: base.to_string(),
        heavy: Semaphore::new(MOST_HEAVY),
        sending: super::sending::Sending::new(),
    });
    let routes = routes(&app).layer(TimeoutLayer::with_status_code(
        StatusCode::REQUEST_TIMEOUT,
        ANSWER_TIME,
    ));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let listener = runtime
        .block_on(TcpListener::bind(address))
        .map_err(|error| ServeError::Listen(address, error))?;
    ready(listener.local_addr()?);
    let (ending, ended) = watch::channel(false);
    let house = House {
        routes,
        base,
        app: Arc::clone(&app),
        crowd: Crowd::new(MOST_OF_ADDRESS),
    };
    runtime.spawn(accept(listener, house, ended));
    let is_over = || {
        let is_over = stop.load(Ordering::SeqCst);
        if is_over {
            // Nobody new is let in while runs end in order.
            ending.send_replace(true);
        }
        is_over
    };
    tend(&shelf, &site, tools, &wanted, &is_over);
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(())
}

/// What all connections share.
#[derive(Clone)]
struct House {
    routes: Router,
    base: Arc<str>,
    app: Arc<App>,
    crowd: Crowd,
}

async fn accept(listener: TcpListener, house: House, mut ended: watch::Receiver<bool>) {
    let seats = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections: Vec<(AbortHandle, Arc<Idle>)> = Vec::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.changed() => return,
        };
        connections.retain(|(task, _)| !task.is_finished());
        match accepted {
            Ok((stream, from)) => {
                // Where all seats are taken, the one goes that has asked nothing for longest: it may do so for ever.
                let idle = connections.iter().filter(|(_, idle)| !idle.is_answered());
                if seats.available_permits() == 0
                    && let Some((longest, _)) = idle.min_by_key(|(_, idle)| idle.since_ns())
                {
                    longest.abort();
                }
                let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
                    return;
                };
                // A proxy is everybody.
                let own = (!house.app.guard.is_proxy(from.ip())).then_some(from.ip());
                if let Some(place) = house.crowd.enter(own) {
                    let idle = Arc::new(Idle::default());
                    let own = Arc::clone(&idle);
                    let task = attend(stream, from, house.clone(), own, (place, seat));
                    connections.push((tokio::spawn(task).abort_handle(), idle));
                }
            }
            // No descriptors, or the caller has gone: a moment later it may be better.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Since when nothing is asked on a connection.
#[derive(Default)]
struct Idle {
    /// Since the last answer, on the monotonic clock; zero before the first.
    since_ns: AtomicU64,
    answering: AtomicUsize,
}

impl Idle {
    fn since_ns(&self) -> u64 {
        self.since_ns.load(Ordering::SeqCst)
    }

    fn is_answered(&self) -> bool {
        self.answering.load(Ordering::SeqCst) > 0
    }

    fn begin(&self) {
        self.answering.fetch_add(1, Ordering::SeqCst);
    }

    /// What is sent for as long as somebody listens has no end.
    fn end(&self, answer: &Response) {
        let kind = answer.headers().get(header::CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != "text/event-stream") {
            self.since_ns.store(clock::monotonic_ns(), Ordering::SeqCst);
            self.answering.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Answers all requests of a connection.
async fn attend(
    stream: TcpStream,
    from: SocketAddr,
    house: House,
    idle: Arc<Idle>,
    _held: (Place, OwnedSemaphorePermit),
) {
    // A client without these options is served as well.
    match crate::sys::socket::bound_silence(&stream, TAKE_TIME) {
        Ok(()) | Err(_) => {}
    }
    let near = stream
        .local_addr()
        .ok()
        .filter(|_| from.ip().to_canonical().is_loopback());
    // The kernel's table is a file, and may be long.
    let user = near.and_then(|own| block_in_place(|| peers::user_of(own, from)));
    let near = match user {
        Some(user) if user == nix::unistd::geteuid().as_raw() => Near::OwnUser,
        Some(_) | None => Near::OtherUser,
    };
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        idle.begin();
        request.extensions_mut().insert(ConnectInfo(from));
        request.extensions_mut().insert(near);
        // The whole form of an address names the host that is meant, whatever stands in the header (RFC 9112, 3.2.2).
        let named = request
            .uri()
            .authority()
            .map(|named| named.as_str().to_owned());
        if let Some(named) = named.and_then(|named| HeaderValue::from_str(&named).ok())
            && request.headers().get_all(header::HOST).iter().count() <= 1
        {
            request.headers_mut().insert(header::HOST, named);
        }
        *request.uri_mut() = within(&house.base, request.uri());
        let (answer, idle) = (house.routes.clone().oneshot(request), Arc::clone(&idle));
        async move {
            let answer = answer.await?;
            idle.end(&answer);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    match connection.await {
        Ok(()) | Err(_) => {} // It went away, or was too slow.
    }
}

/// What is asked for behind the base; what stands outside of it is nowhere.
fn within(base: &str, uri: &Uri) -> Uri {
    let whole = uri.path_and_query().map_or("/", |whole| whole.as_str());
    let rest = match whole.strip_prefix(base) {
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        Some(rest) if rest.is_empty() || rest.starts_with('?') => format!("/{rest}"),
        _ => "/.outside".to_owned(),
    };
    rest.parse()
        .unwrap_or_else(|_| Uri::from_static("/.outside"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stands_behind_the_base() {
        for (base, asked, found) in [
            ("", "/runs?q=x", "/runs?q=x"),
            ("", "/", "/"),
            ("/bench", "/bench", "/"),
            ("/bench", "/bench/", "/"),
            ("/bench", "/bench?x", "/?x"),
            ("/bench", "/bench/runs?q=x", "/runs?q=x"),
            ("/bench", "/benches", "/.outside"),
            ("/bench", "/", "/.outside"),
        ] {
            assert_eq!(
                within(base, &Uri::from_static(asked)).to_string(),
                found,
                "{base} {asked}"
            );
        }
    }
}
