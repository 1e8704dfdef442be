//! Waiting of a rank. A sleep costs 30 to 50 µs per half trip (facts of the data path), so a rank spins while processors are free. Where
//! ranks outnumber processors it yields, since the rank it waits for needs the processor. After a long wait it sleeps, so that idle ranks
//! take no time from those that are measured.

use crate::plan::ranks::Wait;
use crate::sys::clock;

/// Decides what a rank does while nothing moves.
#[derive(Debug, Clone)]
pub(crate) struct WaitStrategy {
    crowded: bool,
    /// True if the rank sleeps at once.
    sleeps: bool,
    /// Turns in which nothing moved.
    turns: u32,
    /// Time when the rank first saw that nothing moves, in nanoseconds; 0 if it has not seen this yet.
    since_ns: u64,
    /// Total time in which nothing moved since this rank began, in nanoseconds.
    pub(super) waited_ns: u64,
    /// Latest estimate of a turn without a byte, in nanoseconds. The time of a wait of a few turns is calculated from it, since reading the
    /// clock in each turn would cost as much as what is measured.
    turn_ns: u64,
}

/// Next action of a waiting rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Look again at once.
    Look,
    /// Look again, and check for connections and deadlines too.
    LookAround,
    /// Sleep until something moves.
    Sleep,
}

/// Initial estimate: a turn without a byte is a system call that finds nothing.
const USUAL_TURN_NS: u64 = 1_000;
const LEAST_TURN_NS: u64 = 50;
/// Turns between two clock reads.
const TURNS: u32 = 32;
/// Limit for spinning without a byte. Spinning for longer is a waste: a sleep of 50 µs is a fortieth of it.
const SPIN_NS: u64 = 2_000_000;
/// The same limit where other processes want the processor.
const CROWDED_NS: u64 = 200_000;

impl WaitStrategy {
    /// Settings for one of `ranks` ranks on a host with `processors` processors for them; `wait` is the user's choice.
    pub(crate) fn new(wait: Wait, ranks: usize, processors: usize) -> Self {
        Self {
            crowded: match wait {
                Wait::Auto => ranks > processors,
                Wait::Spin => false,
                Wait::Yield | Wait::Sleep => true,
            },
            sleeps: wait == Wait::Sleep,
            turns: 0,
            since_ns: 0,
            waited_ns: 0,
            turn_ns: USUAL_TURN_NS,
        }
    }

    /// Records that something moved.
    pub(crate) fn moved(&mut self) {
        self.waited_ns += match self.since_ns {
            0 => u64::from(self.turns) * self.turn_ns,
            _ => self.idle_ns(),
        };
        self.turns = 0;
        self.since_ns = 0;
    }

    /// Records a turn in which nothing moved, and returns the next action.
    pub(crate) fn nothing(&mut self) -> Next {
        self.turns = self.turns.wrapping_add(1);
        if self.sleeps {
            if self.since_ns == 0 {
                self.since_ns = clock::monotonic_ns();
            }
            return Next::Sleep;
        }
        if self.crowded {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        let often = if self.crowded { TURNS / 8 } else { TURNS };
        if !self.turns.is_multiple_of(often) {
            return Next::Look;
        }
        let now = clock::monotonic_ns();
        if self.since_ns == 0 {
            self.since_ns = now.saturating_sub(u64::from(self.turns) * self.turn_ns);
        } else {
            // A turn during which other processes had the processor is not a typical one.
            let turn_ns = (now - self.since_ns) / u64::from(self.turns.max(1));
            self.turn_ns = self.turn_ns.min(turn_ns).max(LEAST_TURN_NS);
        }
        let limit = if self.crowded { CROWDED_NS } else { SPIN_NS };
        if now - self.since_ns >= limit {
            Next::Sleep
        } else {
            Next::LookAround
        }
    }

    /// Time without progress in the current wait, in nanoseconds; 0 during its first turns.
    pub(crate) fn idle_ns(&self) -> u64 {
        match self.since_ns {
            0 => 0,
            since => clock::monotonic_ns().saturating_sub(since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_spins_then_looks_around_then_sleeps_and_starts_anew_when_something_moves() {
        for (ranks, processors) in [(2, 4), (8, 4)] {
            let mut waiting = WaitStrategy::new(Wait::Auto, ranks, processors);
            assert_eq!(waiting.nothing(), Next::Look);
            let mut seen = Vec::new();
            while seen.last() != Some(&Next::Sleep) {
                seen.push(waiting.nothing());
            }
            assert!(seen.contains(&Next::LookAround));
            assert!(waiting.idle_ns() > 0);
            waiting.moved();
            assert_eq!(waiting.idle_ns(), 0);
            assert!(waiting.waited_ns >= CROWDED_NS);
            assert_eq!(waiting.nothing(), Next::Look);
        }
        let mut sleeper = WaitStrategy::new(Wait::Sleep, 1, 4);
        assert_eq!(sleeper.nothing(), Next::Sleep);
    }
}
