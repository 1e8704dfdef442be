//! What is set on data sockets.

use serde::{Deserialize, Serialize};

/// Options of a socket. The system chooses every option that is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketOptions {
    /// Send buffer in bytes (the kernel doubles it).
    pub send_buffer_bytes: Option<usize>,
    /// Receive buffer in bytes (the kernel doubles it; switches autotuning off).
    pub receive_buffer_bytes: Option<usize>,
    /// Largest TCP segment in bytes.
    pub mss_bytes: Option<u32>,
    /// Name of the congestion control.
    pub congestion: Option<String>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
    /// Maximum rate in bits per second of payload and headers: pacing on TCP.
    pub rate_bits_per_s: Option<u64>,
}
