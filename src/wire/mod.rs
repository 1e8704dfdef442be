//! Formats on the wire: frames and messages of the control channel, hellos and block headers of links.
//!
//! The control plane (JSON, readable, slow) and the data plane (fixed 64-byte headers) share no code path.
//! Decoding never panics, for any bytes.

pub mod block;
pub mod frame;
pub mod hello;
pub mod message;
pub mod rank;
