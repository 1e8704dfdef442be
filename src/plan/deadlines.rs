//! How long each stage of a run may take.

use serde::{Deserialize, Serialize};

/// How long each stage of a run may take, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// Resolving a name.
    pub resolve_ms: u64,
    /// Connecting a session, and a data link.
    pub connect_ms: u64,
    /// Proving who one is.
    pub authenticate_ms: u64,
    /// Copying the executable.
    pub deploy_ms: u64,
    /// From the remote command to its first word.
    pub start_ms: u64,
    /// Fork, memory and sockets of a node.
    pub prepare_ms: u64,
    /// The hello of a link that was accepted.
    pub link_hello_ms: u64,
    /// Silence of a peer after which it counts as lost.
    pub silence_ms: u64,
    /// From the end of the window to the last byte at the sink.
    pub drain_ms: u64,
    /// From the last byte to the results of a node.
    pub collect_ms: u64,
    /// A whole volume run, which has no clock to end it.
    pub volume_ms: u64,
    /// From one measurement of the clocks to the next while a test runs; no deadline, but a time like the others.
    #[serde(default = "one_minute")]
    pub clocks_ms: u64,
    /// All tests and second looks together; no test begins that would end later. None if they may take what they take.
    #[serde(default)]
    pub run_ms: Option<u64>,
}

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
}

/// How often draining is given another deadline's time while bytes move.
pub const DRAINS: u32 = 20;

impl Deadlines {
    /// From the end of the window to the last byte at the sink, with all the time that may be given to it.
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
