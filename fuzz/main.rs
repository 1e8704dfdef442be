//! Fuzzing: hostile bytes into everything that reads what another process, host or user wrote.
//!
//! Each target of `targets/` is a function over bytes with its invariants inside. `driver.rs` runs it on the
//! seeds of `corpus/TARGET` and on what `mutator.rs` makes of them, two seconds each unless told otherwise:
//!
//! ```text
//! PIPEBENCH_FUZZ_SECONDS=600 cargo test --test fuzz -- host_list      longer, with another seed each time
//! PIPEBENCH_FUZZ_REPLAY=fuzz/artifacts/... cargo test --test fuzz -- host_list
//! ```

mod driver;
mod files;
mod mutator;
mod selftest;
mod targets;

/// A test for each target: its name, which is that of its module and of its folder of seeds.
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
