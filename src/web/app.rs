//! State that all routes share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::event_hub::EventHub;
use super::guard::Guard;
use super::queue::Queue;
use super::sending::Sending;

/// State that all routes share.
pub(super) struct App {
    /// Accepts requests and finds runs.
    pub queue: Queue,
    /// Decides who can do what.
    pub guard: Guard,
    /// Event listeners. `None` in a CGI program, which lives for one request.
    pub event_hub: Option<Arc<EventHub>>,
    /// Prefix of every path.
    pub base: String,
    /// Limits how many records are read and written at the same time.
    pub heavy: Semaphore,
    /// Limits the total size of large answers being sent.
    pub sending: Sending,
}

/// Maximum number of documents made at the same time.
pub(super) const MOST_HEAVY: usize = 4;
