//! The operating system, and the only home of `unsafe`.
//!
//! Duty: fork, signals, waiting, sockets, memory regions as safe types, clock, usage and host facts.
//! It knows nothing of phases, links or plans. Read next: [`process`] for the order of birth,
//! [`memory`] for what may be shared between processes.
#![expect(unsafe_code, reason = "this module is the gate to the operating system; every block is argued")]

pub mod clock;
pub mod facts;
pub mod memory;
pub mod process;
pub mod signals;
pub mod socket;
pub mod usage;
