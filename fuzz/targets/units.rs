//! Sizes, durations and rates: a value that was read is shown as text that reads as nearly the same value.

use pipebench::internals::units::{
    parse_bytes, parse_duration_ns, parse_rate_bits, show_bytes, show_ns,
};

pub const WORDS: &[&str] = &[
    "K", "KiB", "MiB", "GB", "TiB", "ns", "us", "µs", "ms", "min", "h", "d", "Gbit/s", "bps",
    "bit", ".",
];

pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let mut outcome = String::new();
    match parse_bytes(&text) {
        Ok(bytes) => {
            near(
                bytes,
                0.06,
                &show_bytes(bytes),
                parse_bytes(&show_bytes(bytes)).ok(),
            );
            outcome.push_str(&format!("size of {} ", show_bytes(bytes)));
        }
        Err(error) => outcome.push_str(&error.to_string()),
    }
    match parse_duration_ns(&text) {
        Ok(ns) => {
            near(ns, 0.01, &show_ns(ns), parse_duration_ns(&show_ns(ns)).ok());
            outcome.push_str(&format!("time of {} ", show_ns(ns)));
        }
        Err(error) => outcome.push_str(&error.to_string()),
    }
    match parse_rate_bits(&text) {
        Ok(bits) => outcome.push_str(&format!("rate of {} ", show_bytes(bits))),
        Err(error) => outcome.push_str(&error.to_string()),
    }
    outcome
}

fn near(value: u64, tolerance: f64, shown: &str, again: Option<u64>) {
    const NEAR_THE_LIMIT: u64 = 8_900_000_000_000_000_000;
    if value > NEAR_THE_LIMIT {
        return; // Rounded up, it can be refused.
    }
    let again = again.unwrap_or_else(|| panic!("{value} is shown as {shown:?}, which is refused"));
    let off = (again as f64 - value as f64).abs();
    assert!(
        off <= value as f64 * tolerance,
        "{value} is shown as {shown:?}, read as {again}"
    );
}
