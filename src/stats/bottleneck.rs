//! What held the rate of a link, from where its two ends spent their time.
//!
//! Rates cannot tell: from three phases on a slow link takes its return link down with it. The time of the ends
//! can. A sender that waits for blocks is starved; a receiver that waits for a free slot, or a window that is
//! full, holds the link back. The way itself is the limit only where nothing else explains anything: neither end
//! waits for its node, and TCP has data under way all the time. A busy host looks different: its links wait a
//! little for everything.

use crate::record::HeldBy;

/// From here on a wait explains the rate.
const MOST: f64 = 0.5;
/// Up to here a wait explains nothing.
const LITTLE: f64 = 0.25;
/// Data under way at least this long, where the way is the limit.
const NEARLY_ALL: f64 = 0.8;
/// At least this much of an ordered rate was reached, where the order is the limit.
const REACHED: f64 = 0.9;

/// Where the time of a link went, as shares of its ends' intervals, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shares {
    /// Sender: waiting for a block.
    pub waiting_for_block: f64,
    /// Sender: holding back on purpose.
    pub pacing: f64,
    /// Receiver: waiting for a free slot.
    pub waiting_for_slot: f64,
    /// TCP: the receiver's window was full.
    pub window_limited: f64,
    /// TCP: data under way; none for other sockets and old kernels.
    pub busy: Option<f64>,
    /// Rate as a share of the rate limit of the plan; none without one.
    pub of_rate_limit: Option<f64>,
}

/// Classifies a link.
pub fn classify(shares: &Shares) -> HeldBy {
    let room = shares.waiting_for_slot.max(shares.window_limited);
    if shares.pacing >= MOST || shares.of_rate_limit.is_some_and(|share| share >= REACHED) {
        HeldBy::Paced
    } else if shares.waiting_for_block >= MOST {
        HeldBy::Starved
    } else if room >= MOST {
        HeldBy::HeldBack
    } else if shares.waiting_for_block <= LITTLE
        && room <= LITTLE
        && shares.busy.is_none_or(|share| share >= NEARLY_ALL)
    {
        HeldBy::Limiting
    } else {
        HeldBy::Mixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_names_the_cause() {
        let none = Shares::default();
        let busy = Shares {
            busy: Some(0.99),
            ..none
        };
        assert_eq!(classify(&none), HeldBy::Limiting);
        assert_eq!(classify(&busy), HeldBy::Limiting);
        let cases = [
            (
                Shares {
                    waiting_for_block: 0.7,
                    ..busy
                },
                HeldBy::Starved,
            ),
            (
                Shares {
                    waiting_for_slot: 0.7,
                    ..busy
                },
                HeldBy::HeldBack,
            ),
            (
                Shares {
                    window_limited: 0.7,
                    ..busy
                },
                HeldBy::HeldBack,
            ),
            (
                Shares {
                    pacing: 0.7,
                    ..busy
                },
                HeldBy::Paced,
            ),
            (
                Shares {
                    of_rate_limit: Some(0.97),
                    ..busy
                },
                HeldBy::Paced,
            ),
            (
                Shares {
                    of_rate_limit: Some(0.5),
                    ..busy
                },
                HeldBy::Limiting,
            ),
            // A busy host: a little of everything, or idle connections between blocks.
            (
                Shares {
                    waiting_for_slot: 0.4,
                    ..busy
                },
                HeldBy::Mixed,
            ),
            (
                Shares {
                    busy: Some(0.4),
                    ..none
                },
                HeldBy::Mixed,
            ),
        ];
        for (shares, expected) in cases {
            assert_eq!(classify(&shares), expected, "{shares:?}");
        }
    }
}
