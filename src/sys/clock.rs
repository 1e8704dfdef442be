//! The clocks. Measuring uses the monotonic clock only; the wall clock dates records.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds of `CLOCK_MONOTONIC`: comparable between processes of one host, never between hosts.
pub fn monotonic_ns() -> u64 {
    let mut now = nix::libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec for the call to fill in; the clock id is a constant the kernel knows.
    let result = unsafe { nix::libc::clock_gettime(nix::libc::CLOCK_MONOTONIC, &raw mut now) };
    debug_assert_eq!(result, 0);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Milliseconds since 1970, for dating a record.
pub fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        .unwrap_or(0)
}

/// Sleeps until the monotonic clock shows `at_ns`; returns at once if it is past.
pub fn sleep_until(at_ns: u64) {
    let now = monotonic_ns();
    if at_ns > now {
        std::thread::sleep(Duration::from_nanos(at_ns - now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let first = monotonic_ns();
        sleep_until(first + 1_000_000);
        assert!(monotonic_ns() >= first + 1_000_000);
    }
}
