//! For what a machine that stands still for a moment can spoil: figures of a run, and what is concluded from them. Everything else is
//! asserted once. Attempts that failed stand in a list that `tests/run` shows in the end: one that grows is a defect.

use std::any::Any;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Makes an attempt up to three times, until one goes well. A product that is wrong fails all three.
pub fn of_three<T>(attempt: impl Fn() -> T) -> T {
    for number in 1..3 {
        match catch_unwind(AssertUnwindSafe(&attempt)) {
            Ok(done) => return done,
            Err(failure) => note(number, &*failure),
        }
    }
    catch_unwind(AssertUnwindSafe(&attempt)).unwrap_or_else(|failure| resume_unwind(failure))
}

fn note(number: usize, failure: &(dyn Any + Send)) {
    let text = failure.downcast_ref::<String>().map(String::as_str);
    let text = text.or(failure.downcast_ref::<&str>().copied());
    let first = text.unwrap_or("?").lines().next().unwrap_or_default();
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let first: String = first.chars().take(200).collect();
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/attempts");
    let mut list = File::options()
        .create(true)
        .append(true)
        .open(path)
        .expect("a list of attempts");
    writeln!(list, "{test}: attempt {number} of 3: {first}").expect("noted");
}
