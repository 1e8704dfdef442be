//! Turns arguments into a plan, and refuses arguments that do not go together.

mod acceptance;
mod checks;
mod criteria;
mod error;
pub mod imb;
pub mod latency;
mod launch;
pub mod linktest;
mod nodes;
mod patterns;
mod profile;
mod sockets;
mod spec;
mod values;

pub use acceptance::parse;
pub use checks::check_launch;
pub use error::UsageError;
pub use launch::{deadlines_of, settings};
pub use nodes::{host_lines, hosts_of, nodes_of};
pub use spec::RunSpec;
