//! Whole runs between hosts of a lab: network namespaces with a real sshd each, on cables and switches with rates, delays and faults. Each file
//! is an area: `cargo test --test labs truth::` runs one. One program has them all, so that there is always something to run beside a long test.

#[path = "../lab/mod.rs"]
mod lab;
#[path = "../tries/mod.rs"]
mod tries;

mod check;
mod faults;
mod keep_going;
mod kubectl;
mod latency;
mod links;
mod linktest;
mod neighbours;
mod patterns;
mod pipeline;
mod rails;
mod retest;
mod selftest;
mod slurm;
mod starters;
mod status;
mod switch_ports;
mod truth;
mod verify;
