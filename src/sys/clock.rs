//! The clocks. Measurements use the monotonic clock only; the wall clock dates records.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: comparable between processes of one host, never between hosts.
pub(crate) fn monotonic_ns() -> u64 {
    // The kernel knows this clock, so the call cannot fail.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(TimeSpec::new(0, 0));
    now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs()
}

/// Milliseconds since 1970, for dating a record.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Sleeps until the monotonic clock shows `at_ns`; returns at once if that time is past.
pub(crate) fn sleep_until(at_ns: u64) {
    let now = monotonic_ns();
    if at_ns > now {
        std::thread::sleep(Duration::from_nanos(at_ns - now));
    }
}

/// Time without arrivals, counted only while this process looked. A suspended machine or a stopped process does not look, and
/// finds the arrivals of that time only when it runs again.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdleTimer {
    quiet_ns: u64,
    looked_ns: Option<u64>,
}

impl IdleTimer {
    /// Records an arrival, which ends the idle.
    pub(crate) fn broken(&mut self) {
        *self = Self::default();
    }

    /// Records that nothing has come until `now_ns`. Returns the length of the idle in nanoseconds. Call it more than once a
    /// second: a longer gap counts as one second.
    pub(crate) fn goes_on(&mut self, now_ns: u64) -> u64 {
        const LONGEST_LOOK_NS: u64 = 1_000_000_000;
        let looked = self.looked_ns.replace(now_ns).unwrap_or(now_ns);
        let since = now_ns.saturating_sub(looked);
        self.quiet_ns += since.min(LONGEST_LOOK_NS);
        self.quiet_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lull_counts_what_was_looked_at_and_ends_with_news() {
        const MS: u64 = 1_000_000;
        let mut idle = IdleTimer::default();
        assert_eq!(idle.goes_on(5 * MS), 0);
        assert_eq!(idle.goes_on(505 * MS), 500 * MS);
        assert_eq!(idle.goes_on(905 * MS), 900 * MS);
        // An hour without a look counts as one look: one second.
        assert_eq!(idle.goes_on(3_600_905 * MS), 1900 * MS);
        idle.broken();
        assert_eq!(idle.goes_on(3_601_000 * MS), 0);
        assert_eq!(idle.goes_on(3_601_100 * MS), 100 * MS);
        // A clock that goes back adds nothing.
        assert_eq!(idle.goes_on(1), 100 * MS);
    }

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let first = monotonic_ns();
        sleep_until(first + 1_000_000);
        assert!(monotonic_ns() >= first + 1_000_000);
    }
}
