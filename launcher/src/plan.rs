//! The data that all hosts of a launch share, and the session with a host's shell that follows from it.

use std::time::Duration;

use crate::deploy::Order;
use crate::error::Stage;
use crate::hosts::Host;
use crate::program::Program;
use crate::secrets::Secrets;
use crate::session::carrier::Carrier;
use crate::session::dialogue::Dialogue;
use crate::session::drive::{Limits, Outcome, Path, drive};
use crate::session::line::Line;
use crate::session::report::Report;
use crate::settings::Settings;

/// The data that all hosts share.
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) program: Program,
    pub(crate) secrets: Secrets,
}

impl Plan {
    /// Asks for secrets if a host will need them. Sessions over a remote-shell command ask for their own, and those of
    /// hosts that join need none.
    pub(crate) fn prepare(hosts: &[&Host], settings: Settings, program: Program) -> Plan {
        let by_ssh = settings.remote_shell.is_none() && settings.join.is_none();
        let needed = by_ssh && hosts.iter().any(|host| !host.local);
        let secrets = if needed {
            Secrets::ask(&settings)
        } else {
            Secrets::default()
        };
        Plan {
            settings,
            program,
            secrets,
        }
    }

    /// Runs a session with a host's shell, which gets the script of `order`. `answer` is the time limit
    /// of its first answer, and the stage to blame if that is missing.
    pub(crate) fn drive_shell(
        &self,
        carrier: &mut dyn Carrier,
        order: &Order,
        answer: (Stage, Duration),
        path: Path<'_>,
        line: &Line,
        report: &mut Report,
    ) -> Outcome {
        let dialogue = Dialogue::with_shell(order, &self.settings.magic);
        let limits = Limits {
            answer,
            store: self.settings.deadlines.deploy,
            start: self.settings.deadlines.start,
        };
        let script = Some(order.script(limits.store).into_bytes());
        drive(carrier, dialogue, script, line, report, limits, path)
    }
}
