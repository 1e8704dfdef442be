//! What held the rate of a link, from where its two ends spent their time.
//!
//! Rates cannot tell: from three phases on a slow link takes its return link down with it. The time of the ends
//! can. A sender that waits for blocks is starved; a receiver that waits for a free slot, or a window that is
//! full, holds the link back; otherwise the way itself is the limit.

use crate::record::{HeldBy, Waits};

/// Share of the interval from which on a wait explains the rate.
const MOST: f64 = 0.5;

/// Classifies a link from the waits of its ends and the time the receive window held the sender back.
pub fn classify(waits: &Waits, window_limited_ns: u64, interval_ns: u64) -> HeldBy {
    if interval_ns == 0 {
        return HeldBy::Unknown;
    }
    let share = |ns: u64| ns as f64 / interval_ns as f64;
    if share(waits.pacing_ns) >= MOST {
        HeldBy::Paced
    } else if share(waits.waiting_for_block_ns) >= MOST {
        HeldBy::Starved
    } else if share(waits.waiting_for_slot_ns).max(share(window_limited_ns)) >= MOST {
        HeldBy::HeldBack
    } else {
        HeldBy::Limiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_names_the_cause() {
        let none = Waits::default();
        assert_eq!(classify(&none, 0, 0), HeldBy::Unknown);
        assert_eq!(classify(&none, 0, 100), HeldBy::Limiting);
        assert_eq!(classify(&none, 60, 100), HeldBy::HeldBack);
        assert_eq!(
            classify(
                &Waits {
                    waiting_for_block_ns: 70,
                    ..none
                },
                0,
                100
            ),
            HeldBy::Starved
        );
        assert_eq!(
            classify(
                &Waits {
                    waiting_for_slot_ns: 70,
                    ..none
                },
                0,
                100
            ),
            HeldBy::HeldBack
        );
        assert_eq!(
            classify(
                &Waits {
                    pacing_ns: 70,
                    ..none
                },
                0,
                100
            ),
            HeldBy::Paced
        );
        assert_eq!(
            classify(
                &Waits {
                    in_write_ns: 99,
                    ..none
                },
                10,
                100
            ),
            HeldBy::Limiting
        );
    }
}
