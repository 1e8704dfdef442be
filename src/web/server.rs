//! `pipebench serve`: accepts connections, in bounded number and for bounded time, and answers with the routes.
//!
//! The first thread starts runners and lives as long as the server, because a runner ends with the thread that started it. Other threads serve
//! connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, StatusCode, Uri, Version, header};
use axum::response::Response;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{AbortHandle, block_in_place};
use tower::ServiceExt;
use tower_http::timeout::TimeoutLayer;

use crate::sys::{clock, peers, process};

use super::app::{App, MOST_HEAVY};
use super::connections::{Connections, Place};
use super::event_hub::EventHub;
use super::guard::{Guard, Near};
use super::queue::Queue;
use super::routes::routes;
use super::run_store::FolderError;
use super::sending::Sending;
use super::site::Site;
use super::token::TokenError;
use super::tools::Tools;

/// Maximum number of connections at the same time.
const MOST_CONNECTIONS: usize = 256;
/// Maximum number of connections of one address outside this machine.
const MOST_OF_ADDRESS: usize = 32;
/// Maximum number of bytes of a request's head.
const MOST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
/// Timeout for a request's head, and for a further request on a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Timeout until an answer begins, including the wait for the request's body. Events begin earlier than that.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// A client that accepts no data for this time is gone.
const TAKE_TIME: Duration = Duration::from_secs(30);

/// Reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The folder of runs cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {}: {}", .0, crate::sys::why(.1))]
    Listen(SocketAddr, io::Error),
    /// A system call failed.
    #[error("cannot serve: {}", crate::sys::why(.0))]
    System(#[from] io::Error),
}

/// Serves until `stop` is set. Calls `ready` with the address once the server listens, and with the path of a login link at the first start.
pub(crate) fn serve(
    site: Site,
    address: SocketAddr,
    tools: &Tools,
    stop: &Arc<AtomicBool>,
    ready: &dyn Fn(SocketAddr, Option<&str>),
) -> Result<(), ServeError> {
    let base = site.base.clone();
    let open = !address.ip().is_loopback();
    let (starter, wanted) = mpsc::channel();
    let queue = Queue::new(site, tools.clone(), Some(starter))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let listener = runtime
        .block_on(TcpListener::bind(address))
        .map_err(|error| ServeError::Listen(address, error))?;
    // A start that cannot listen leaves the token, and so the link, to the next one.
    let is_first = !queue.site.token_file.exists();
    let guard = Guard::new(&queue.site, open, None, tools.random)?;
    let link = is_first.then(|| {
        let link = guard.link(&queue.random(), queue.now_ms());
        format!("{base}/login?link={link}")
    });
    let app = Arc::new(App {
        queue,
        guard,
        event_hub: Some(Arc::new(EventHub::new())),
        base,
        heavy: Semaphore::new(MOST_HEAVY),
        figures: std::sync::Mutex::default(),
        sending: Sending::new(),
    });
    let timeout = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, ANSWER_TIME);
    let routes = routes(&app).layer(timeout);
    ready(listener.local_addr()?, link.as_deref());
    let (ending, ended) = watch::channel(false);
    let house = House {
        routes,
        app: Arc::clone(&app),
        connections: Connections::new(MOST_OF_ADDRESS),
    };
    runtime.spawn(accept(listener, house, ended));
    let is_over = || {
        let is_over = stop.load(Ordering::SeqCst);
        if is_over {
            // Accept no new connections while runs end in order.
            ending.send_replace(true);
        }
        is_over
    };
    app.queue.tend(&wanted, &is_over);
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(())
}

/// State that all connections share.
#[derive(Clone)]
struct House {
    routes: Router,
    app: Arc<App>,
    connections: Connections,
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
                // When all seats are taken, close the connection that is idle for longest: it can stay idle for ever.
                let idle = connections
                    .iter()
                    .filter(|(_, idle)| !idle.is_answered.load(Ordering::SeqCst));
                if seats.available_permits() == 0
                    && let Some((longest, _)) =
                        idle.min_by_key(|(_, idle)| idle.since_ns.load(Ordering::SeqCst))
                {
                    longest.abort();
                }
                let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
                    return;
                };
                // A proxy serves many clients, so it has no limit per address.
                let own = (!house.app.guard.is_proxy(from.ip())).then_some(from.ip());
                if let Some(place) = house.connections.enter(own) {
                    let idle = Arc::new(Idle::default());
                    let own = Arc::clone(&idle);
                    let task = attend(stream, from, house.clone(), own, (place, seat));
                    connections.push((tokio::spawn(task).abort_handle(), idle));
                }
            }
            // Out of descriptors, or the client left: try again a moment later.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Idle time of a connection.
#[derive(Default)]
struct Idle {
    /// Time of the last answer on the monotonic clock, in nanoseconds; zero before the first.
    since_ns: AtomicU64,
    is_answered: AtomicBool,
}

impl Idle {
    /// Marks a whole request as being answered.
    fn begin(&self) {
        self.is_answered.store(true, Ordering::SeqCst);
    }

    /// Ends that after the answer. An event stream is being answered as long as its client listens.
    fn end(&self, answer: &Response) {
        let kind = answer.headers().get(header::CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != "text/event-stream") {
            self.since_ns.store(clock::monotonic_ns(), Ordering::SeqCst);
            self.is_answered.store(false, Ordering::SeqCst);
        }
    }
}

/// Body of a request. Until it is complete its connection is idle, because a client can keep it back.
struct Awaited {
    body: Incoming,
    idle: Arc<Idle>,
}

impl Awaited {
    fn of(body: Incoming, idle: &Arc<Idle>) -> Self {
        if body.is_end_stream() {
            idle.begin();
        }
        let idle = Arc::clone(idle);
        Self { body, idle }
    }
}

impl Body for Awaited {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.idle.begin();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
    // Serve the client even if these socket options cannot be set.
    let (Ok(()) | Err(_)) = crate::sys::socket::bound_silence(&stream, TAKE_TIME);
    let is_here = from.ip().to_canonical().is_loopback();
    let own = stream.local_addr().ok().filter(|_| is_here);
    // The kernel's connection table is a file that can be long, so reading it blocks.
    let user = own.and_then(|own| block_in_place(|| peers::user_of(own, from)));
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(|body| Awaited::of(body, &idle));
        request.extensions_mut().insert(ConnectInfo(from));
        let near = near_of(user, request.version());
        request.extensions_mut().insert(near);
        // The absolute form of a URI names the host and overrides the header (RFC 9112, 3.2.2).
        let authority = request.uri().authority();
        let named = authority.map(|named| HeaderValue::from_str(named.as_str()));
        if let Some(Ok(named)) = named
            && request.headers().get_all(header::HOST).iter().count() <= 1
        {
            request.headers_mut().insert(header::HOST, named);
        }
        *request.uri_mut() = within(&house.app.base, request.uri());
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
    // A failure means that the client left or was too slow.
    let (Ok(()) | Err(_)) = connection.await;
}

/// Sender of a request, by the user at the other end of the connection. Browsers and curl speak HTTP/1.1. Most versions of nginx speak HTTP/1.0 to a
/// server unless they are configured otherwise.
fn near_of(user: Option<u32>, version: Version) -> Near {
    match user == Some(process::own_user()) && version == Version::HTTP_11 {
        true => Near::OwnUser,
        false => Near::OtherUser,
    }
}

/// Path below the base. A path outside the base becomes one that no route has.
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

    /// Symptom: a proxy of the same user, as in a container, let everyone read.
    #[test]
    fn a_request_as_nginx_forwards_it_is_not_near_even_from_the_own_user() {
        let own = Some(process::own_user());
        assert_eq!(near_of(own, Version::HTTP_11), Near::OwnUser);
        assert_eq!(near_of(own, Version::HTTP_10), Near::OtherUser);
        assert_eq!(near_of(None, Version::HTTP_11), Near::OtherUser);
    }

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
