//! Limits per address on what a client holds at the same time: connections and event streams.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::rate_limit::key;

/// Counts the places of each address. Addresses that many clients share have no limit.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    most: usize,
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

/// A place, which is released when dropped.
#[derive(Debug)]
pub(super) struct Place(Option<(Connections, String)>);

impl Connections {
    /// Allows `most` places per address.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            counts: Arc::default(),
        }
    }

    /// Takes a place. `None` when the address has all its places. A client without address or on this machine has no limit: it can be a proxy.
    pub(super) fn enter(&self, from: Option<IpAddr>) -> Option<Place> {
        let from = from.map(|address| address.to_canonical());
        let Some(own) = from.filter(|address| !address.is_loopback()) else {
            return Some(Place(None));
        };
        let own = key(own);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(own.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place(Some((self.clone(), own))))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((connections, own)) = &self.0 else {
            return;
        };
        let counts = connections.counts.lock();
        let mut counts = counts.unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(own) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_places_and_gives_them_back() {
        let connections = Connections::new(2);
        let from = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let one = connections.enter(from("10.0.0.1")).unwrap();
        let two = connections.enter(from("::ffff:10.0.0.1")).unwrap();
        assert!(connections.enter(from("10.0.0.1")).is_none());
        let other = connections.enter(from("10.0.0.2")).unwrap();
        // An IPv6 network is one client, and this machine has no limit.
        let near: Vec<Place> = (0..9)
            .filter_map(|_| connections.enter(from("127.0.0.1")))
            .collect();
        assert_eq!(near.len(), 9);
        let _six = [
            connections.enter(from("fe80::1")),
            connections.enter(from("fe80::2")),
        ];
        assert!(connections.enter(from("fe80::3")).is_none());
        drop(two);
        assert!(connections.enter(from("10.0.0.1")).is_some());
        drop((one, other));
        let left: Vec<String> = connections.counts.lock().unwrap().keys().cloned().collect();
        assert_eq!(left, ["fe80:0:0:0"]);
    }
}
