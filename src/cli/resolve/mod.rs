//! Turns arguments into a plan, and refuses arguments that do not go together.

mod acceptance;
mod benchmarks;
mod checks;
mod criteria;
mod engine;
mod error;
pub(super) mod imb;
pub(super) mod latency;
mod launch;
pub(super) mod linktest;
mod nodes;
mod patterns;
mod profile;
mod sockets;
mod spec;
mod values;

pub(super) use acceptance::parse;
pub(super) use checks::{check_launch, has_files};
pub(super) use engine::{Engine, check_step};
pub(crate) use error::UsageError;
pub(super) use launch::{connect_time, deadlines_of, settings};
pub(super) use nodes::{host_lines, hosts_of, nodes_of};
pub(crate) use spec::RunSpec;
pub(super) use values::time;
