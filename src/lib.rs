//! pipebench tests a network switch under full load: ordinary Linux hosts send TCP through every port, in both directions at once.
//!
//! `docs/dev/architecture.md` describes the course of a run, the layers, and where to start for a change.

// Rooms are private, so that the compiler finds what nothing uses; what only the web uses is no mistake without it.
#![cfg_attr(feature = "internals", warn(unreachable_pub))]
#![cfg_attr(not(feature = "web"), allow(dead_code, unused_imports))]

mod buffer;
mod cli;
mod controller;
mod exit;
#[cfg(feature = "internals")]
pub mod internals;
mod jobs;
mod judge;
mod link;
mod node;
mod outside;
mod pipeline;
mod plan;
mod ranks;
mod record;
mod report;
mod stats;
mod store;
mod sys;
mod units;
#[cfg(feature = "web")]
mod web;
mod wire;

pub use cli::{main, node_main};
