//! How a rank waits. To sleep costs 30 to 50 µs per half trip (facts of the data path), so while processors are free a rank
//! spins; where ranks outnumber processors it yields, since whoever it waits for needs the processor; and who has waited
//! long sleeps, so that ranks that have nothing to do steal no time from those that are measured.

use crate::plan::job::Wait;
use crate::sys::{clock, process};

/// What a rank does while nothing moves.
#[derive(Debug, Clone)]
pub struct Patience {
    crowded: bool,
    /// Sleeps at once.
    sleeps: bool,
    /// Turns in which nothing moved.
    turns: u32,
    /// When it was seen first that nothing moves; zero for not yet.
    since_ns: u64,
    /// How long nothing has moved, all such times together.
    waited_ns: u64,
    /// How long a turn without a byte takes, as seen last. A wait of a few turns is reckoned by it, since to look at the clock at each
    /// of them would cost what is to be measured.
    turn_ns: u64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Look again at once.
    Look,
    /// Look again, and at newcomers and deadlines, too.
    LookAround,
    /// Sleep until something moves.
    Sleep,
}

/// A turn without a byte is a system call that finds nothing.
const USUAL_TURN_NS: u64 = 1_000;
const LEAST_TURN_NS: u64 = 50;
/// Turns between two looks at the clock.
const TURNS: u32 = 32;
/// Spinning for longer than this without a byte is a waste: a sleep of 50 µs is a fortieth of it.
const SPIN_NS: u64 = 2_000_000;
/// The same where others want the processor.
const CROWDED_NS: u64 = 200_000;

impl Patience {
    /// For one of `ranks` ranks on a host, with so many processors for them, and what it is asked to do.
    pub fn new(wait: Wait, ranks: usize, processors: usize) -> Self {
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

    /// Something moved.
    pub fn moved(&mut self) {
        self.waited_ns += match self.since_ns {
            0 => u64::from(self.turns) * self.turn_ns,
            _ => self.idle_ns(),
        };
        self.turns = 0;
        self.since_ns = 0;
    }

    /// How long nothing has moved since this rank began, in nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns
    }

    /// Nothing has moved in this turn.
    pub fn nothing(&mut self) -> Next {
        self.turns = self.turns.wrapping_add(1);
        if self.sleeps {
            if self.since_ns == 0 {
                self.since_ns = clock::monotonic_ns();
            }
            return Next::Sleep;
        }
        if self.crowded {
            process::yield_now();
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
            // A turn in which others had the processor is no usual one.
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

    /// How long nothing has moved, in nanoseconds.
    pub fn idle_ns(&self) -> u64 {
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
            let mut patience = Patience::new(Wait::Auto, ranks, processors);
            assert_eq!(patience.nothing(), Next::Look);
            let mut seen = Vec::new();
            while seen.last() != Some(&Next::Sleep) {
                seen.push(patience.nothing());
            }
            assert!(seen.contains(&Next::LookAround));
            assert!(patience.idle_ns() > 0);
            patience.moved();
            assert_eq!(patience.idle_ns(), 0);
            assert!(patience.waited_ns() >= CROWDED_NS);
            assert_eq!(patience.nothing(), Next::Look);
        }
        let mut sleeper = Patience::new(Wait::Sleep, 1, 4);
        assert_eq!(sleeper.nothing(), Next::Sleep);
    }
}
