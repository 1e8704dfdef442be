//! The lab: many hosts and a switch on one machine, for tests.
//!
//! Duty: it provides hosts n1..nN and a launching host n0 on one bridge. Each has its own network, files, processes, name
//! and sshd. It can run commands there, slow, cut and kill hosts, and find leftover processes and
//! files. It knows nothing about the program under test. It needs root, iproute2 and an
//! OpenSSH server, and panics with the reason if one is missing.
//!
//! No namespace has a name, and no interface lies outside the lab's own namespaces. The first
//! process of each host ends when its standard input ends. That happens when the test's process ends,
//! in any way, and the kernel then ends all processes of that host.
//!
//! Read next: `raise.rs` (life cycle of a lab), `host.sh` (setup of a host), `running.rs`
//! (commands), `network.rs` (slow, cut, kill), `census.rs` (remaining processes and files).
#![allow(
    dead_code,
    unused_imports,
    reason = "each test file uses its own part of the lab"
)]

mod census;
mod network;
mod raise;
mod running;

pub use census::Process;
pub use network::Throttle;
pub use raise::{Lab, LabOptions, build_folder};
pub use running::{Finished, Running, wait_until};
