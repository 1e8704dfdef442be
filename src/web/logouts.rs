//! Sessions that were logged out before they expired: a copy of their cookie is rejected. They are in a file of the site, so that a restarted server
//! and a CGI program know them.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

use crate::outside;
use crate::store::{self, bounded};

/// Expiry times of logged-out sessions, in seconds since 1970, by session nonce.
type Ended = BTreeMap<String, u64>;

/// Maximum number of entries. People make fewer, so above it the entries that expire first are removed.
const MOST: usize = 10_000;

/// The sessions that were logged out, in this file.
#[derive(Debug)]
pub(super) struct Logouts(pub PathBuf);

impl Logouts {
    /// Ends a session that would last until `until_s`, and tells whether it was still open. Times are in seconds since 1970.
    pub(super) fn end(&self, session: &str, until_s: u64, now_s: u64) -> io::Result<bool> {
        // The file is replaced, so that a full disk leaves the old one whole; its lock is a file beside it.
        let lock = store::open_private(&self.0.with_extension("lock"))?;
        lock.lock()?;
        let mut ended = self.read()?;
        ended.retain(|_, until_s| *until_s > now_s);
        let was_open = ended.insert(session.to_owned(), until_s).is_none();
        while ended.len() > MOST {
            let first = ended.iter().min_by_key(|(_, until_s)| **until_s);
            let Some(first) = first.map(|(session, _)| session.clone()) else {
                break;
            };
            ended.remove(&first);
        }
        store::replace_private(&self.0, &serde_json::to_string(&ended)?)?;
        Ok(was_open)
    }

    /// True if a session was ended. If the file exists but cannot be read, every session counts as ended.
    pub(super) fn has(&self, session: &str) -> bool {
        self.read()
            .map_or(true, |ended| ended.contains_key(session))
    }

    fn read(&self) -> io::Result<Ended> {
        match bounded::open(&self.0) {
            Ok(file) => {
                let text = io::read_to_string(file.take(bounded::TEXT_BYTES))?;
                Ok(outside::read(text.as_bytes())?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ended::new()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_was_ended_stays_so_until_its_time_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("logouts");
        let logouts = Logouts(file.clone());
        assert!(!logouts.has("a"));
        logouts.end("a", 100, 10).unwrap();
        logouts.end("b", 200, 20).unwrap();
        let again = Logouts(file.clone());
        assert!(again.has("a") && again.has("b") && !again.has("c"));
        again.end("c", 300, 150).unwrap();
        assert!(!again.has("a") && again.has("b"));
        std::fs::write(file, "{").unwrap();
        assert!(again.has("x"), "what cannot be read opens nothing");
    }
}
