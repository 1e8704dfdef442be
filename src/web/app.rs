//! State that all routes share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::report::history::PortFigures;

use super::event_hub::EventHub;
use super::guard::Guard;
use super::queue::Queue;
use super::run_store::RunName;
use super::sending::Sending;

/// State that all routes share.
pub(super) struct App {
    /// Accepts requests and finds runs.
    pub queue: Queue,
    /// Decides who can do what.
    pub guard: Guard,
    /// Event listeners. `None` in a CGI program, which lives for one request.
    pub event_hub: Option<Arc<EventHub>>,
    /// Prefix of every path.
    pub base: String,
    /// Limits how many records are read and written at the same time.
    pub heavy: Semaphore,
    /// Figures of ports of runs that are over, for their history. They do not change, and a record takes long to read.
    pub figures: Mutex<BTreeMap<RunName, Arc<[PortFigures]>>>,
    /// Limits the total size of large answers being sent.
    pub sending: Sending,
}

/// Longest wait for a turn.
const PATIENCE: Duration = Duration::from_secs(5);

impl App {
    /// Waits for a turn to read a record or to make a plan. `None` if others take too long.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        timeout(PATIENCE, self.heavy.acquire()).await.ok()?.ok()
    }
}

/// Maximum number of documents made at the same time.
pub(super) const MOST_HEAVY: usize = 4;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::plan::lanes::tests::{plan_of, test_of};
    use crate::plan::{Bound, NodeSpec, RunPlan, Test};
    use crate::units::SECOND_NS;
    use crate::web::site::tests::site;
    use crate::web::tools::Tools;

    /// A plan of four nodes for eleven seconds. No group can run the mesh.
    fn understand(words: &[String]) -> Result<RunPlan, String> {
        if words.iter().any(|word| word == "--pattern=mesh") {
            return Err("--pattern mesh needs more nodes".to_owned());
        }
        let node = |number: usize| NodeSpec {
            label: format!("n{number}"),
            host: format!("n{number}"),
            ..NodeSpec::default()
        };
        let bound = Bound::Time {
            warmup_ns: SECOND_NS,
            window_ns: 10 * SECOND_NS,
        };
        let test = Test {
            bound,
            ..test_of(2, 1)
        };
        Ok(plan_of((1..=4).map(node).collect(), test))
    }

    /// A site below this folder that starts no runs, for tests of pages.
    pub(in crate::web) fn app(folder: &std::path::Path) -> App {
        let mut site = site();
        site.results = folder.join("runs");
        site.token_file = folder.join("token");
        let tools = Tools {
            understand,
            now_ms: || 1_795_405_878_000,
            random: || "0123456789abcdef0123456789abcdef".to_owned(),
            program: std::path::PathBuf::new(),
        };
        let random = tools.random;
        let queue = Queue::new(site, tools, None).unwrap();
        App {
            guard: Guard::new(&queue.site, false, None, random).unwrap(),
            queue,
            event_hub: None,
            base: String::new(),
            heavy: Semaphore::new(MOST_HEAVY),
            figures: Mutex::default(),
            sending: Sending::new(),
        }
    }
}
