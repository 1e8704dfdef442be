//! Plan of a link test.

use serde::{Deserialize, Serialize};

use super::ranks::Ranks;

/// A link test: messages between all pairs of ranks, many pairs at the same time or one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Linktest {
    /// The ranks that measure.
    pub ranks: Ranks,
    /// Message pattern of a pair.
    pub kernel: Kernel,
    /// Number of timed messages.
    pub messages: usize,
    /// Number of untimed messages before them.
    pub warmups: usize,
    /// Length of a message in bytes.
    pub message_bytes: usize,
    /// True if only one pair measures at a time.
    pub serial: bool,
    /// True if only pairs between the two halves of the ranks are measured.
    pub bisection: bool,
    /// True if the test also measures all to all at the same time, in addition to the pairs.
    pub all_to_all: bool,
    /// Seed of a random order of the steps; `None` for the natural order.
    pub step_seed: Option<u64>,
    /// Number of random orders of the ranks. Each one gets a full measurement. 0 for the natural order only.
    pub rank_orders: u64,
    /// Seed of these orders.
    pub rank_seed: u64,
    /// Number of buffers that messages use in turn.
    pub buffers: usize,
    /// True if buffers have random contents.
    pub random_contents: bool,
    /// Seed of the contents.
    pub content_seed: u64,
    /// True if received contents are compared with the sent ones after each measurement.
    pub check: bool,
    /// Number of slowest links that are measured again, one by one.
    pub slowest: usize,
    /// Least number of full measurements.
    pub min_iterations: u64,
    /// Full measurements repeat until this time has passed, in nanoseconds.
    pub min_runtime_ns: u64,
}

impl Linktest {
    /// Number of steps of one pass over all pairs.
    pub fn step_count(&self, ranks: usize) -> usize {
        match (self.serial, self.bisection) {
            (true, true) => (ranks / 2).saturating_mul(ranks.div_ceil(2)),
            (true, false) => ranks.saturating_mul(ranks.saturating_sub(1)) / 2,
            (false, true) => ranks.div_ceil(2),
            (false, false) => ranks.saturating_sub(ranks.wrapping_add(1) % 2),
        }
    }

    /// Bytes of message buffers that a rank needs.
    pub fn bytes_per_rank(&self, ranks: usize) -> usize {
        let partners = if self.all_to_all { ranks } else { 1 };
        let kept = self.buffers.saturating_add(partners).saturating_sub(1);
        self.message_bytes.saturating_mul(2).saturating_mul(kept)
    }
}

/// Message pattern of a pair. The formulas are those of LinkTest's documentation: n is the number of messages, S their size in bytes, t0 and
/// t1 are the clock of the starting rank before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// A message is bounced n times: t = (t1 - t0) / 2n, bandwidth S / t.
    Semidirectional,
    /// Both sides bounce a message at the same time: t = (t1 - t0) / 2n, bandwidth 2S / t.
    Bidirectional,
    /// n messages go one way, and a receipt comes back: t = (t1 - t0) / n, bandwidth S / t.
    Unidirectional,
}

impl Kernel {
    /// Name as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Semidirectional => "semidirectional",
            Self::Bidirectional => "bidirectional",
            Self::Unidirectional => "unidirectional",
        }
    }

    /// Seconds per message, from the nanoseconds that `messages` messages took.
    pub fn seconds(self, ns: u64, messages: usize) -> f64 {
        let halves = match self {
            Self::Semidirectional | Self::Bidirectional => 2.0,
            Self::Unidirectional => 1.0,
        };
        // A single division of exact numbers, so the last digit is right.
        ns as f64 / (1e9 * halves * messages as f64)
    }

    /// Bytes per second, from the seconds per message.
    pub fn bandwidth(self, bytes: usize, seconds: f64) -> f64 {
        let ways = match self {
            Self::Bidirectional => 2.0,
            Self::Semidirectional | Self::Unidirectional => 1.0,
        };
        ways * bytes as f64 / seconds
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::ranks::{RankOrder, tests::ranks};

    pub(crate) fn linktest() -> Linktest {
        Linktest {
            ranks: ranks(1, RankOrder::Block),
            kernel: Kernel::Semidirectional,
            messages: 10,
            warmups: 2,
            message_bytes: 1024,
            serial: false,
            bisection: false,
            all_to_all: false,
            step_seed: None,
            rank_orders: 0,
            rank_seed: 1,
            buffers: 1,
            random_contents: false,
            content_seed: 1,
            check: false,
            slowest: 0,
            min_iterations: 1,
            min_runtime_ns: 0,
        }
    }

    #[test]
    fn formulas_are_those_of_the_documentation() {
        // 25 messages of 1 MiB bounced in 50 ms: 1 ms each way.
        let seconds = Kernel::Semidirectional.seconds(50_000_000, 25);
        assert_eq!(seconds, 0.001);
        assert_eq!(
            Kernel::Semidirectional.bandwidth(1 << 20, seconds),
            1_048_576_000.0
        );
        assert_eq!(Kernel::Bidirectional.seconds(50_000_000, 25), 0.001);
        assert_eq!(
            Kernel::Bidirectional.bandwidth(1 << 20, seconds),
            2_097_152_000.0
        );
        assert_eq!(Kernel::Unidirectional.seconds(50_000_000, 25), 0.002);
        assert_eq!(
            Kernel::Unidirectional.bandwidth(1 << 20, 0.002),
            524_288_000.0
        );
    }
}
