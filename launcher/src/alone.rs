//! Serializes all calls of libssh2 in the process.
//!
//! OpenSSL's Configure takes threads out of a library that is built with `-static`, and a static
//! executable builds it that way. Its shared tables then have no locks, and two handshakes at once
//! corrupt memory (seen as crashes within seconds). So every call that can reach OpenSSL, freeing
//! included, runs under one lock. This costs little, since no call waits for the network under it:
//! sessions do not block, and [`others_meanwhile`] lets others in while an agent signs (`agent.rs`).

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// True while a call is made.
static BUSY: Mutex<bool> = Mutex::new(false);
static FREE: Condvar = Condvar::new();

/// Runs `act` under the process-wide lock of libssh2.
pub(crate) fn alone<R>(act: impl FnOnce() -> R) -> R {
    enter();
    let _leaves = OnDrop(leave);
    act()
}

/// Runs `act` without the lock, which a call of another thread holds. That call must wait for this
/// thread until this function has returned, outside of OpenSSL.
pub(crate) fn others_meanwhile<R>(act: impl FnOnce() -> R) -> R {
    leave();
    let _enters = OnDrop(enter);
    act()
}

fn enter() {
    let free = FREE.wait_while(busy(), |busy| *busy);
    *free.unwrap_or_else(PoisonError::into_inner) = true;
}

fn leave() {
    *busy() = false;
    FREE.notify_one();
}

fn busy() -> MutexGuard<'static, bool> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call when it is dropped, even by a panic.
struct OnDrop(fn());

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A libssh2 object that is freed under the lock of libssh2.
pub(crate) struct FreedAlone<T>(Option<T>);

impl<T> FreedAlone<T> {
    pub(crate) fn new(inner: T) -> FreedAlone<T> {
        FreedAlone(Some(inner))
    }
}

impl<T> Deref for FreedAlone<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("only dropping empties it")
    }
}

impl<T> DerefMut for FreedAlone<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only dropping empties it")
    }
}

impl<T> Drop for FreedAlone<T> {
    fn drop(&mut self) {
        alone(|| self.0 = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn nobody_is_inside_at_the_same_time() {
        let inside = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let inside = Arc::clone(&inside);
                std::thread::spawn(move || {
                    for _ in 0..200 {
                        alone(|| {
                            assert!(!inside.swap(true, Ordering::SeqCst));
                            std::thread::yield_now();
                            inside.store(false, Ordering::SeqCst);
                        });
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn what_is_held_is_freed() {
        let held = Arc::new(());
        let mut freed_alone = FreedAlone::new(Arc::clone(&held));
        assert_eq!(Arc::strong_count(&freed_alone), 2);
        *freed_alone = Arc::clone(&held);
        drop(freed_alone);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
