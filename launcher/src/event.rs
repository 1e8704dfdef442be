//! Events that a session sends to its owner.
//!
//! Every host's stream ends with exactly one [`Event::Ended`] or [`Event::Failed`]. Read next:
//! `session/drive.rs`, which makes most of the events.

use std::net::IpAddr;
use std::sync::Arc;

use crate::error::{LaunchError, Stage};

/// One event of one host's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A stage begins.
    Stage(Stage),
    /// One line for the user, for example: another transport was chosen, a check is off.
    Notice(String),
    /// The magic word was seen; bytes can flow.
    Up {
        /// `ssh2`, `openssh`, `rsh`, `join` or `local`.
        transport: String,
        /// The address that the session reached, if known.
        address: Option<IpAddr>,
        /// Text printed before the magic word; its length is bounded.
        noise: String,
    },
    /// Bytes of the program's standard output after the magic word.
    Bytes(Vec<u8>, Ticket),
    /// A line of the program's standard error, or of the command that carries the session.
    Complaint(String, Ticket),
    /// The program had come up and has ended. If both fields are `None`, the connection was lost or
    /// aborted.
    Ended {
        /// The exit status, if the program exited.
        status: Option<i32>,
        /// The signal's name without `SIG`, if a signal killed the program.
        signal: Option<String>,
    },
    /// The program never came up.
    Failed(LaunchError),
}

/// Flow control: an event holds a ticket until its owner has handled it. A host with too many
/// tickets out has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket(Arc<()>);

/// Tickets of one host.
#[derive(Debug)]
pub(crate) struct Tickets {
    out: Arc<()>,
    most: usize,
}

impl Tickets {
    /// Tickets of one of `hosts` hosts. Each of its events that the owner has not handled has at most 16 KiB;
    /// many hosts have fewer of them each, so that those of all hosts stay below 16 MiB, or two for each host.
    pub(crate) fn among(hosts: usize) -> Tickets {
        const ALL: usize = 1024;
        const MOST: usize = 16;
        Tickets {
            out: Arc::default(),
            most: (ALL / hosts.max(1)).clamp(2, MOST),
        }
    }

    pub(crate) fn next(&self) -> Ticket {
        Ticket(Arc::clone(&self.out))
    }

    /// True once the owner lags so far that the session must stop reading.
    pub(crate) fn are_out(&self) -> bool {
        Arc::strong_count(&self.out) > self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen unread events of each of a thousand hosts were a gigabyte.
    #[test]
    fn events_of_a_thousand_hosts_that_nobody_handles_do_not_fill_the_memory() {
        let unread = |hosts: usize| {
            let tickets = Tickets::among(hosts);
            let mut held = Vec::new();
            while !tickets.are_out() {
                held.push(tickets.next());
            }
            held.len()
        };
        assert_eq!(
            [unread(1), unread(64), unread(256), unread(1000)],
            [16, 16, 4, 2]
        );
    }
}
