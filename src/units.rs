//! Sizes, durations, dates and rates as people write them, and lists of processors as the kernel does.
//!
//! Sizes count in powers of 1024 (`64K` and `64KiB` are 65,536 bytes; `64KB` is 64,000). Rates are in decimal bits per second. A
//! duration without a unit is in seconds.

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// A text that is no valid size, time or rate. The message shows a valid one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text has no number or an unknown unit.
    #[error("{what} {text:?} is not understood (write {example})")]
    Unknown {
        /// Kind of the value: size, time or rate.
        what: &'static str,
        /// The text as given.
        text: String,
        /// Examples of texts that are understood.
        example: &'static str,
    },
    /// A rate without a unit that is too low to be meant in bit/s.
    #[error("{text}: {text} bit/s? (write {meant}, or {text}bit/s if you mean that)")]
    NoUnit {
        /// The text as given.
        text: String,
        /// The rate that it probably means.
        meant: String,
    },
}

/// Parses a size into bytes: `4096`, `64K`, `256KiB`, `1GiB`, `10MB`.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let error = || fault("size", text, "64K, 256KiB, 1GiB or 4096");
    let (number, unit) = split(text).ok_or_else(error)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(error()),
    };
    scale(number, factor).ok_or_else(error)
}

/// Parses a duration into nanoseconds: `10`, `10s`, `500ms`, `2m`, `24h`.
pub fn parse_duration_ns(text: &str) -> Result<u64, UnitError> {
    let error = || fault("time", text, "10s, 500ms, 2m, 24h or 10");
    let (number, unit) = split(text).ok_or_else(error)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "" | "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(error()),
    };
    scale(number, factor).ok_or_else(error)
}

/// Parses a rate into bits per second: `10G`, `10Gbit/s`, `200M`, `2.5Gbps`. Below 1 Mbit/s a rate needs its unit: with a
/// forgotten unit, it would be a floor that every run passes.
pub fn parse_rate_bits(text: &str) -> Result<u64, UnitError> {
    const LEAST: f64 = 1e6;
    let error = || fault("rate", text, "200M, 10G, 2.5Gbit/s or 1000000");
    let (number, unit) = split(text).ok_or_else(error)?;
    if unit.is_empty() && number < LEAST {
        let text = text.trim().to_owned();
        // 25000 is what the system shows of a port of 25 Gbit/s.
        let meant = match number >= 1000.0 {
            true => format!("{text}M or {}G", number / 1000.0),
            false => format!("{text}G"),
        };
        return Err(UnitError::NoUnit { text, meant });
    }
    // Catalogues write 25Gb and 25GbE. 25GB would be bytes.
    let short = unit.strip_suffix("bE").or_else(|| unit.strip_suffix('b'));
    let unit = short.filter(|rest| !rest.is_empty()).unwrap_or(unit);
    let unit = unit.to_ascii_lowercase();
    let unit = unit
        .trim_end_matches("bit/s")
        .trim_end_matches("bits/s")
        .trim_end_matches("bps");
    let factor: u64 = match unit.trim_end_matches("bit") {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        _ => return Err(error()),
    };
    scale(number, factor).ok_or_else(error)
}

fn fault(what: &'static str, text: &str, example: &'static str) -> UnitError {
    UnitError::Unknown {
        what,
        text: text.to_owned(),
        example,
    }
}

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded just above"
)]
fn scale(number: f64, factor: u64) -> Option<u64> {
    let value = (number * factor as f64).round();
    (value.is_finite() && (0.0..9e18).contains(&value)).then_some(value as u64)
}

/// Formats bytes with a unit: `256 KiB`, `1.5 GiB`.
pub fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value.fract() > 0.05 && value < 100.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Formats nanoseconds with a unit: `10 s`, `500 ms`, `1.25 s`.
pub fn show_ns(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => (ns as f64, "ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let text = format!("{value:.2}");
    format!(
        "{} {unit}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

/// Sum that saturates at the largest number: counters come from other processes and from files.
pub fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Adds `more` to `total`, and saturates as [`sum`] does.
pub fn add(total: &mut u64, more: u64) {
    *total = total.saturating_add(more);
}

/// Rate of `bytes` over `ns` nanoseconds, in decimal gigabits per second; zero if `ns` is zero.
pub fn gbit_per_s(bytes: u64, ns: u64) -> f64 {
    if ns == 0 {
        0.0
    } else {
        bytes as f64 * 8.0 / ns as f64
    }
}

/// Formats milliseconds since 1970 as `YYYY-MM-DD HH:MM:SS`, in UTC.
pub fn show_utc(wall_ms: u64) -> String {
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

/// Formats milliseconds since 1970 as C's `asctime` does, `Mon Nov 23 03:38:47 2026`, in UTC.
pub fn show_asctime(wall_ms: u64) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    // 1970 began on a Thursday.
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let text = show_utc(wall_ms);
    let (date, time) = text.split_once(' ').unwrap_or((&text, ""));
    let parts: Vec<usize> = date
        .split('-')
        .map(|part| part.parse().unwrap_or(1))
        .collect();
    let [year, month, day] = parts[..] else {
        return text;
    };
    let weekday = usize::try_from(wall_ms / 86_400_000 % 7).map_or("", |at| DAYS[at]);
    format!("{weekday} {} {day:2} {time} {year}", MONTHS[month - 1])
}

/// Name of a run and of its folder, such as `pb-20261121-014455-abcdef`: its start in UTC and the first six characters of its token.
pub fn run_name(started_ms: u64, token: &str) -> String {
    let date: String = show_utc(started_ms)
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let (day, time) = date.split_at_checked(8).unwrap_or((&date, ""));
    let token: String = token.chars().take(6).collect();
    format!("pb-{day}-{time}-{token}")
}

/// Formats the start time `began_ms` for a reader at `now_ms`: `10:02 UTC`, with the date if the two are a day or more apart.
pub fn show_since(began_ms: u64, now_ms: u64) -> String {
    const DAY_MS: u64 = 86_400_000;
    let text = show_utc(began_ms);
    let is_near = began_ms.abs_diff(now_ms) < DAY_MS;
    let from = if is_near { "YYYY-MM-DD ".len() } else { 0 };
    let to = text.len() - ":SS".len();
    format!("{} UTC", text.get(from..to).unwrap_or(&text))
}

/// Formats an age in seconds for people: `42 s`, `2 min 5 s`, `3 h 20 min`, `2 d 4 h`.
pub fn show_age(seconds: u64) -> String {
    let (large, small, units) = match seconds {
        0..60 => return format!("{seconds} s"),
        60..3_600 => (seconds / 60, seconds % 60, ("min", "s")),
        3_600..86_400 => (seconds / 3_600, seconds % 3_600 / 60, ("h", "min")),
        _ => (seconds / 86_400, seconds % 86_400 / 3_600, ("d", "h")),
    };
    format!("{large} {} {small} {}", units.0, units.1)
}

/// Formats seconds as microseconds with three significant digits.
pub fn show_us(seconds: f64) -> String {
    let us = seconds * 1e6 + 0.0;
    let digits = match us.abs() {
        large if large >= 99.95 => 0,
        middle if middle >= 9.995 => 1,
        _ => 2,
    };
    format!("{us:.digits$} us")
}

/// Formats a rate for people, with the unit that fits: `84.10 Mbit/s`, `23.50 Gbit/s`.
pub fn show_rate(bits_per_s: f64) -> String {
    let scale = Scale::of(bits_per_s);
    format!("{} {}", scale.show(bits_per_s), scale.unit)
}

/// A share in per cent, rounded down to a tenth, in every sentence and table: 89.96 % is not 90.0 %. The summand makes up for 57 %, which is 56.99… as
/// a binary number.
pub(crate) fn percent(share: f64) -> f64 {
    (share * 1000.0 + 1e-6).floor() / 10.0
}

/// Formats a rate and the one that it is a part of, in the unit of the higher one: `55.40 of 91.60 Mbit/s`.
pub(crate) fn show_part(part: f64, whole: f64) -> String {
    let scale = Scale::of(part.max(whole));
    format!(
        "{} of {} {}",
        scale.show(part),
        scale.show(whole),
        scale.unit
    )
}

/// The unit in which all rates of a table are shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Its name.
    pub unit: &'static str,
    bits_per_s: f64,
}

impl Scale {
    /// The unit that fits the highest rate, in bits per second.
    pub(crate) fn of(most: f64) -> Self {
        let (unit, bits_per_s) = match most {
            most if most >= 1e9 || most == 0.0 => ("Gbit/s", 1e9),
            most if most >= 1e6 => ("Mbit/s", 1e6),
            _ => ("kbit/s", 1e3),
        };
        Self { unit, bits_per_s }
    }

    /// A rate in this unit, without its name.
    pub(crate) fn show(self, bits_per_s: f64) -> String {
        let value = bits_per_s / self.bits_per_s + 0.0; // The sum of no rates is -0.
        format!(
            "{value:.digits$}",
            digits = if value >= 99.95 { 1 } else { 2 }
        )
    }
}

/// Formats a rate as options take it: `10G`, `23.5G`, `200M`.
pub(crate) fn rate_word(bits_per_s: u64) -> String {
    match bits_per_s {
        1_000_000_000.. => format!("{}G", bits_per_s as f64 / 1e9),
        1_000_000.. => format!("{}M", bits_per_s as f64 / 1e6),
        _ => format!("{bits_per_s}bit/s"),
    }
}

/// More processors than a kernel's list names.
const MOST_PROCESSORS: usize = 1024;

/// Parses a list of processors as the kernel writes it, such as `0-3,8`. `None` if the text is not such a list.
pub(crate) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |word: &str| word.trim().parse().ok().filter(|n| *n < MOST_PROCESSORS);
        let (first, last): (usize, usize) = (number(first)?, number(last)?);
        if first > last {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// Formats ascending numbers as such a list: the reverse of [`parse_list`].
pub(crate) fn show_list(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let show = |run: &[usize]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    runs.map(show).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("7"), Some(vec![7]));
        assert_eq!(show_list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(show_list(&[]), "");
        for wrong in ["3-1", "a", "1-", "-1", "99999999"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    /// Symptom: 47.3 % in the headline, and 47.4 % in the table below it.
    #[test]
    fn a_share_is_rounded_down_and_never_up_to_a_floor() {
        let shown = [0.4738, 0.89996, 0.57, 0.9, 1.016].map(percent);
        assert_eq!(shown, [47.3, 89.9, 57.0, 90.0, 101.6]);
    }

    #[test]
    fn a_rate_is_shown_with_the_unit_that_fits() {
        let shown = [0.0, 250_000.0, 84.1e6, 999.96e6, 23.5e9, 1.6e12];
        let expected = [
            "0.00 Gbit/s",
            "250.0 kbit/s",
            "84.10 Mbit/s",
            "1000.0 Mbit/s",
            "23.50 Gbit/s",
            "1600.0 Gbit/s",
        ];
        assert_eq!(shown.map(show_rate), expected);
    }

    #[test]
    fn sizes_rates_and_times_have_the_usual_units() {
        assert_eq!(parse_bytes("64K"), Ok(65_536));
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("10 MB"), Ok(10_000_000));
        assert_eq!(parse_bytes("1.5k"), Ok(1536));
        assert_eq!(parse_duration_ns("500ms"), Ok(500_000_000));
        assert_eq!(parse_duration_ns("10"), Ok(10_000_000_000));
        assert_eq!(parse_duration_ns("24h"), Ok(86_400_000_000_000));
        assert_eq!(parse_rate_bits("2.5Gbit/s"), Ok(2_500_000_000));
        assert_eq!(parse_rate_bits("25Gb"), Ok(25_000_000_000));
        assert_eq!(parse_rate_bits("25GbE"), Ok(25_000_000_000));
        // A floor of 25 bit/s would be one that every run passes.
        for wrong in ["25GB", "25b", "25bE", "25E"] {
            assert!(parse_rate_bits(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_rate_bits("200M"), Ok(200_000_000));
        assert_eq!(parse_rate_bits("10Gbps"), Ok(10_000_000_000));
    }

    #[test]
    fn what_is_not_understood_is_named_with_what_would_be() {
        let text = parse_bytes("64 parsecs").unwrap_err().to_string();
        assert_eq!(
            text,
            "size \"64 parsecs\" is not understood (write 64K, 256KiB, 1GiB or 4096)"
        );
        for bad in ["", "K", "-1", "1e400s", "1..2"] {
            assert!(
                parse_bytes(bad).is_err() && parse_duration_ns(bad).is_err(),
                "{bad}"
            );
        }
        assert!(parse_rate_bits("fast").is_err());
        assert_eq!(
            parse_rate_bits("23.5").unwrap_err().to_string(),
            "23.5: 23.5 bit/s? (write 23.5G, or 23.5bit/s if you mean that)"
        );
        assert_eq!(parse_rate_bits("1000000"), Ok(1_000_000));
        assert_eq!(parse_rate_bits("9600bit/s"), Ok(9_600));
    }

    #[test]
    fn values_are_shown_as_one_would_say_them() {
        assert_eq!(show_bytes(262_144), "256 KiB");
        assert_eq!(show_bytes(1_610_612_736), "1.5 GiB");
        assert_eq!(show_ns(10_000_000_000), "10 s");
        assert_eq!(show_ns(1_250_000_000), "1.25 s");
        assert_eq!(show_ns(300_000), "300 µs");
        assert!((gbit_per_s(1_250_000_000, 1_000_000_000) - 10.0).abs() < 1e-12);
        assert!(gbit_per_s(1, 0).abs() < 1e-12);
        assert_eq!(sum([1, 2].into_iter()), 3);
        assert_eq!(sum([u64::MAX, 2].into_iter()), u64::MAX);
    }

    #[test]
    fn dates_are_civil_dates() {
        assert_eq!(show_utc(0), "1970-01-01 00:00:00");
        assert_eq!(show_utc(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(show_utc(1_795_225_495_000), "2026-11-21 01:44:55");
        assert_eq!(show_asctime(0), "Thu Jan  1 00:00:00 1970");
        // The date of the guide's first sample.
        assert_eq!(show_asctime(1_152_635_026_000), "Tue Jul 11 16:23:46 2006");
    }

    #[test]
    fn a_beginning_has_its_date_when_it_is_not_of_today() {
        let began = 1_795_225_495_000;
        assert_eq!(show_since(began, began + 3_600_000), "01:44 UTC");
        assert_eq!(
            show_since(began, began + 86_400_000),
            "2026-11-21 01:44 UTC"
        );
        assert_eq!(show_age(42), "42 s");
        assert_eq!(show_age(125), "2 min 5 s");
        assert_eq!(show_age(12_000), "3 h 20 min");
        assert_eq!(show_age(187_200), "2 d 4 h");
    }
}
