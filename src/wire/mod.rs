//! Formats on the wire: frames and messages of the control channel, hellos and block headers of links.
//!
//! The control plane (JSON, readable, slow) and the data plane (fixed 64-byte headers) share no code path.
//! Decoding never panics, for any bytes.

pub mod block;
pub mod frame;
pub mod hello;
pub mod message;
pub mod rank;

/// The `N` bytes from byte `at` on.
fn bytes_at<const N: usize>(all: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&all[at..at + N]);
    part
}
