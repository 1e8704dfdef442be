//! The attempts for one host: choice of the transport, retries, and the meaning of a session's end.
//!
//! Read next: `session/drive.rs` for the loop of a session, `command.rs` for remote-shell commands.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::command::{self, RemoteShell};
use crate::config::HostConfig;
use crate::deploy::Order;
use crate::error::{LaunchError, Stage};
use crate::hosts::Host;
use crate::join::carrier::JoinCarrier;
use crate::join::port::{Absent, Seat};
use crate::plan::Plan;
use crate::secure::{self, Trouble};
use crate::session::carrier::Carrier;
use crate::session::child::ChildCarrier;
use crate::session::dialogue::{Dialogue, State};
use crate::session::drive::{Limits, Outcome, Path, drive, seconds};
use crate::session::line::Line;
use crate::session::report::Report;

/// Runs one host's session from its turn at the gate to its last event. A host with a seat joins.
pub(crate) fn launch(
    plan: &Plan,
    host: &Host,
    seat: Option<Seat>,
    line: &Line,
    mut report: Report,
) {
    let outcome = match seat {
        Some(seat) => joined(plan, seat, line, &mut report),
        None if host.local => local(plan, line, &mut report),
        None => remote(plan, host, line, &mut report),
    };
    let stage = report.current_stage();
    match outcome {
        Outcome::Ended(ending) => report.ended(ending),
        Outcome::Failed(error) => report.failed(error),
        Outcome::Folder { reason, .. } => report.failed(LaunchError::new(Stage::Deploy, reason)),
        Outcome::Aborted if report.is_up() => report.ended(Default::default()),
        Outcome::Aborted => report.failed(LaunchError::new(stage, "aborted")),
        Outcome::Early {
            ending,
            state,
            complaints,
            noise,
        } => {
            report.failed(early_error(&ending.words(), state, &complaints, &noise));
        }
    }
}

/// Words the error of a program, or of the shell in front of it, that ended before the magic word.
fn early_error(end: &str, state: State, complaints: &[String], noise: &str) -> LaunchError {
    let of_shell = format!("the host's shell {end} before it answered");
    let of_program = format!("the program {end} before its first message");
    let (stage, mut text) = match state {
        State::Answering => (Stage::Start, of_shell),
        State::Storing => (Stage::Deploy, of_shell),
        State::Starting | State::Open => (Stage::Start, of_program),
    };
    let last = [complaints.last().map_or("", String::as_str), noise];
    if let Some(last) = last.iter().find(|line| !line.is_empty()) {
        text = format!("{text}: {}", last.chars().take(300).collect::<String>());
    }
    LaunchError::new(stage, text)
}

fn local(plan: &Plan, line: &Line, report: &mut Report) -> Outcome {
    report.stage(Stage::Start);
    let mut command = plan.program.command();
    command.args(&plan.settings.arguments);
    match ChildCarrier::spawn(&mut command) {
        Ok(mut carrier) => {
            let path = Path {
                transport: "local",
                address: None,
            };
            direct(plan, &mut carrier, path, line, report)
        }
        Err(error) => {
            let text = format!("cannot run {}: {error}", plan.program.path.display());
            Outcome::Failed(LaunchError::new(Stage::Start, text))
        }
    }
}

/// Waits until the host's node joins, and runs its session.
fn joined(plan: &Plan, seat: Seat, line: &Line, report: &mut Report) -> Outcome {
    report.stage(Stage::Connect);
    let limit = plan.settings.deadlines.connect;
    let joiner = match seat.wait(Instant::now() + limit, line) {
        Ok(joiner) => joiner,
        Err(Absent::Aborted) => return Outcome::Aborted,
        Err(Absent::Over(reason)) => {
            return Outcome::Failed(LaunchError::new(Stage::Connect, reason));
        }
        Err(Absent::Late(hint)) => {
            let text = format!("no node of this host has joined within {}", seconds(limit));
            return Outcome::Failed(LaunchError::new(Stage::Connect, text).hint(hint));
        }
    };
    report.stage(Stage::Start);
    let path = Path {
        transport: "join",
        address: Some(joiner.peer),
    };
    match JoinCarrier::start(joiner.channel) {
        Ok(mut carrier) => direct(plan, &mut carrier, path, line, report),
        Err(error) => {
            let text = format!("the node that joined is lost: {error}");
            Outcome::Failed(LaunchError::new(Stage::Start, text))
        }
    }
}

/// Runs a session with the program itself: no shell is in front of it.
fn direct(
    plan: &Plan,
    carrier: &mut dyn Carrier,
    path: Path<'_>,
    line: &Line,
    report: &mut Report,
) -> Outcome {
    let start = plan.settings.deadlines.start;
    let limits = Limits {
        answer: (Stage::Start, start),
        store: start,
        start,
    };
    let dialogue = Dialogue::direct(&plan.settings.magic);
    drive(carrier, dialogue, None, line, report, limits, path)
}

/// Runs a session. If a folder cannot take the executable, retries without that folder, until one
/// succeeds or no folder is left.
fn remote(plan: &Plan, host: &Host, line: &Line, report: &mut Report) -> Outcome {
    let settings = &plan.settings;
    let mut order = Order::new(
        &plan.program,
        &settings.arguments,
        settings.remote_dir.as_deref(),
    );
    let mut excluded = BTreeSet::new();
    let mut reasons = Vec::new();
    let mut route = match Route::choose(plan, host, line, report) {
        Ok(route) => route,
        Err(error) => return Outcome::Failed(error),
    };
    for _ in 0..order.folders() {
        match route.attempt(plan, host, &order, line, report) {
            Outcome::Folder { index, reason } => {
                excluded.insert(index);
                reasons.push(reason);
                order = order.without(&excluded);
            }
            Outcome::Failed(error) if !reasons.is_empty() => {
                let text = format!("{}; {}", reasons.join("; "), error.text);
                return Outcome::Failed(LaunchError { text, ..error });
            }
            outcome => return outcome,
        }
    }
    let error = LaunchError::new(
        Stage::Deploy,
        format!(
            "no folder is usable for the executable: {}",
            reasons.join("; ")
        ),
    );
    Outcome::Failed(error.hint("name another folder: --remote-dir DIR"))
}

/// The transport that reaches a remote host.
enum Route {
    Command(RemoteShell),
    Ssh2(Box<HostConfig>),
}

impl Route {
    fn choose(
        plan: &Plan,
        host: &Host,
        line: &Line,
        report: &mut Report,
    ) -> Result<Route, LaunchError> {
        let settings = &plan.settings;
        if let Some(text) = &settings.remote_shell {
            return RemoteShell::named(text, host, settings).map(Route::Command);
        }
        report.stage(Stage::Resolve);
        let until = Instant::now() + settings.deadlines.resolve;
        let config = HostConfig::of(host, settings, until, line)
            .map_err(|text| LaunchError::new(Stage::Resolve, text))?;
        match config.detour.clone() {
            Some(reason) => Ok(Route::detour(&reason, &config, plan, host, report)),
            None => Ok(Route::Ssh2(Box::new(config))),
        }
    }

    fn detour(
        reason: &str,
        config: &HostConfig,
        plan: &Plan,
        host: &Host,
        report: &Report,
    ) -> Route {
        report.notice(command::notice(reason, config));
        Route::Command(RemoteShell::openssh(host, &plan.settings))
    }

    /// Runs one session. If ssh2 cannot reach the host, switches to the OpenSSH client, for this attempt
    /// and for all later ones.
    fn attempt(
        &mut self,
        plan: &Plan,
        host: &Host,
        order: &Order,
        line: &Line,
        report: &mut Report,
    ) -> Outcome {
        let config = match self {
            Route::Command(shell) => {
                let outcome = shell.attempt(plan, order, line, report);
                return match (outcome, shell.hint()) {
                    (
                        Outcome::Early {
                            ending,
                            state: State::Answering,
                            complaints,
                            noise,
                        },
                        Some(hint),
                    ) => {
                        let words = ending.words();
                        let error = early_error(&words, State::Answering, &complaints, &noise);
                        Outcome::Failed(error.hint(hint))
                    }
                    (outcome, _) => outcome,
                };
            }
            Route::Ssh2(config) => config,
        };
        let (reason, own_error) = match secure::attempt(plan, config, order, line, report) {
            Ok(outcome) => return outcome,
            Err(Trouble::Detour { reason, error }) if config.openssh => (reason, error),
            Err(Trouble::Failed(error) | Trouble::Detour { error, .. }) => {
                return Outcome::Failed(error);
            }
        };
        *self = Route::detour(&reason, config, plan, host, report);
        match self.attempt(plan, host, order, line, report) {
            // If both fail at the same stage, our own error helps more: it lists the keys.
            Outcome::Failed(error) if error.stage == own_error.stage => Outcome::Failed(own_error),
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_is_told_by_where_it_happened() {
        let complaints = vec!["first".to_owned(), "last".to_owned()];
        let told = |state, complaints: &[String], noise| {
            early_error("ended with status 1", state, complaints, noise).to_string()
        };
        assert_eq!(
            told(State::Answering, &complaints, ""),
            "cannot start the program: the host's shell ended with status 1 before it answered: last"
        );
        assert_eq!(
            told(State::Storing, &[], ""),
            "cannot deploy: the host's shell ended with status 1 before it answered"
        );
        assert_eq!(
            told(State::Starting, &[], "This account is closed"),
            "cannot start the program: the program ended with status 1 before its first message: This account is closed"
        );
    }
}
