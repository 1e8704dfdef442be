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

/// Local time of day as `YYYY-MM-DD HH:MM:SS`, from milliseconds since 1970, in UTC.
pub fn utc_text(wall_ms: u64) -> String {
    let seconds = wall_ms / 1000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Civil date from a day count: Howard Hinnant, "chrono-compatible low-level date algorithms".
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil_dates() {
        assert_eq!(utc_text(0), "1970-01-01 00:00:00");
        assert_eq!(utc_text(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(utc_text(1_795_225_495_000), "2026-11-21 01:44:55");
    }

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let first = monotonic_ns();
        sleep_until(first + 1_000_000);
        assert!(monotonic_ns() >= first + 1_000_000);
    }
}
