//! Latencies of all pairs of a fabric from a few rounds of measurements: which pairs to measure, when, and what follows from them.
//! Pure arithmetic.
//!
//! A round trip takes as long as the cables on its way there and back, added up: each pair is an equation, and far fewer pairs than
//! there are say all that pairs can say (the PMM method; docs/latency.md). Read in this order: [`fabric`], [`rows`], [`survey`], [`rounds`],
//! [`planning`], [`solve`], [`detect`].

pub mod analysis;
pub mod cover;
pub mod description;
pub mod detect;
pub mod elimination;
pub mod fabric;
pub mod field;
pub mod generate;
pub mod import;
pub mod paper;
pub mod planfile;
pub mod planning;
pub mod pool;
pub mod predict;
mod repair;
pub mod rounds;
pub mod routing;
pub mod rows;
pub mod simulate;
pub mod solve;
pub mod survey;
