//! pipebench loads every port of a switch at once from ordinary hosts over ordinary sockets.
//!
//! `docs/architecture.md` describes the course of a run, the layers, and where to start for a change.

pub mod buffer;
pub mod cli;
pub mod controller;
pub mod exit;
pub mod jobs;
pub mod judge;
pub mod link;
pub mod node;
pub mod outside;
pub mod pipeline;
pub mod plan;
pub mod ranks;
pub mod record;
pub mod report;
pub mod stats;
pub mod store;
pub mod sys;
pub mod units;
#[cfg(feature = "web")]
pub mod web;
pub mod wire;
