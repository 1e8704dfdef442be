//! What travels: frames and messages of the control channel, hellos and block headers of links.
//!
//! Control plane (JSON, readable, slow) and data plane (fixed 64-byte headers) share no code path.
//! Decoding never panics, whatever the bytes.

pub mod block;
pub mod frame;
pub mod hello;
pub mod message;
pub mod rank;
