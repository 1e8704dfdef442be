//! Large answers. A slow client keeps its answer in memory for a long time, so the total size of all answers being sent is limited.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum total size of all answers being sent, in KiB.
const MOST_KIB: usize = 512 << 10;
/// Maximum size of one frame, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Memory budget of the answers being sent.
#[derive(Clone)]
pub(super) struct Sending(Arc<Semaphore>);

impl Sending {
    /// Creates a budget of which nothing is used.
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MOST_KIB)))
    }

    /// Makes a body of this text. `None` when the budget has no room for it now.
    pub(super) fn body(&self, text: String) -> Option<Body> {
        let kib = u32::try_from(text.len().div_ceil(1024)).ok()?;
        let room = Arc::clone(&self.0).try_acquire_many_owned(kib).ok()?;
        Some(Body::new(Held {
            rest: text.into(),
            _room: room,
        }))
    }
}

/// A body with its part of the budget, which is released once the body is sent or its client is gone.
struct Held {
    rest: Bytes,
    _room: OwnedSemaphorePermit,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_nobody_takes_keeps_its_room_and_no_more_is_begun_than_there_is_room_for() {
        let sending = Sending::new();
        let large = || "x".repeat(200 << 20);
        let first = sending.body(large()).expect("there is room");
        let second = sending.body(large()).expect("there is room");
        assert!(sending.body(large()).is_none());
        let small = sending.body("x".to_owned()).expect("there is room");
        let bytes = axum::body::to_bytes(small, 10).await.expect("read");
        assert_eq!(bytes, "x");
        drop(first);
        let third = axum::body::to_bytes(sending.body(large()).expect("room again"), usize::MAX);
        assert_eq!(third.await.expect("read").len(), 200 << 20);
        drop(second);
    }
}
