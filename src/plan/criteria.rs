//! Specified values of a run, and the thresholds of its verdict.

use serde::{Deserialize, Serialize};

use crate::units::rate_word;

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
    /// Specified MTU of all data ports, in bytes.
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

/// A criterion in words, for everything that shows criteria.
pub(crate) struct Said {
    /// Option that sets it, without dashes.
    pub option: &'static str,
    /// Value as that option takes it.
    pub value: String,
    /// Name and text among the conditions of test; `None` for the floor, which the judge says.
    pub condition: Option<(&'static str, String)>,
    /// Its lines in the seal; empty if it is in the seal's first line.
    pub sealed: Vec<String>,
}

impl Criteria {
    /// The criteria in effect. All fields are named here, so that a new one does not compile until it is said.
    pub(crate) fn said(&self) -> Vec<Said> {
        let Self {
            floor,
            min_rate_bits_per_s,
            loss: _, // No option sets it; the seal's first line and the judge say it.
            mtu_bytes,
            overhead_bytes,
            uplinks,
            non_blocking,
            peers,
        } = self;
        let each = |of: &dyn Fn(&Uplink) -> String| uplinks.iter().map(of).collect::<Vec<_>>();
        let floor = match peers {
            true => "peers".to_owned(),
            false => format!("{}%", (floor * 1e6).round() / 1e4),
        };
        let said = [
            mtu_bytes.map(|mtu| Said {
                option: "mtu",
                value: mtu.to_string(),
                condition: Some(("MTU", format!("{mtu} as specified"))),
                sealed: Vec::new(),
            }),
            (*overhead_bytes > 0).then(|| Said {
                option: "overhead-bytes",
                value: overhead_bytes.to_string(),
                condition: Some((
                    "tunnel",
                    format!("adds {overhead_bytes} bytes to each frame"),
                )),
                sealed: Vec::new(),
            }),
            min_rate_bits_per_s.map(|rate| Said {
                option: "min-rate",
                value: rate_word(rate),
                condition: None,
                sealed: Vec::new(),
            }),
            (!uplinks.is_empty()).then(|| Said {
                option: "uplink",
                value: each(&|one| format!("{}={}", one.group, rate_word(one.bits_per_s)))
                    .join(","),
                condition: Some((
                    "uplinks",
                    each(&|one| format!("{} {} Gbit/s", one.group, one.bits_per_s as f64 / 1e9))
                        .join(", "),
                )),
                sealed: each(&|one| format!("uplink {} {}", one.group, one.bits_per_s)),
            }),
            non_blocking.then(|| Said {
                option: "fabric",
                value: "non-blocking".to_owned(),
                condition: Some(("fabric", "non-blocking as specified".to_owned())),
                sealed: vec!["fabric non-blocking".to_owned()],
            }),
            min_rate_bits_per_s.is_none().then(|| Said {
                option: "floor",
                sealed: Vec::from_iter(peers.then(|| "floor peers".to_owned())),
                value: floor,
                condition: None,
            }),
        ];
        said.into_iter().flatten().collect()
    }
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
