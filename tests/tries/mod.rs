//! Repeated attempts, for results that a machine that stalls for a moment can spoil: figures of a run, and conclusions from them. All other
//! properties are asserted once, in the attempt. Failed attempts go into a list that `tests/run` shows at the end: a growing list is a defect.

use std::fs::File;
use std::io::Write;

/// Makes an attempt up to three times, until one succeeds. A wrong product fails all three.
#[track_caller]
pub fn of_three<T>(attempt: impl Fn() -> Result<T, String>) -> T {
    let mut failures = Vec::new();
    for number in 1..=3 {
        match attempt() {
            Ok(done) => return done,
            Err(failure) => {
                note(number, &failure);
                failures.push(failure);
            }
        }
    }
    panic!("three attempts failed:\n{}", failures.join("\n"));
}

/// Ends an attempt if a condition that the machine can spoil does not hold.
macro_rules! should {
    ($holds:expr, $($words:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use should;

fn note(number: usize, failure: &str) {
    let words: Vec<&str> = failure.split_whitespace().collect();
    let first: String = words.join(" ").chars().take(600).collect();
    let thread = std::thread::current();
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/attempts");
    let mut list = File::options()
        .create(true)
        .append(true)
        .open(path)
        .expect("a list of attempts");
    let test = thread.name().unwrap_or_default();
    writeln!(list, "{test}: attempt {number} of 3: {first}").expect("noted");
}
