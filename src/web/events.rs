//! Server-sent events: the state of a run, each time it has changed. However many listen, a run is looked at once each half second; who is slow
//! gets the latest state and misses those between.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::block_in_place;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

use super::App;
use super::crowd::{Crowd, Place};
use super::routes::problem;
use super::shelf::RunName;

/// Listeners at the same time.
const MOST_LISTENERS: usize = 64;
/// Of them those of one address that is not this machine's.
const MOST_OF_ADDRESS: usize = 16;
const LOOK: Duration = Duration::from_millis(500);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where listeners are.
pub struct Desk {
    seats: Arc<Semaphore>,
    crowd: Crowd,
    watched: Mutex<HashMap<RunName, watch::Sender<Arc<str>>>>,
}

impl Desk {
    /// With nobody there.
    pub fn new() -> Self {
        Self {
            seats: Arc::new(Semaphore::new(MOST_LISTENERS)),
            crowd: Crowd::new(MOST_OF_ADDRESS),
            watched: Mutex::new(HashMap::new()),
        }
    }

    /// Stops watching a run that is over, or that nobody listens to: one step, so that nobody comes between.
    fn leave(&self, name: &RunName, sender: &watch::Sender<Arc<str>>, over: bool) -> bool {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let done = over || sender.receiver_count() == 0;
        if done {
            watched.remove(name);
        }
        done
    }
}

/// The events of a run that is known, for whoever asks from there.
pub fn answer(app: &Arc<App>, name: &RunName, from: Option<IpAddr>, is_api: bool) -> Response {
    let Some(desk) = &app.desk else {
        let what = "there are no events here: ask for the state";
        return problem(app, is_api, StatusCode::NOT_IMPLEMENTED, what);
    };
    let seat = Arc::clone(&desk.seats).try_acquire_owned().ok();
    let Some(seat) = seat.zip(desk.crowd.enter(from)) else {
        let what = "too many listen already";
        return problem(app, is_api, StatusCode::SERVICE_UNAVAILABLE, what);
    };
    let receiver = listen(app, desk, name);
    let stream = WatchStream::new(receiver).map(move |text| tell(&seat, &text));
    let events = Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    // A proxy must not hold them back.
    ([("x-accel-buffering", "no")], events).into_response()
}

/// The seat is taken for as long as the stream lives.
fn tell(_seat: &(OwnedSemaphorePermit, Place), text: &str) -> Result<Event, Infallible> {
    Ok(Event::default().event("state").data(text))
}

fn state_of(app: &App, name: &RunName) -> Option<(Arc<str>, bool)> {
    let state = app.clerk.state(name)?;
    let text = serde_json::to_string(&state).ok()?;
    Some((text.into(), state.is_over()))
}

fn listen(app: &Arc<App>, desk: &Arc<Desk>, name: &RunName) -> watch::Receiver<Arc<str>> {
    let first = block_in_place(|| state_of(app, name));
    let mut watched = desk.watched.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = watched.get(name) {
        return sender.subscribe();
    }
    let first = first.map_or_else(|| Arc::from("null"), |(text, _)| text);
    let (sender, receiver) = watch::channel(first);
    watched.insert(name.clone(), sender.clone());
    let (app, desk, name) = (Arc::clone(app), Arc::clone(desk), name.clone());
    tokio::spawn(async move {
        loop {
            let looked = block_in_place(|| state_of(&app, &name));
            let over = looked.as_ref().is_none_or(|(_, over)| *over);
            if let Some((text, _)) = looked {
                sender.send_if_modified(|known| {
                    let changed = *known != text;
                    *known = text;
                    changed
                });
            }
            if desk.leave(&name, &sender, over) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    receiver
}
