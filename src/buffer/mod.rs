//! Memory shared by the processes of a node: the double buffers with their handshake, and the status segment
//! ([`snapshot`] reads it from an outside process).
//!
//! This module defines the layouts; [`crate::sys::memory`] provides the memory.

pub mod board;
pub mod double;
pub mod handshake;
pub mod names;
pub mod snapshot;
