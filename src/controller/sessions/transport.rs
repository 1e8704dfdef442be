//! The way to the nodes: bytes to them, events from them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use launcher::hosts::Host;
use launcher::{Event, Fleet};

use crate::controller::conditions::Conditions;
use crate::controller::heartbeat::{Heartbeat, LOOK_UP};
use crate::wire::frame;
use crate::wire::message::ToNode;

use super::node::NodeSession;

/// A message as it travels.
pub(super) fn framed(message: &ToNode) -> Vec<u8> {
    // Numbers and strings always have a text.
    let text = serde_json::to_vec(message).unwrap_or_default();
    frame::encode(&text)
}

/// The launcher's sessions to all nodes.
pub(super) struct Transport {
    fleet: Arc<Fleet>,
    heartbeat: Heartbeat,
    events: Receiver<(usize, Event)>,
    /// Index of the session for each number in the fleet; `None` for nodes that were left out before the start.
    places: Vec<Option<usize>>,
}

impl Transport {
    /// Starts all nodes.
    pub(super) fn start(hosts: &[Host], conditions: &Conditions) -> Self {
        let (sender, events) = channel();
        let (settings, program) = (conditions.settings.clone(), conditions.program.clone());
        let fleet = Arc::new(launcher::start(hosts, settings, program, sender));
        Self {
            heartbeat: Heartbeat::start(Arc::clone(&fleet), hosts.len()),
            fleet,
            events,
            places: (0..hosts.len()).map(Some).collect(),
        }
    }

    /// Sends a message. A full or closed session shows up later, as silence or as an ended session.
    pub(super) fn send(&self, place: usize, frame: &[u8]) {
        self.fleet.send(place, frame);
    }

    /// Drops the session to a node.
    pub(super) fn abort(&self, place: usize) {
        self.fleet.abort(place);
    }

    /// Numbers the sessions anew, after some were removed.
    pub(super) fn number(&mut self, nodes: &[NodeSession]) {
        self.places.fill(None);
        for (node, session) in nodes.iter().enumerate() {
            self.places[session.place] = Some(node);
        }
    }

    /// The next event and its node; no node for a notice on the start of all of them. Waits for the first event of a turn; a turn is short, so that a node that sends very much does not keep
    /// its reader from other duties.
    pub(super) fn next_event(&self, turn: &mut Option<Instant>) -> Option<(Option<usize>, Event)> {
        loop {
            let (place, event) = match turn {
                None => match self.events.recv_timeout(LOOK_UP) {
                    Ok(next) => next,
                    Err(RecvTimeoutError::Timeout) => return None,
                    Err(RecvTimeoutError::Disconnected) => {
                        std::thread::sleep(LOOK_UP);
                        return None;
                    }
                },
                Some(until) if Instant::now() < *until => self.events.try_recv().ok()?,
                Some(_) => return None,
            };
            turn.get_or_insert_with(|| Instant::now() + LOOK_UP);
            match self.places.get(place) {
                Some(Some(node)) => return Some((Some(*node), event)),
                // The node was left out.
                Some(None) => {}
                None => return Some((None, event)),
            }
        }
    }

    /// Ends all sessions.
    pub(super) fn finish(self, deadline: Duration) {
        self.heartbeat.end();
        if let Some(fleet) = Arc::into_inner(self.fleet) {
            fleet.finish(deadline);
        }
    }
}
