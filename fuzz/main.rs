//! Fuzzing: feeds hostile bytes to every reader of data that another process, host or user wrote.
//!
//! Each target of `targets/` is a function over bytes that checks its invariants. `driver.rs` runs it on the
//! seeds of `corpus/TARGET` and on the inputs that `mutator.rs` makes of them, two seconds each by default:
//!
//! ```text
//! PIPEBENCH_FUZZ_SECONDS=600 cargo test --test fuzz -- host_list      longer, with another seed each time
//! PIPEBENCH_FUZZ_REPLAY=fuzz/artifacts/... cargo test --test fuzz -- host_list
//! ```

mod driver;
mod files;
mod large;
mod mutator;
mod selftest;
mod targets;

/// Defines a test for each target. Its name is the name of its module and of its folder of seeds.
macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                driver::test(stringify!($name), targets::$name::run, targets::$name::WORDS);
            }
        )*
    };
}

targets! {
    dialogue
    fabric
    frames
    host_file
    host_list
    known_hosts
    link
    linktest_file
    messages
    outside
    plan
    record
    reports
    ssh_config
    units
}
