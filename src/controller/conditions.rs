//! Input of a run in addition to its plan.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use launcher::Program;

use crate::record::Resumed;

use super::events::Hold;

/// Input of a run in addition to its plan.
pub(crate) struct Conditions {
    /// Settings of the sessions to the hosts.
    pub settings: launcher::Settings,
    /// Executable that runs on all hosts.
    pub program: Program,
    /// Number of the signal that asked for the end; zero until then.
    pub stop: Arc<AtomicUsize>,
    /// Arguments as they were given, for the record.
    pub command: Vec<String>,
    /// Options in effect, for the record and the display.
    pub options: Vec<(String, String)>,
    /// Stage at which the run pauses, if any.
    pub hold: Option<Hold>,
    /// Name of the run, from `controller::random_digits`.
    pub token: String,
    /// Secret that every link of the run sends first, also from `controller::random_digits`.
    pub secret: String,
    /// Start of the run, in milliseconds since 1970.
    pub started_ms: u64,
    /// Text of the settings fixed before the start (`plan::seal`).
    pub seal: Option<String>,
    /// Results taken over from an aborted run.
    pub resumed: Option<Resumed>,
    /// Name of the run's folder, if it was chosen before the start.
    pub name: Option<String>,
    /// True if the observer needs samples of each link every second, even if the plan asks for none.
    pub watched: bool,
}

impl Conditions {
    /// Tells work that can last, when it asks, that it must end: a second after the user or the system has asked for the end. Small results are
    /// ready by then, and the record keeps them.
    pub(super) fn patience(&self) -> impl Fn() -> bool + '_ {
        patience(&self.stop, Duration::from_secs(1))
    }
}

/// True `last` after this first saw that `stop` is set.
fn patience(stop: &AtomicUsize, last: Duration) -> impl Fn() -> bool + '_ {
    let seen = OnceCell::new();
    move || stop.load(Ordering::SeqCst) != 0 && seen.get_or_init(Instant::now).elapsed() >= last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: the launching side did not end within 20 s of Ctrl-C while it put the record of 1,000 nodes together.
    #[test]
    fn work_that_lasts_ends_a_moment_after_ctrl_c_and_not_before() {
        let stop = AtomicUsize::new(0);
        let (at_once, later) = (
            patience(&stop, Duration::ZERO),
            patience(&stop, Duration::from_secs(3600)),
        );
        assert!(!at_once() && !later());
        stop.store(2, Ordering::SeqCst);
        assert!(at_once() && !later());
    }
}
