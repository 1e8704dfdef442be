//! Backoff between attempts: growing pauses with jitter until a deadline.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};

use crate::session::child::poll_for;
use crate::session::line::Line;

pub(crate) struct Backoff {
    deadline: Instant,
    pause: Duration,
    /// Number of failed attempts so far.
    pub(crate) times: u32,
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl Backoff {
    pub(crate) fn until(deadline: Instant) -> Backoff {
        Backoff {
            deadline,
            pause: FIRST_PAUSE,
            times: 0,
        }
    }

    /// Waits before the next attempt. Returns false if the deadline or an abort rules it out.
    pub(crate) fn wait(&mut self, line: &Line) -> bool {
        self.times += 1;
        // The wait is 0.5 to 1.5 times the pause, so that hosts that were dropped together retry at
        // different times.
        let jitter = RandomState::new().build_hasher().finish() % 1000;
        let pause = self.pause.mul_f64(0.5 + jitter as f64 / 1000.0);
        self.pause = (self.pause * 8 / 5).min(LONGEST_PAUSE);
        let until = Instant::now() + pause;
        if until >= self.deadline {
            return false;
        }
        while Instant::now() < until && !line.aborted() {
            let left = until.saturating_duration_since(Instant::now());
            line.silence();
            if line.aborted()
                || poll_for(&mut [PollFd::new(line.bell(), PollFlags::POLLIN)], left).is_err()
            {
                return false;
            }
        }
        !line.aborted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_end_at_the_deadline_and_at_an_abort() {
        let line = Line::new().unwrap();
        let mut backoff = Backoff::until(Instant::now() + Duration::from_secs(100));
        assert!(backoff.wait(&line));
        assert!(backoff.pause > FIRST_PAUSE);
        let mut late = Backoff::until(Instant::now());
        assert!(!late.wait(&line));
        assert_eq!(late.times, 1);
        line.abort();
        assert!(!backoff.wait(&line));
    }
}
