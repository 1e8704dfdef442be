//! Settings of the sessions to hosts, and deadlines of all stages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::cli::args::Launch;
use crate::cli::secret;
use crate::plan::{Deadlines, Family, RunPlan};
use crate::wire::frame::MAGIC_WORD;

use super::engine::Engine;
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

/// Time for the connection to a node. Without a deadline from the user, nodes that join have longer: a batch system starts
/// its tasks one after the other, and a user types.
pub(crate) fn connect_time(launch: &Launch, deadlines: &Deadlines, engine: &Engine) -> Duration {
    const BY_ENGINE: Duration = Duration::from_secs(60);
    const BY_USER: Duration = Duration::from_secs(600);
    let mut words = launch.deadline.iter();
    let is_given = words.any(|word| word.trim_start().starts_with("connect"));
    match engine {
        Engine::Starter(_) | Engine::Step if !is_given => BY_ENGINE,
        Engine::Awaited if !is_given => BY_USER,
        _ => Duration::from_millis(deadlines.connect_ms),
    }
}

/// Options in effect.
pub(super) fn options(options: &mut Options, launch: &Launch, engine: &Engine) {
    options.given("rsh", launch.rsh.as_ref().map(|rsh| format!("{rsh:?}")));
    if let Engine::Starter(command) = engine {
        options.set("starter", format!("{command:?}"));
    }
    options.given("await", launch.awaited);
    options.given("listen", launch.listen);
    let file = launch.token_file.as_deref();
    options.given("token-file", file.map(Path::display));
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
    engine: &Engine,
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
            connect: connect_time(launch, deadlines, engine),
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
        join: None,
        starter: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args;

    /// Symptom: a run that awaited nodes gave up before its user had started them.
    #[test]
    fn nodes_that_join_have_longer_to_connect_unless_the_user_says_how_long() {
        let time = |words: &[&str], engine: &Engine| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let launch = args::parsed(&words).unwrap().launch;
            let deadlines = deadlines_of(&launch).unwrap();
            connect_time(&launch, &deadlines, engine).as_secs()
        };
        let starter = Engine::Starter("clush -f %N -w %H".to_owned());
        let other = ["--deadline", "deploy=5s"];
        assert_eq!(time(&other, &Engine::Own), 10);
        assert_eq!(time(&other, &starter), 60);
        assert_eq!(time(&other, &Engine::Step), 60);
        assert_eq!(time(&other, &Engine::Awaited), 600);
        for engine in [Engine::Own, starter, Engine::Step, Engine::Awaited] {
            assert_eq!(time(&["--deadline", "connect=7s"], &engine), 7);
        }
    }

    #[test]
    fn a_port_to_listen_on_may_have_an_address() {
        let listen = |text: &str| {
            let words = ["--listen", text].map(str::to_owned);
            let given = args::parsed(&words).ok()?.launch.listen?;
            Some(given.to_string())
        };
        assert_eq!(listen("7447").as_deref(), Some("0.0.0.0:7447"));
        assert_eq!(listen("10.0.0.1:7447").as_deref(), Some("10.0.0.1:7447"));
        assert_eq!(listen("[fd00::1]:7447").as_deref(), Some("[fd00::1]:7447"));
        assert_eq!(listen("n0:7447"), None);
    }
}
