//! How many of something somebody has at the same time: connections, and events that are listened to.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::tally::key;

/// Places of each address that is not everybody's.
#[derive(Debug, Clone)]
pub struct Crowd {
    most: usize,
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub struct Place(Option<(Crowd, String)>);

impl Crowd {
    /// So many places for each.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            counts: Arc::default(),
        }
    }

    /// A place; none where an address has enough of them. Whoever is on this machine may be a proxy, and is everybody.
    pub fn enter(&self, from: Option<IpAddr>) -> Option<Place> {
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
        let Some((crowd, own)) = &self.0 else {
            return;
        };
        let mut counts = crowd.counts.lock().unwrap_or_else(PoisonError::into_inner);
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
        let crowd = Crowd::new(2);
        let from = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let one = crowd.enter(from("10.0.0.1")).unwrap();
        let two = crowd.enter(from("::ffff:10.0.0.1")).unwrap();
        assert!(crowd.enter(from("10.0.0.1")).is_none());
        let other = crowd.enter(from("10.0.0.2")).unwrap();
        // A network of its own is one client, and this machine is everybody.
        let near: Vec<Place> = (0..9)
            .filter_map(|_| crowd.enter(from("127.0.0.1")))
            .collect();
        assert_eq!(near.len(), 9);
        let _six = [crowd.enter(from("fe80::1")), crowd.enter(from("fe80::2"))];
        assert!(crowd.enter(from("fe80::3")).is_none());
        drop(two);
        assert!(crowd.enter(from("10.0.0.1")).is_some());
        drop((one, other));
        let left: Vec<String> = crowd.counts.lock().unwrap().keys().cloned().collect();
        assert_eq!(left, ["fe80:0:0:0"]);
    }
}
