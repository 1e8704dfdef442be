//! Signs of life from the launching side. What a node does without them is in `node/mod.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use launcher::Fleet;

use crate::wire::frame;
use crate::wire::message::ToNode;

use super::LOOK_UP;

const HEARTBEAT: Duration = Duration::from_secs(1);

/// Says each second that this side is there, from a thread of its own: a terminal that takes no more text must
/// not make the nodes believe that they are alone.
pub struct Heartbeat {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Begins to beat towards all nodes of a fleet.
    pub fn start(fleet: Arc<Fleet>, nodes: usize) -> Self {
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
                        // A node that is not up yet gets it when it is; one that is gone, never.
                        fleet.send(node, &beat);
                    }
                }
                std::thread::park_timeout(LOOK_UP);
            }
        });
        Self {
            over,
            thread: Some(thread),
        }
    }

    /// Ends the thread.
    pub fn end(mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join()); // A panic was printed, and nothing of ours hangs on it.
        }
    }
}
