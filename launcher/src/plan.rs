//! The data that all hosts of a launch share.

use crate::hosts::Host;
use crate::program::Program;
use crate::secrets::Secrets;
use crate::settings::Settings;

/// The data that all hosts share.
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) program: Program,
    pub(crate) secrets: Secrets,
}

impl Plan {
    /// Asks for secrets if a host will need them. Sessions over a remote-shell command ask for their own.
    pub(crate) fn prepare(hosts: &[&Host], settings: Settings, program: Program) -> Plan {
        let needed = settings.remote_shell.is_none() && hosts.iter().any(|host| !host.local);
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
}
