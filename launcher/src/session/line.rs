//! The owner's side of a session: a queue of bytes to send, and a bell that wakes the session's
//! thread.
//!
//! Never blocks the owner. Read next: `drive.rs`, the other side.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Limit of the bytes queued for one host.
const MAX_QUEUED_BYTES: usize = 64 << 20;

pub(crate) struct Line {
    state: Mutex<State>,
    ended: Condvar,
    bell: EventFd,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    hung_up: bool,
    aborted: bool,
    ended: bool,
}

impl Line {
    pub(crate) fn new() -> io::Result<Line> {
        let bell =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Line {
            state: Mutex::default(),
            ended: Condvar::new(),
            bell,
        })
    }

    /// Queues bytes. Returns false if the line is closed or the queue has no room for them.
    pub(crate) fn send(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        let room = MAX_QUEUED_BYTES - state.queued_bytes;
        if state.hung_up || state.aborted || state.ended || bytes.len() > room {
            return false;
        }
        if !bytes.is_empty() {
            state.queued_bytes += bytes.len();
            state.queue.push_back(bytes.to_vec());
            drop(state);
            self.ring();
        }
        true
    }

    /// Accepts no more bytes. The program's input closes once the queue is sent.
    pub(crate) fn hang_up(&self) {
        self.lock().hung_up = true;
        self.ring();
    }

    /// Makes the session end at once.
    pub(crate) fn abort(&self) {
        self.lock().aborted = true;
        self.ring();
    }

    pub(crate) fn aborted(&self) -> bool {
        self.lock().aborted
    }

    /// True once the input must close: the owner hung up and the queue is empty.
    pub(crate) fn drained_and_hung_up(&self) -> bool {
        let state = self.lock();
        state.hung_up && state.queue.is_empty()
    }

    /// Takes the next bytes to send.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        let bytes = state.queue.pop_front()?;
        state.queued_bytes -= bytes.len();
        Some(bytes)
    }

    /// Marks the session as over and drops the queue.
    pub(crate) fn set_ended(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.queue.clear();
        state.queued_bytes = 0;
        drop(state);
        self.ended.notify_all();
    }

    /// Waits for the end of the session. Returns false if it is not over by `until`.
    pub(crate) fn wait_for_end(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let waits = |state: &mut State| !state.ended;
        let waited = self.ended.wait_timeout_while(self.lock(), left, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    /// The doorbell: an event descriptor that the session's thread polls with its own descriptors.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Clears the bell. The caller reads the state afterwards, so no ring is lost.
    pub(crate) fn silence(&self) {
        // The descriptor never blocks: an error only means that the bell has not rung.
        self.bell.read().ok();
    }

    /// Wakes the session's thread.
    pub(crate) fn ring(&self) {
        // A full counter means that a ring is pending already.
        self.bell.write(1).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bytes_come_out_in_order_and_the_end_is_final() {
        let line = Line::new().unwrap();
        assert!(line.send(b"a") && line.send(b"") && line.send(b"b"));
        line.hang_up();
        assert!(!line.send(b"c") && !line.drained_and_hung_up());
        assert_eq!(
            (line.take(), line.take(), line.take()),
            (Some(b"a".into()), Some(b"b".into()), None)
        );
        assert!(line.drained_and_hung_up() && !line.wait_for_end(Instant::now()));
        line.set_ended();
        assert!(line.wait_for_end(Instant::now() + Duration::from_secs(1)));
    }

    #[test]
    fn the_queue_is_bounded() {
        let line = Line::new().unwrap();
        let half = vec![0; MAX_QUEUED_BYTES / 2];
        assert!(line.send(&half) && line.send(&half) && !line.send(b"x"));
        line.take();
        assert!(line.send(b"x"));
    }
}
