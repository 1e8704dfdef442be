//! Memory shared by the processes of a node: the double buffers with their handshake, and the status segment
//! ([`snapshot`] reads it from an outside process).
//!
//! This module defines the layouts; [`crate::sys::memory`] provides the memory.

pub(crate) mod board;
pub(crate) mod double;
pub(crate) mod handshake;
pub(crate) mod names;
pub(crate) mod snapshot;
