//! Settings of the sessions to hosts, and deadlines of all stages.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::cli::args::Launch;
use crate::cli::secret;
use crate::plan::{Deadlines, Family, RunPlan};
use crate::wire::frame::MAGIC_WORD;

use super::error::{UsageError, refuse};
use super::values::{Options, time};

/// Deadlines from the arguments, with defaults for the others.
pub(crate) fn deadlines_of(launch: &Launch) -> Result<Deadlines, UsageError> {
    let mut deadlines = Deadlines::default();
    for word in &launch.deadline {
        let wrong = || {
            UsageError::Value(format!(
                "--deadline {word:?} is not understood (write connect=30s; stages: see --help)"
            ))
        };
        let (stage, value) = word.split_once('=').ok_or_else(wrong)?;
        let ms = time("--deadline", value)? / 1_000_000;
        if ms == 0 {
            return refuse(format!("--deadline {word}: at least 1 ms"));
        }
        if stage.trim() == "silence" && ms < 3_000 {
            let text = "--deadline silence: at least 3s, because heartbeats come once per second";
            return refuse(text);
        }
        let field = match stage.trim() {
            "resolve" => &mut deadlines.resolve_ms,
            "connect" => &mut deadlines.connect_ms,
            "authenticate" => &mut deadlines.authenticate_ms,
            "deploy" => &mut deadlines.deploy_ms,
            "start" => &mut deadlines.start_ms,
            "prepare" => &mut deadlines.prepare_ms,
            "hello" => &mut deadlines.link_hello_ms,
            "silence" => &mut deadlines.silence_ms,
            "drain" => &mut deadlines.drain_ms,
            "collect" => &mut deadlines.collect_ms,
            "volume" => &mut deadlines.volume_ms,
            "clocks" => &mut deadlines.clocks_ms,
            _ => return Err(wrong()),
        };
        *field = ms;
    }
    Ok(deadlines)
}

/// Options in effect.
pub(super) fn options(options: &mut Options, launch: &Launch) {
    options.given("rsh", launch.rsh.as_ref().map(|rsh| format!("{rsh:?}")));
    options.given("remote-dir", launch.remote_dir.as_ref());
    let binary = launch.remote_binary.as_ref();
    options.given("remote-binary", binary.map(|folder| folder.display()));
    options.list("deadline", &launch.deadline);
    options.set("fanout", launch.fanout);
}

/// Settings of the sessions, from the same arguments and the plan's deadlines.
pub(crate) fn settings(
    launch: &Launch,
    plan: &RunPlan,
    stop: &Arc<AtomicUsize>,
) -> launcher::Settings {
    let stop = Arc::clone(stop);
    let ms = Duration::from_millis;
    let deadlines = &plan.deadlines;
    let of_tests = plan.tests().first().map(|test| test.network.family);
    let of_ranks = plan.work.ranks().map(|ranks| ranks.network.family);
    let family = of_tests.or(of_ranks).unwrap_or_default();
    launcher::Settings {
        remote_shell: launch.rsh.clone(),
        user: launch.user.clone(),
        identities: launch.identity.clone(),
        known_hosts: launch.known_hosts.clone(),
        fanout: launch.fanout,
        deadlines: launcher::Deadlines {
            resolve: ms(deadlines.resolve_ms),
            connect: ms(deadlines.connect_ms),
            authenticate: ms(deadlines.authenticate_ms),
            deploy: ms(deadlines.deploy_ms),
            start: ms(deadlines.start_ms),
        },
        remote_dir: launch.remote_dir.clone(),
        family: match family {
            Family::Any => launcher::Family::Any,
            Family::V4 => launcher::Family::V4,
            Family::V6 => launcher::Family::V6,
        },
        magic: MAGIC_WORD.to_vec(),
        arguments: vec!["node".to_owned()],
        ask: Some(Arc::new(move |prompt| secret::ask(prompt, &stop))),
        ask_password: launch.ask_password,
    }
}
