//! The Intel MPI Benchmarks' patterns, without MPI: messages between processes.
//!
//! Read next: [`pattern`] for one repetition of each benchmark, [`Player`] for a rank's part in a table, [`contents`] for what stands in buffers
//! and what should arrive; `plan/imb.rs` has the rules.

pub mod contents;
pub mod figures;
mod pattern;
mod player;

pub use player::Player;
