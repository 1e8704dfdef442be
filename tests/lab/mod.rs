//! The lab: many hosts and a switch on one machine, for tests.
//!
//! Duty: hosts n1..nN and a launching host n0, each with its own network, files, processes, name
//! and sshd, on one bridge; ways to run commands there, to slow, cut and kill, and to look for what
//! was left behind. It knows nothing of the program under test. It needs root, iproute2 and an
//! OpenSSH server, and says so.
//!
//! No namespace has a name and no interface lies outside the lab's own namespaces: the first
//! process of each host ends when its standard input does, that is when the test's process is gone,
//! however it went, and the kernel then ends everything of that host.
//!
//! Where to read next: `raise.rs` (a lab's life), `host.sh` (what a host is made of), `running.rs`
//! (commands), `network.rs` (slow, cut, kill), `census.rs` (processes and files left).
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
