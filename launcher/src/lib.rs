//! Starts one program on many hosts and keeps a session to each of them.
//!
//! Duty: host lists ([`hosts`]), sessions, bounded fan-out, deployment of the executable where it
//! is missing, and a deadline for every step. A session runs over SSH, over any remote-shell
//! command, on this machine, or over a connection that the host's node makes ([`join`](mod@join)). The caller
//! receives a stream of [`Event`]s per host and sends bytes to the program's standard input.
//!
//! Not done here: the program's protocol (after the magic word the launcher carries bytes and never
//! reads them), heartbeats, and anything about the program's purpose.
//!
//! Read next: [`start`] and [`Fleet`] (`fleet.rs`) for the life of a session, `attempt.rs` for the
//! choice of a transport, `session/dialogue.rs` for the exchange before the magic word, `deploy.rs`
//! for the script that runs on the host.

#![warn(unreachable_pub)]
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod hosts;
#[doc(hidden)]
pub mod inside;
pub mod join;

mod agent;
mod alone;
mod attempt;
mod auth;
mod backoff;
mod base64;
mod command;
mod config;
mod connect;
mod deploy;
mod error;
mod event;
mod fleet;
mod gate;
mod known;
mod pace;
mod plan;
mod program;
mod question;
mod resolve;
mod secrets;
mod secure;
mod session;
mod settings;

pub use deploy::FROM;
pub use error::{LaunchError, Stage, steers};
pub use event::{Event, Ticket};
pub use fleet::{Descriptors, Fleet, allow_descriptors, start};
pub use program::{Program, ProgramError, digest_of, own_digest};
pub use settings::{Ask, Deadlines, Family, Settings};
