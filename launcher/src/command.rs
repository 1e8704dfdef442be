//! Sessions over a command: a remote shell of the user's choice, or the OpenSSH client.

use std::process::Command;

use crate::attempt::Plan;
use crate::deploy::Order;
use crate::error::{LaunchError, Stage};
use crate::hosts::Host;
use crate::session::child::ChildCarrier;
use crate::session::dialogue::Dialogue;
use crate::session::drive::{Limits, Outcome, Path, drive};
use crate::session::line::Line;
use crate::session::report::Report;

/// One attempt over the command of `--rsh`, or the OpenSSH client.
pub(crate) fn attempt(
    plan: &Plan,
    host: &Host,
    order: &Order,
    line: &Line,
    report: &mut Report,
) -> Outcome {
    let settings = &plan.settings;
    let words = match &settings.remote_shell {
        Some(text) => shell_words(text, host, settings.user.as_deref()),
        None => Ok(vec![
            "ssh".to_owned(),
            "-T".to_owned(),
            host.name.clone(),
            "/bin/sh".to_owned(),
            "-s".to_owned(),
        ]),
    };
    let words = match words {
        Ok(words) => words,
        Err(error) => return Outcome::Failed(error),
    };
    report.stage(Stage::Connect);
    let deadlines = settings.deadlines;
    let until_answer = deadlines.connect + deadlines.authenticate + deadlines.deploy;
    let limits = Limits {
        answer: (Stage::Connect, until_answer),
        store: deadlines.deploy,
        start: deadlines.start,
    };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    match ChildCarrier::spawn(&mut command) {
        Ok(mut carrier) => {
            let program = &plan.program;
            let dialogue =
                Dialogue::with_shell(order, &settings.magic, &program.bytes, &program.arch);
            let path = Path {
                transport: "rsh",
                address: None,
            };
            drive(
                &mut carrier,
                dialogue,
                Some(order.script().into_bytes()),
                line,
                report,
                limits,
                path,
            )
        }
        Err(error) => {
            let text = format!(
                "cannot run the remote shell command '{}': {error}",
                words[0]
            );
            Outcome::Failed(LaunchError::new(Stage::Start, text))
        }
    }
}

fn shell_words(text: &str, host: &Host, user: Option<&str>) -> Result<Vec<String>, LaunchError> {
    let bad = || {
        LaunchError::new(
            Stage::Start,
            format!("the remote shell command '{text}' has no words or an open quote"),
        )
    };
    let mut words: Vec<String> = shlex::split(text)
        .filter(|words| !words.is_empty())
        .ok_or_else(bad)?;
    let user = host.user.as_deref().or(user);
    let place = user.map_or_else(|| host.name.clone(), |user| format!("{user}@{}", host.name));
    if words.iter().any(|word| word.contains("%h")) {
        words
            .iter_mut()
            .for_each(|word| *word = word.replace("%h", &place));
    } else {
        words.push(place);
    }
    words.extend(["/bin/sh".to_owned(), "-s".to_owned()]);
    Ok(words)
}
