//! Sessions over a command: a remote shell of the user's choice (`--rsh`), or the OpenSSH client.
//!
//! The command reaches the host and runs `/bin/sh -s` there. This module turns the command's
//! complaints into errors by stage. Read next: `attempt.rs`, which decides that a command is used.

use std::ffi::OsString;
use std::path::Path as FilePath;
use std::process::Command;
use std::time::Instant;

use crate::backoff::Backoff;
use crate::config::HostConfig;
use crate::deploy::Order;
use crate::error::{LaunchError, Stage};
use crate::hosts::Host;
use crate::plan::Plan;
use crate::session::child::ChildCarrier;
use crate::session::dialogue::State;
use crate::session::drive::{Outcome, Path};
use crate::session::line::Line;
use crate::session::report::Report;
use crate::settings::{Family, Settings};

/// A command that reaches one host and runs `/bin/sh -s` there.
pub(crate) struct RemoteShell {
    words: Vec<OsString>,
    transport: &'static str,
}

impl RemoteShell {
    /// Builds the command of `--rsh` for one host. Fails if the host has a port but `text` has no `%p`,
    /// and if `text` is empty or has an open quote.
    pub(crate) fn named(
        text: &str,
        host: &Host,
        settings: &Settings,
    ) -> Result<RemoteShell, LaunchError> {
        let user = host.user.as_ref().or(settings.user.as_ref());
        let port = host.port;
        if let Some(port) = port.filter(|_| !text.contains("%p")) {
            let text = format!("the remote shell command has no place for port {port}");
            let hint = "put %p into it: --rsh 'ssh -p %p'; the host is then appended";
            return Err(LaunchError::new(Stage::Start, text).hint(hint));
        }
        let text = text.replace("%p", &port.unwrap_or(22).to_string());
        let words = shell_words(&text, &host.name, user.map(String::as_str))?;
        Ok(RemoteShell {
            words: words.into_iter().map(OsString::from).collect(),
            transport: "rsh",
        })
    }

    /// Builds the OpenSSH client's command from settings and host list. The client finds the rest in
    /// its own configuration. `-a` forwards no agent, even if that configuration does: root on a host
    /// could use it.
    pub(crate) fn openssh(host: &Host, settings: &Settings) -> RemoteShell {
        let mut words: Vec<OsString> = ["ssh", "-T", "-x", "-a"].map(OsString::from).into();
        let mut option = |text: String| words.extend(["-o".into(), text.into()]);
        option("BatchMode=yes".to_owned());
        let connect = settings.deadlines.connect.as_secs().max(1);
        option(format!("ConnectTimeout={connect}"));
        // A new master process would outlive us. An existing one can be used.
        option("ControlMaster=no".to_owned());
        option("ClearAllForwardings=yes".to_owned());
        option("PermitLocalCommand=no".to_owned());
        option("RemoteCommand=none".to_owned());
        if let Some(file) = &settings.known_hosts {
            option(format!("UserKnownHostsFile={}", in_quotes(file)));
            option("GlobalKnownHostsFile=/dev/null".to_owned());
            option("StrictHostKeyChecking=yes".to_owned());
        }
        for file in &settings.identities {
            option(format!("IdentityFile={}", in_quotes(file)));
        }
        match settings.family {
            Family::Any => {}
            Family::V4 => words.push("-4".into()),
            Family::V6 => words.push("-6".into()),
        }
        if let Some(user) = host.user.as_ref().or(settings.user.as_ref()) {
            words.extend(["-l".into(), user.into()]);
        }
        if let Some(port) = host.port {
            words.extend(["-p".into(), port.to_string().into()]);
        }
        words.extend(["--", &host.name, "/bin/sh", "-s"].map(OsString::from));
        RemoteShell {
            words,
            transport: "openssh",
        }
    }

    /// The hint for a shell that ends before it answers: `exec` of a container tool closes the shell's
    /// standard input, unless an option passes it on.
    pub(crate) fn hint(&self) -> Option<String> {
        let words: Vec<_> = self
            .words
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let tool = exec_without_input(&words)?;
        Some(format!(
            "does the command of --rsh pass standard input on? {tool} exec needs -i"
        ))
    }

    /// Runs one session from its start to its end. Retries dropped connections until the connect
    /// deadline.
    pub(crate) fn attempt(
        &self,
        plan: &Plan,
        order: &Order,
        line: &Line,
        report: &mut Report,
    ) -> Outcome {
        let deadlines = plan.settings.deadlines;
        let mut backoff = Backoff::until(Instant::now() + deadlines.connect);
        loop {
            report.stage(Stage::Connect);
            let outcome = self.once(plan, order, line, report);
            let cause = match &outcome {
                // SSH exits with status 255 if SSH itself failed, not the remote command.
                Outcome::Early {
                    ending,
                    state: State::Answering,
                    complaints,
                    ..
                } if ending.status == Some(255) => explained(complaints),
                _ => None,
            };
            let Some(Explained { error, again }) = cause else {
                return outcome;
            };
            if !again || !backoff.wait(line) {
                return Outcome::Failed(error);
            }
        }
    }

    fn once(&self, plan: &Plan, order: &Order, line: &Line, report: &mut Report) -> Outcome {
        let Some((first, rest)) = self.words.split_first() else {
            let text = "the remote shell command is empty";
            return Outcome::Failed(LaunchError::new(Stage::Start, text));
        };
        let mut carrier = match ChildCarrier::spawn(Command::new(first).args(rest)) {
            Ok(carrier) => carrier,
            Err(error) => return Outcome::Failed(not_run(&first.to_string_lossy(), &error)),
        };
        let path = Path {
            transport: self.transport,
            address: None,
        };
        // Connecting and authentication run inside the command and cannot be distinguished from here. The
        // OpenSSH client bounds the first one, and the second one begins after it.
        let limits = plan.settings.deadlines;
        let answer = match self.transport {
            "openssh" => (Stage::Authenticate, limits.connect + limits.authenticate),
            _ => (Stage::Connect, limits.connect),
        };
        plan.drive_shell(&mut carrier, order, answer, path, line, report)
    }
}

/// The container tool whose `exec` these words call without passing standard input on.
fn exec_without_input(words: &[impl AsRef<str>]) -> Option<&'static str> {
    const TOOLS: [&str; 3] = ["kubectl", "docker", "podman"];
    /// Short options without a value, and `-c`, which can stand together with them: `-it`.
    const SHORT: &str = "citq";
    let mut words = words.iter().map(AsRef::<str>::as_ref);
    let tool = words.find_map(|word: &str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        TOOLS.into_iter().find(|tool| *tool == name)
    })?;
    words.find(|word| *word == "exec")?;
    let passes = |word: &str| match word.strip_prefix('-') {
        Some("-stdin" | "-stdin=true" | "-interactive" | "-interactive=true") => true,
        Some(letters) => letters.contains('i') && letters.chars().all(|c| SHORT.contains(c)),
        None => false,
    };
    let mut options = words.take_while(|word| *word != "--");
    (!options.any(passes)).then_some(tool)
}

fn not_run(name: &str, error: &std::io::Error) -> LaunchError {
    let text = match error.kind() {
        std::io::ErrorKind::NotFound => format!("remote shell command '{name}' not found"),
        _ => format!("cannot run the remote shell command '{name}': {error}"),
    };
    LaunchError::new(Stage::Start, text).hint("see --rsh")
}

/// Quotes a path, so that it stays one word of an option's value.
fn in_quotes(file: &FilePath) -> String {
    format!("\"{}\"", file.display())
}

fn shell_words(text: &str, name: &str, user: Option<&str>) -> Result<Vec<String>, LaunchError> {
    let bad = || {
        let text = format!("the remote shell command '{text}' is empty or has an open quote");
        let examples = "examples: --rsh 'ssh -J gw', --rsh 'srun --nodes=1 --ntasks=1 --overlap --cpu-bind=none -w %h'";
        LaunchError::new(Stage::Start, text).hint(examples)
    };
    let mut words = shlex::split(text)
        .filter(|words| !words.is_empty())
        .ok_or_else(bad)?;
    let place = user.map_or_else(|| name.to_owned(), |user| format!("{user}@{name}"));
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

/// A complaint of SSH as an error of ours.
#[derive(Debug, PartialEq, Eq)]
struct Explained {
    error: LaunchError,
    /// True if a retry can succeed.
    again: bool,
}

/// Translates SSH's complaints. The first pattern that matches decides; the other lines are
/// warnings. Returns `None` if no pattern matches.
fn explained(complaints: &[String]) -> Option<Explained> {
    let all = complaints.join("\n");
    let has = |text: &str| all.contains(text);
    let line_with = |text: &str| {
        complaints
            .iter()
            .find(|line| line.contains(text))
            .map_or("", String::as_str)
    };
    let last_part = |text: &str| line_with(text).rsplit(": ").next().unwrap_or("").to_owned();
    let told = |error, again| Some(Explained { error, again });
    let for_good = |error| told(error, false);
    if has("Could not resolve hostname") {
        let text = last_part("Could not resolve hostname").to_lowercase();
        return for_good(LaunchError::new(Stage::Resolve, text));
    }
    if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        let text = "the host's key has changed: the known key is another one";
        let hint = match line_with("Offending") {
            "" => "someone may intercept the connection".to_owned(),
            offending => offending.to_lowercase(),
        };
        return for_good(LaunchError::new(Stage::HostKey, text).hint(hint));
    }
    if has("Host key verification failed") || has("host key is known for") {
        let text = "the host's key is unknown to the OpenSSH client";
        let hint = "check the fingerprint, then add it with ssh-keyscan HOST >> ~/.ssh/known_hosts, or use --known-hosts FILE";
        return for_good(LaunchError::new(Stage::HostKey, text).hint(hint));
    }
    for denied in ["Permission denied", "Too many authentication failures"] {
        if has(denied) {
            let text = last_part(denied).trim_end_matches('.').to_lowercase();
            return for_good(LaunchError::new(Stage::Authenticate, text));
        }
    }
    let dropped = [
        "kex_exchange_identification",
        "banner exchange",
        "Connection reset by",
        "Connection closed by",
    ];
    if let Some(sign) = dropped.iter().find(|sign| has(sign)) {
        let text = format!("the server dropped the connection ({})", line_with(sign));
        let hint = "does it limit concurrent logins (MaxStartups)? try a smaller --fanout";
        return told(LaunchError::new(Stage::Connect, text).hint(hint), true);
    }
    let text = last_part("connect to host").to_lowercase();
    for_good(LaunchError::new(Stage::Connect, text)).filter(|_| has("connect to host"))
}

/// The notice that names why the OpenSSH client is used.
pub(crate) fn notice(reason: &str, config: &HostConfig) -> String {
    debug_assert!(config.openssh, "only where there is one");
    format!("using the OpenSSH client: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::parse;

    fn words(text: &str, host: &str) -> String {
        let host = parse(host).unwrap().remove(0);
        let shell = RemoteShell::named(text, &host, &Settings::default()).unwrap();
        shell
            .words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join("|")
    }

    #[test]
    fn a_port_goes_where_the_command_wants_it_and_is_never_dropped() {
        let host = Host {
            name: "n1".to_owned(),
            user: None,
            port: Some(2222),
            local: false,
            attributes: std::collections::BTreeMap::new(),
        };
        let settings = Settings::default();
        let taken = RemoteShell::named("ssh -p %p", &host, &settings).unwrap();
        let words: Vec<&str> = taken
            .words
            .iter()
            .filter_map(|word| word.to_str())
            .collect();
        assert_eq!(words, ["ssh", "-p", "2222", "n1", "/bin/sh", "-s"]);
        let error = RemoteShell::named("ssh", &host, &settings).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("has no place for port 2222 (put %p into it"),
            "{error}"
        );
    }

    #[test]
    fn a_remote_shell_command_gets_its_host() {
        assert_eq!(words("ssh -J 'g w'", "n1"), "ssh|-J|g w|n1|/bin/sh|-s");
        assert_eq!(words("ssh", "ann@n1"), "ssh|ann@n1|/bin/sh|-s");
        assert_eq!(
            words("srun -w %h --x=%h", "n1"),
            "srun|-w|n1|--x=n1|/bin/sh|-s"
        );
        assert_eq!(words("ssh %h", "ann@n1"), "ssh|ann@n1|/bin/sh|-s");
        let host = parse("n1").unwrap().remove(0);
        for bad in ["", "ssh 'open"] {
            let error = RemoteShell::named(bad, &host, &Settings::default())
                .err()
                .unwrap();
            assert!(error.text.contains("is empty or has an open quote"));
        }
    }

    #[test]
    fn exec_of_a_container_tool_without_its_option_for_input_is_seen() {
        for (text, tool) in [
            ("kubectl exec %h --", Some("kubectl")),
            (
                "env A=b /opt/kubectl -n i exec %h -c main -t --",
                Some("kubectl"),
            ),
            ("sudo docker exec %h", Some("docker")),
            ("podman exec -u ann %h", Some("podman")),
            ("kubectl exec -i %h --", None),
            ("kubectl -n NS exec %h --stdin=true -c main --", None),
            ("kubectl exec %h -ic main --", None),
            ("docker exec --interactive %h", None),
            ("podman exec -it %h", None),
            ("ssh %h", None),
            ("kubectl debug %h --", None),
        ] {
            let words: Vec<&str> = text.split(' ').chain(["/bin/sh", "-s"]).collect();
            assert_eq!(exec_without_input(&words), tool, "{text}");
        }
    }

    #[test]
    fn the_openssh_client_gets_what_was_said() {
        let host = parse("ann@[::1]:77").unwrap().remove(0);
        let settings = Settings {
            known_hosts: Some("/k n".into()),
            identities: vec!["/id".into()],
            family: Family::V6,
            ..Settings::default()
        };
        let shell = RemoteShell::openssh(&host, &settings);
        let words: Vec<_> = shell
            .words
            .iter()
            .map(|word| word.to_str().unwrap())
            .collect();
        assert!(
            words.contains(&"UserKnownHostsFile=\"/k n\"")
                && words.contains(&"IdentityFile=\"/id\"")
        );
        assert!(words.contains(&"-a"), "the agent stays here");
        assert!(words.ends_with(&["-6", "-l", "ann", "-p", "77", "--", "::1", "/bin/sh", "-s"]));
    }

    #[test]
    fn complaints_of_ssh_become_errors_by_stage() {
        let cases = [
            (
                "ssh: Could not resolve hostname n9: Name or service not known",
                Stage::Resolve,
                false,
            ),
            (
                "ssh: connect to host n1 port 22: Connection refused",
                Stage::Connect,
                false,
            ),
            (
                "ssh: connect to host n1 port 22: Connection timed out",
                Stage::Connect,
                false,
            ),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nOffending key in /k:1\nHost key verification failed.",
                Stage::HostKey,
                false,
            ),
            (
                "No ED25519 host key is known for n1 and you have requested strict checking.\nHost key verification failed.",
                Stage::HostKey,
                false,
            ),
            (
                "ann@n1: Permission denied (publickey).",
                Stage::Authenticate,
                false,
            ),
            (
                "Received disconnect from n1 port 22:2: Too many authentication failures",
                Stage::Authenticate,
                false,
            ),
            (
                "kex_exchange_identification: Connection closed by remote host\nConnection closed by n1 port 22",
                Stage::Connect,
                true,
            ),
        ];
        for (text, stage, again) in cases {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let found = explained(&lines).unwrap();
            assert_eq!((found.error.stage, found.again), (stage, again), "{text}");
        }
        let told = |text: &str| explained(&[text.to_owned()]).map(|found| found.error.to_string());
        assert_eq!(
            told("ann@n1: Permission denied (publickey).").unwrap(),
            "cannot authenticate: permission denied (publickey)"
        );
        assert_eq!(
            told("ssh: connect to host n1 port 22: Connection refused").unwrap(),
            "cannot connect: connection refused"
        );
        assert_eq!(told("something else"), None);
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = not_run("rsx", &std::io::ErrorKind::NotFound.into());
        assert_eq!(
            error.to_string(),
            "cannot start the program: remote shell command 'rsx' not found (see --rsh)"
        );
        assert!(
            not_run("rsx", &std::io::ErrorKind::PermissionDenied.into())
                .text
                .contains("cannot run")
        );
    }
}
