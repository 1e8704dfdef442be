//! Finds what limited the rate of a link, from how its two ends spent their time.
//!
//! Rates cannot tell: with three phases or more, a slow link also slows its return link. The time of the ends can tell. A sender that waits
//! for blocks is starved. A receiver that waits for a free slot, or a full TCP window, holds the link back. The path is the limit only if
//! nothing else explains the rate: neither end waits for its node, and TCP has data under way all the time. A busy host looks different: its
//! links wait a little for everything.

use crate::record::HeldBy;

/// A wait of at least this share explains the rate.
const MOST: f64 = 0.5;
/// A wait of at most this share explains nothing.
const LITTLE: f64 = 0.25;
/// Smallest share of time with data under way at which the path can be the limit.
const NEARLY_ALL: f64 = 0.8;
/// Smallest reached share of the plan's rate limit at which that limit explains the rate.
const REACHED: f64 = 0.9;

/// Shares of a link's time, each from 0 to 1 of the interval of its end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shares {
    /// Sender: waiting for a block.
    pub waiting_for_block: f64,
    /// Sender: holding back on purpose.
    pub pacing: f64,
    /// Receiver: waiting for a free slot.
    pub waiting_for_slot: f64,
    /// TCP: the receiver's window was full.
    pub window_limited: f64,
    /// TCP: data under way; `None` for other sockets and old kernels.
    pub busy: Option<f64>,
    /// Rate as a share of the rate limit of the plan; `None` without a limit.
    pub of_rate_limit: Option<f64>,
}

/// Classifies a link by what held its rate.
pub(crate) fn classify(shares: &Shares) -> HeldBy {
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
