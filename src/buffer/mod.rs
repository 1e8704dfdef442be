//! What the processes of a node share: the double buffers with their handshake, and the status segment
//! ([`snapshot`] is how an outside process sees it).
//!
//! Layouts have their names here; the memory itself is [`crate::sys::memory`]'s.

pub mod board;
pub mod double;
pub mod handshake;
pub mod snapshot;
