//! Ordered values of a run, and the thresholds that count as sufficient.

use serde::{Deserialize, Serialize};

/// Criteria for the verdict of a run. The speeds of ports are in the nodes ([`super::NodeSpec::speed_bits_per_s`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// Share of the expected rate that every port direction must reach.
    pub floor: f64,
    /// Payload rate in bits per second that every port direction must reach where only the port itself limits it. Replaces
    /// [`Criteria::floor`].
    pub min_rate_bits_per_s: Option<u64>,
    /// Largest allowed share of lost segments among those sent without contention.
    pub loss: f64,
    /// Ordered MTU of all data ports, in bytes.
    pub mtu_bytes: Option<u32>,
    /// Bytes that tunnels add to each frame.
    pub overhead_bytes: u32,
    /// Uplinks of groups of ports.
    pub uplinks: Vec<Uplink>,
    /// True if all ports at once must carry what each of them can carry alone: a path that several ports share must not be narrower.
    #[serde(default)]
    pub non_blocking: bool,
    /// True if each port is also compared with ports of the same speed.
    #[serde(default)]
    pub peers: bool,
}

/// Connection of a group of ports to all other ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uplink {
    /// Name of the group, as in host files.
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
