//! Time limits of the stages of a run.

use serde::{Deserialize, Serialize};

/// Time limit of each stage of a run, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// Resolution of a name.
    pub resolve_ms: u64,
    /// Connection of a session or of a data link.
    pub connect_ms: u64,
    /// Authentication.
    pub authenticate_ms: u64,
    /// Copy of the executable.
    pub deploy_ms: u64,
    /// Time from the remote command to its first message.
    pub start_ms: u64,
    /// Preparation of a node: forks, memory and sockets.
    pub prepare_ms: u64,
    /// Arrival of the hello on an accepted link.
    pub link_hello_ms: u64,
    /// Silence of a peer after which it counts as lost.
    pub silence_ms: u64,
    /// Time from the end of the window to the last byte at the sink.
    pub drain_ms: u64,
    /// Time from the last byte to a node's results.
    pub collect_ms: u64,
    /// Whole volume run, which has no clock to end it.
    pub volume_ms: u64,
    /// Interval between clock measurements while a test runs. Not a deadline, but kept with them.
    #[serde(default = "one_minute")]
    pub clocks_ms: u64,
    /// All tests and repeated measurements together. A test does not begin if it would end later. `None` means no limit.
    #[serde(default)]
    pub run_ms: Option<u64>,
}

/// Maximum number of times that draining gets another [`Deadlines::drain_ms`] because bytes still move.
pub const DRAINS: u32 = 20;

fn one_minute() -> u64 {
    60_000
}

impl Deadlines {
    pub(super) fn longest_ms(&self) -> u64 {
        let all = [
            self.resolve_ms,
            self.connect_ms,
            self.authenticate_ms,
            self.deploy_ms,
            self.start_ms,
            self.prepare_ms,
            self.link_hello_ms,
            self.silence_ms,
            self.drain_ms,
            self.collect_ms,
            self.volume_ms,
            self.clocks_ms,
        ];
        all.into_iter().max().unwrap_or(0)
    }

    /// Maximum time from the end of the window to the last byte at the sink, all extensions included.
    pub fn longest_drain_ms(&self) -> u64 {
        self.drain_ms.saturating_mul(u64::from(DRAINS) + 1)
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            resolve_ms: 5_000,
            connect_ms: 10_000,
            authenticate_ms: 20_000,
            deploy_ms: 120_000,
            start_ms: 20_000,
            prepare_ms: 30_000,
            link_hello_ms: 2_000,
            silence_ms: 10_000,
            drain_ms: 30_000,
            collect_ms: 10_000,
            volume_ms: 86_400_000,
            clocks_ms: one_minute(),
            run_ms: None,
        }
    }
}
