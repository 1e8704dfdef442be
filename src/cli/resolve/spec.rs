//! What arguments turn into.

use launcher::hosts::Host;

use crate::controller::Hold;
use crate::plan::RunPlan;
use crate::record::Resumed;

/// A fully understood request.
#[derive(Debug, Clone)]
pub(crate) struct RunSpec {
    /// The plan.
    pub plan: RunPlan,
    /// Hosts of its nodes, for the launcher.
    pub hosts: Vec<Host>,
    /// Options in effect, for the record and the display.
    pub options: Vec<(String, String)>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// True if hosts that were not asked yet may change processes and block size.
    pub open: bool,
    /// Stage at which the run pauses.
    pub hold: Option<Hold>,
    /// Results taken from a run that broke off.
    pub resumed: Option<Resumed>,
}

impl RunSpec {
    /// A request that begins at the beginning and does not pause.
    pub(crate) fn of(plan: RunPlan, hosts: Vec<Host>, options: Vec<(String, String)>) -> Self {
        Self {
            plan,
            hosts,
            options,
            notes: Vec::new(),
            open: false,
            hold: None,
            resumed: None,
        }
    }
}
