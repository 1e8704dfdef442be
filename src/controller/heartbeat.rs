//! Heartbeats from the launching side to the nodes. `node/mod.rs` defines what a node does without them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use launcher::Fleet;

use crate::wire::frame;
use crate::wire::message::ToNode;

const HEARTBEAT: Duration = Duration::from_secs(1);
/// Longest pause between two checks for events.
pub(super) const LOOK_UP: Duration = Duration::from_millis(50);

/// Sends a heartbeat each second from a separate thread: a blocked terminal must not make the nodes believe that the
/// launching side is gone.
pub(super) struct Heartbeat {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Heartbeat {
    /// Starts the heartbeats to all `nodes` nodes of a fleet.
    pub(super) fn start(fleet: Arc<Fleet>, nodes: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let beat = serde_json::to_vec(&ToNode::Alive).map(|text| frame::encode(&text));
        let thread = std::thread::spawn(move || {
            let beat = beat.unwrap_or_default();
            let mut spoke = Instant::now();
            while !ended.load(Ordering::SeqCst) {
                if spoke.elapsed() >= HEARTBEAT {
                    spoke = Instant::now();
                    for node in 0..nodes {
                        // A node that is not up yet gets later beats; a node that is gone gets none.
                        fleet.send(node, &beat);
                    }
                }
                std::thread::park_timeout(LOOK_UP);
            }
        });
        Self { over, thread }
    }

    /// Ends the thread.
    pub(super) fn end(self) {
        self.over.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        drop(self.thread.join()); // A panic was already printed, and nothing depends on the thread.
    }
}
