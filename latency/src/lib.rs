//! Calculates the latencies of all pairs of hosts from a few rounds of measurements: selects the pairs, schedules them in rounds, and evaluates the
//! results. Pure arithmetic.
//!
//! A round trip takes the sum of the latencies of the cables on its way there and back. So each pair is an equation, and a small part of all pairs
//! determines everything that all pairs can determine (the PMM method; docs/latency.md). Read in this order: [`fabric`], [`rows`], [`survey`],
//! [`rounds`], [`planning`], [`solve`], [`detect`].

#![warn(unreachable_pub)]

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
mod wiring;
