//! The bounded fan-out: limits how many hosts are between resolve and up at once.
//!
//! Does not start sessions; read next `fleet.rs`.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A counting semaphore that can be shut.
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: usize,
    shut: bool,
}

/// One place inside the gate. Dropping it admits the next host.
pub(crate) struct Place(Arc<Gate>);

impl Gate {
    pub(crate) fn new(places: usize) -> Arc<Gate> {
        let state = State {
            free: places.max(1),
            shut: false,
        };
        Arc::new(Gate {
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// Waits for a place. Returns `None` once the gate is shut or `given_up` returns true. Every
    /// [`Gate::look`] makes it call `given_up` again.
    pub(crate) fn enter(self: &Arc<Gate>, given_up: impl Fn() -> bool) -> Option<Place> {
        // The wait is bounded: every host inside leaves by its own deadlines, and `shut` wakes all.
        let waits = |state: &mut State| state.free == 0 && !state.shut && !given_up();
        let waited = self.changed.wait_while(self.lock(), waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.shut || given_up() {
            return None;
        }
        state.free -= 1;
        Some(Place(Arc::clone(self)))
    }

    /// Wakes all waiters, so that each calls `given_up` again.
    pub(crate) fn look(&self) {
        // The lock orders this after a waiter that has already called `given_up` and is about to sleep.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Admits no more hosts.
    pub(crate) fn shut(&self) {
        self.lock().shut = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().free += 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn never_more_than_the_places_are_inside() {
        let gate = Gate::new(3);
        let inside = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let (gate, inside, most) =
                    (Arc::clone(&gate), Arc::clone(&inside), Arc::clone(&most));
                std::thread::spawn(move || {
                    let place = gate.enter(|| false);
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(place);
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
    }

    #[test]
    fn a_shut_gate_lets_nobody_in() {
        let gate = Gate::new(0);
        let place = gate.enter(|| false);
        assert!(place.is_some(), "zero places count as one");
        let waiting = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || gate.enter(|| false).is_none())
        };
        gate.shut();
        assert!(waiting.join().unwrap());
    }
}
