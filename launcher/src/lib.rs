//! Starts one program on many hosts and keeps a line to each of them.
//!
//! Duty: host lists ([`hosts`]), sessions over SSH, over any remote-shell command or on this
//! machine, bounded fan-out, deployment of the own executable where it is missing, and a deadline
//! for every step. What comes out is a stream of [`Event`]s per host; what goes in are bytes for
//! the program's standard input.
//!
//! Not done here: the program's protocol (bytes are carried, never read, once the magic word has
//! been seen), heartbeats, and anything about what the program is for.
//!
//! Where to read next: [`start`] and [`Fleet`] (`fleet.rs`) for the life of a session, `attempt.rs`
//! for the choice of a transport, `session/dialogue.rs` for what is said on the line before the
//! magic word, `deploy.rs` for the script that the other side runs.

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod hosts;
#[doc(hidden)]
pub mod inside;

mod alone;
mod attempt;
mod auth;
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
mod patience;
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
pub use fleet::{Fleet, start};
pub use program::{Program, ProgramError, digest_of, own_digest};
pub use settings::{Ask, Deadlines, Family, Settings};
