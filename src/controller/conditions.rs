//! Input of a run in addition to its plan.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

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
