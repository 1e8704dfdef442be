//! Server-sent events: the state of a run after each change, for API clients, and the part of its page that shows it, for pages. One task reads a run
//! every half second for all listeners of one kind. A slow listener gets the latest state and misses the ones between.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::block_in_place;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use utoipa::ToSchema;

use super::answers::{absent, known, problem};
use super::app::App;
use super::connections::Place;
use super::event_hub::{EventHub, Followed};
use super::guard::Asker;
use super::pages;
use super::run_store::RunName;

const LOOK: Duration = Duration::from_millis(500);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The same for a page, which says that the server is lost after two seconds of silence.
const BEAT: Duration = Duration::from_secs(1);

/// Event for an API client.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is only described")]
struct StateEvent {
    #[schema(inline)]
    event: EventName,
    /// A State, as JSON.
    data: String,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it is only described")]
enum EventName {
    #[schema(rename = "state")]
    State,
}

/// The state of a run after each change, as server-sent events named state. The stream ends with the run.
// Pages get it drawn, as events named part.
#[utoipa::path(get, path = "/runs/{name}/events", operation_id = "events", params(RunName),
    responses(
        (status = 200, description = "Events. The data of each event is a State.",
            body = inline(StateEvent), content_type = "text/event-stream"),
        (status = 501, description = "A CGI program sends no events."),
        (status = 503, description = "Too many clients listen to events."),
    ))]
pub(super) async fn follow<const IS_API: bool>(
    State(app): State<Arc<App>>,
    Extension(asker): Extension<Asker>,
    Path(name): Path<String>,
) -> Response {
    match block_in_place(|| known(&app, &name)) {
        Some((name, _)) => answer(&app, &name, asker.from, IS_API).await,
        None => absent(&app, IS_API),
    }
}

/// Streams the events of an existing run to the client at `from`. Status 501 in a CGI program, 503 with too many listeners.
async fn answer(app: &Arc<App>, name: &RunName, from: Option<IpAddr>, is_api: bool) -> Response {
    let Some(event_hub) = &app.event_hub else {
        let what = "a CGI program sends no events: poll the state of the run";
        return problem(app, is_api, StatusCode::NOT_IMPLEMENTED, what);
    };
    let seat = Arc::clone(&event_hub.seats).try_acquire_owned().ok();
    let Some(seat) = seat.zip(event_hub.connections.enter(from)) else {
        let what = "too many clients listen to events: try again later";
        return problem(app, is_api, StatusCode::SERVICE_UNAVAILABLE, what);
    };
    let receiver = listen(app, event_hub, (name.clone(), is_api)).await;
    let stream = WatchStream::new(receiver).map(move |text| tell(&seat, is_api, &text));
    let alive = match is_api {
        true => KeepAlive::new().interval(KEEP_ALIVE),
        // Scripts see events, and no comments.
        false => KeepAlive::new()
            .interval(BEAT)
            .event(Event::default().event("alive").data("1")),
    };
    let events = Sse::new(stream).keep_alive(alive);
    // A proxy must not buffer the events.
    ([("x-accel-buffering", "no")], events).into_response()
}

/// Builds an event. The argument `_seat` keeps the seat in the caller's closure for as long as the stream lives.
fn tell(
    _seat: &(OwnedSemaphorePermit, Place),
    is_api: bool,
    text: &str,
) -> Result<Event, Infallible> {
    Ok(match is_api {
        true => Event::default().event("state").data(text),
        false => Event::default().event("part").retry(BEAT).data(text),
    })
}

/// Data of the next event, and true if it is the last one.
async fn data_of(app: &App, (name, is_api): &Followed) -> Option<(Arc<str>, bool)> {
    let state = block_in_place(|| app.queue.state(name))?;
    let text = match is_api {
        true => serde_json::to_string(&state).ok()?,
        false => {
            let _turn = match state.is_over() {
                true => app.heavy.acquire().await.ok(),
                false => None,
            };
            block_in_place(|| pages::part(app, &state).into_string())
        }
    };
    Some((text.into(), state.is_over()))
}

async fn listen(
    app: &Arc<App>,
    event_hub: &Arc<EventHub>,
    run: Followed,
) -> watch::Receiver<Arc<str>> {
    let first = data_of(app, &run).await;
    let watched = event_hub.watched.lock();
    let mut watched = watched.unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = watched.get(&run) {
        return sender.subscribe();
    }
    let (first, over) = first.unwrap_or_else(|| (Arc::from("null"), true));
    let (sender, receiver) = watch::channel(first);
    if over {
        // The stream has one event.
        return receiver;
    }
    watched.insert(run.clone(), sender.clone());
    let (app, event_hub) = (Arc::clone(app), Arc::clone(event_hub));
    tokio::spawn(async move {
        loop {
            let looked = data_of(&app, &run).await;
            let over = looked.as_ref().is_none_or(|(_, over)| *over);
            if let Some((text, _)) = looked {
                sender.send_if_modified(|known| {
                    let changed = *known != text;
                    *known = text;
                    changed
                });
            }
            if event_hub.leave(&run, &sender, over) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    receiver
}
