//! What a session tells its owner.
//!
//! Every host's stream ends with exactly one [`Event::Ended`] or [`Event::Failed`]. Read next:
//! `session/drive.rs`, where most of these are made.

use std::net::IpAddr;
use std::sync::Arc;

use crate::error::{LaunchError, Stage};

/// One thing that happened on one host's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A stage begins.
    Stage(Stage),
    /// One line that the user should see: another transport was chosen, a check is off.
    Notice(String),
    /// The magic word was seen; bytes may flow.
    Up {
        /// `ssh2`, `openssh`, `rsh` or `local`.
        transport: String,
        /// The address the session reached, where it is known.
        address: Option<IpAddr>,
        /// What was printed before the magic word, bounded.
        noise: String,
    },
    /// Bytes of the program's standard output after the magic word.
    Bytes(Vec<u8>, Ticket),
    /// A line of the program's standard error, or of the command that carries the session.
    Complaint(String, Ticket),
    /// The program had come up and is gone; neither status nor signal means that the connection was
    /// lost or aborted.
    Ended {
        /// The exit status, if it ended by itself.
        status: Option<i32>,
        /// The signal's name without `SIG`, if it was killed.
        signal: Option<String>,
    },
    /// The program never came up.
    Failed(LaunchError),
}

/// Held by an event until its owner has dealt with it: a host that says more than that has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket(Arc<()>);

/// Tickets of one host.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Arc<()>);

impl Tickets {
    /// Events of one host that its owner has not dealt with; each has at most 64 KiB.
    const MOST: usize = 16;

    pub(crate) fn next(&self) -> Ticket {
        Ticket(Arc::clone(&self.0))
    }

    /// Whether the owner is so far behind that nothing more should be read.
    pub(crate) fn are_out(&self) -> bool {
        Arc::strong_count(&self.0) > Self::MOST
    }
}
