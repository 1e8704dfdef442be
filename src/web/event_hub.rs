//! Event listeners of each run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, watch};

use super::connections::Connections;
use super::run_store::RunName;

/// Maximum number of listeners at the same time.
const MOST_LISTENERS: usize = 64;
/// Maximum number of listeners of one address outside this machine.
const MOST_OF_ADDRESS: usize = 16;

/// A run that is followed, and true if API clients follow it, false for pages.
pub(super) type Followed = (RunName, bool);

/// Event listeners of each run, and their limits.
pub(super) struct EventHub {
    pub(super) seats: Arc<Semaphore>,
    pub(super) connections: Connections,
    pub(super) watched: Mutex<HashMap<Followed, watch::Sender<Arc<str>>>>,
}

impl EventHub {
    /// Creates an event hub without listeners.
    pub(super) fn new() -> Self {
        Self {
            seats: Arc::new(Semaphore::new(MOST_LISTENERS)),
            connections: Connections::new(MOST_OF_ADDRESS),
            watched: Mutex::new(HashMap::new()),
        }
    }

    /// Stops watching a run that is over or has no listeners; returns true if so. One lock covers both steps, so no listener joins in between.
    pub(super) fn leave(
        &self,
        run: &Followed,
        sender: &watch::Sender<Arc<str>>,
        over: bool,
    ) -> bool {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let done = over || sender.receiver_count() == 0;
        if done {
            watched.remove(run);
        }
        done
    }
}
