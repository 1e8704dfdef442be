//! One run per host: tests that run the program on this machine take turns, both as threads of one process
//! and as separate processes.

use std::cell::OnceCell;
use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

thread_local! {
    static TURN: OnceCell<File> = const { OnceCell::new() };
}

/// Waits for this test's turn, which lasts until its thread ends. Waiting makes a test slow, never wrong.
pub fn wait() {
    TURN.with(|turn| {
        turn.get_or_init(take);
    });
}

fn take() -> File {
    let path = std::env::temp_dir().join("pipebench-tests.lock");
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .expect("a lock file");
    let until = Instant::now() + Duration::from_secs(1200);
    while let Err(error) = file.try_lock() {
        assert!(matches!(error, TryLockError::WouldBlock), "{error}");
        assert!(
            Instant::now() < until,
            "another test has had its turn for 20 min"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    file
}
