//! Turns arguments into a plan, and refuses arguments that do not go together.

mod acceptance;
mod checks;
mod criteria;
mod error;
mod launch;
mod nodes;
mod patterns;
mod profile;
mod sockets;
mod spec;
mod values;

pub use acceptance::parse;
pub use checks::{check_launch, check_sockets, is_one_machine};
pub use criteria::criteria_of;
pub use error::UsageError;
pub use launch::{deadlines_of, settings};
pub use nodes::{host_lines, hosts_of, nodes_of};
pub use sockets::{network_of, ports_of, sockets_of};
pub use spec::RunSpec;
pub use values::{order_of, wait_of};
