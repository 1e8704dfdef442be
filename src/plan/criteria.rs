//! What was ordered, and what is enough of it.

use serde::{Deserialize, Serialize};

/// What a run is judged by. Speeds of ports stand with the nodes ([`super::NodeSpec::speed_bits_per_s`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// Share of the expected rate that every port direction must reach.
    pub floor: f64,
    /// Payload that every port direction must reach where nothing but itself limits it, in bits per second; in place of
    /// [`Criteria::floor`].
    pub min_rate_bits_per_s: Option<u64>,
    /// Segments that may be lost, of those sent without contention.
    pub loss: f64,
    /// MTU of all data ports, as ordered.
    pub mtu_bytes: Option<u32>,
    /// What tunnels add to each frame.
    pub overhead_bytes: u32,
    /// Uplinks of groups of ports.
    pub uplinks: Vec<Uplink>,
    /// All ports at once must carry what each of them can: nothing that several of them share may be narrower.
    #[serde(default)]
    pub non_blocking: bool,
    /// Ports are judged by those like them, too.
    #[serde(default)]
    pub peers: bool,
}

/// What joins a group of ports to all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uplink {
    /// Name of the group, as host files have it.
    pub group: String,
    /// Speed in each direction, in bits per second.
    pub bits_per_s: u64,
}

impl Default for Criteria {
    fn default() -> Self {
        Self {
            floor: 0.9,
            min_rate_bits_per_s: None,
            loss: 1e-5,
            mtu_bytes: None,
            overhead_bytes: 0,
            uplinks: Vec::new(),
            non_blocking: false,
            peers: false,
        }
    }
}
