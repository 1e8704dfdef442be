//! What ranks do: each job has a schedule, which is pure, and a kernel, which runs in the ranks.
//!
//! Duty: who measures with whom and when, and what is timed. Jobs know neither nodes nor processes, and what they measure goes to
//! whoever runs them. Read next: [`linktest`], [`imb`].

pub mod imb;
pub mod linktest;
pub mod timing;
