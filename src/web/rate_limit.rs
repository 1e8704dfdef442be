//! Counters per client and minute, for wrong tokens and starts. A server keeps them in memory. A CGI program lives for one request and keeps them in
//! a file.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::outside;
use crate::store::{self, bounded};

/// Maximum number of clients counted separately within a minute. All others share one counter.
const MOST_KEYS: usize = 4096;
const MINUTE_MS: u64 = 60_000;

/// Counters of one minute.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Counts {
    minute: u64,
    by_key: BTreeMap<String, u32>,
}

impl Counts {
    /// Clears the counters if they belong to another minute.
    fn within(&mut self, minute: u64) -> &mut Self {
        if self.minute != minute {
            self.minute = minute;
            self.by_key.clear();
        }
        self
    }

    /// The counter of a key, created if missing.
    fn of(&mut self, key: String) -> &mut u32 {
        let is_room = self.by_key.len() < MOST_KEYS || self.by_key.contains_key(&key);
        self.by_key
            .entry(if is_room { key } else { String::new() })
            .or_default()
    }
}

/// Counts attempts and reports when a client makes too many.
#[derive(Debug)]
pub(super) struct RateLimit {
    most: u32,
    /// File of the counters, which is locked while it changes.
    file: Option<PathBuf>,
    /// Counters without a file.
    counts: Mutex<Counts>,
}

impl RateLimit {
    /// Allows `most` attempts per minute. Counts in `file`, or in memory without one.
    pub(super) fn new(most: u32, file: Option<PathBuf>) -> Self {
        let counts = Mutex::default();
        Self { most, file, counts }
    }

    /// Counts an attempt. Returns false if it exceeds the limit.
    pub(super) fn count(&self, from: IpAddr, now_ms: u64) -> bool {
        let add = |counts: &mut Counts| {
            let count = counts.within(now_ms / MINUTE_MS).of(key(from));
            *count = count.saturating_add(1);
            *count <= self.most
        };
        match &self.file {
            // A failing disk must not lock clients out.
            Some(path) => kept(path, add).unwrap_or(true),
            None => add(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

fn kept(path: &Path, act: impl FnOnce(&mut Counts) -> bool) -> io::Result<bool> {
    let mut file = store::open_private(path)?;
    file.lock()?;
    let text = io::read_to_string((&file).take(bounded::TEXT_BYTES))?;
    let mut counts: Counts = outside::read(text.as_bytes()).unwrap_or_default();
    let answer = act(&mut counts);
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(serde_json::to_string(&counts)?.as_bytes())?;
    Ok(answer)
}

/// Time until the next minute, when a client can try again, in seconds.
pub(super) fn wait_s(now_ms: u64) -> u64 {
    (MINUTE_MS - now_ms % MINUTE_MS).div_ceil(1000)
}

/// Key of a client. An IPv6 client owns a whole /64 network, so the key has only the first 64 bits.
pub(super) fn key(from: IpAddr) -> String {
    match from {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect_counts(rate_limit: &RateLimit) {
        let [one, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        assert!(rate_limit.count(one, 0) && rate_limit.count(one, 1000));
        assert!(!rate_limit.count(one, 2000));
        assert!(rate_limit.count(other, 2000), "another address has its own");
        assert!(rate_limit.count(one, MINUTE_MS));
        let [near, far]: [IpAddr; 2] = ["fe80::1", "fe80::2"].map(|text| text.parse().unwrap());
        assert!(rate_limit.count(near, 0) && rate_limit.count(far, 0));
        assert!(!rate_limit.count(near, 0), "one network is one client");
    }

    #[test]
    fn tries_of_a_minute_are_counted_in_memory_and_in_a_file() {
        expect_counts(&RateLimit::new(2, None));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rate_limit");
        expect_counts(&RateLimit::new(2, Some(path.clone())));
        // Another process continues with the file. Content that cannot be parsed counts as empty.
        std::fs::write(&path, "x").unwrap();
        expect_counts(&RateLimit::new(2, Some(path)));
    }

    /// Symptom: a client that was refused did not learn when to try again.
    #[test]
    fn a_refused_client_can_try_again_after_the_time_that_it_is_given() {
        assert_eq!(
            [wait_s(0), wait_s(500), wait_s(59_001), wait_s(60_000)],
            [60, 60, 1, 60]
        );
        let rate_limit = RateLimit::new(1, None);
        let from = "10.0.0.1".parse().unwrap();
        let now_ms = 75_250;
        assert!(rate_limit.count(from, now_ms) && !rate_limit.count(from, now_ms));
        assert!(rate_limit.count(from, now_ms + 1000 * wait_s(now_ms)));
    }

    #[test]
    fn where_nothing_can_be_counted_nobody_is_locked_out() {
        let rate_limit = RateLimit::new(0, Some(PathBuf::from("/no/such/folder/rate_limit")));
        let from = "10.0.0.1".parse().unwrap();
        assert!(rate_limit.count(from, 0));
    }

    #[test]
    fn however_many_addresses_there_are_the_room_is_bounded() {
        let mut counts = Counts::default();
        for number in 0..10_000_u32 {
            *counts.within(1).of(number.to_string()) += 1;
        }
        assert!(counts.by_key.len() <= MOST_KEYS + 1);
    }
}
