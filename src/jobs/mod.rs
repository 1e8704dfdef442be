//! Jobs of ranks: each has a schedule, which is pure, and a kernel, which runs in the ranks.
//!
//! Duty: which ranks measure together and when, and what is timed. Jobs know neither nodes nor processes, and give their measurements to
//! their caller. Read next: [`linktest`], [`imb`].

pub(crate) mod imb;
pub(crate) mod linktest;
pub(crate) mod timing;
