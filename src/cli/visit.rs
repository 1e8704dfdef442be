//! Common part of `status` and `watch`: the hosts to visit, the visit, and the messages for hosts that cannot be reached.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use launcher::hosts::Host;

use crate::controller::{self, Conditions, Observer, RunEvent};
use crate::exit;
use crate::plan::{Acceptance, RunPlan, Work};
use crate::record::{Sighting, Trouble, TroubleKind};
use crate::report::status::{self, View};

use super::args::{HostWords, Launch, VisitArguments};
use super::joining::Joining;
use super::process;
use super::resolve::{self, Engine, UsageError};
use super::terminal::{complain, write_all};

/// Hosts to visit, fully parsed.
pub(super) struct Destination {
    plan: RunPlan,
    hosts: Vec<Host>,
    engine: Engine,
}

/// A visit that has begun, and the signal that asks for its end.
pub(super) struct Visiting {
    /// The visit.
    pub visit: controller::Visit,
    /// Number of the signal; zero until it comes.
    pub stop: Arc<AtomicUsize>,
    /// Keeps the token file until the end.
    _joining: Option<Joining>,
}

impl Destination {
    /// Parses the arguments.
    pub(super) fn parse(words: &VisitArguments) -> Result<Self, UsageError> {
        let here = || words.hostfile.is_none().then(|| "local".to_owned());
        let named = HostWords {
            list: words.hosts.clone().or_else(here),
            file: words.hostfile.clone(),
            exclude: words.exclude.clone(),
            ..HostWords::default()
        };
        let (mut hosts, engine) = resolve::hosts_of(&named, &words.launch)?;
        if matches!(engine, Engine::Awaited | Engine::Step) {
            let text = "no nodes are awaited here: start pipebench once, and name the hosts (leave out --await)";
            return Err(UsageError::Value(text.to_owned()));
        }
        // Several nodes of a host count as one host.
        let mut known: Vec<Host> = Vec::new();
        hosts.retain(|host| {
            let is_new = !known.contains(host);
            known.push(host.clone());
            is_new
        });
        resolve::check_launch(&words.launch)?;
        engine.starter(&words.launch, &hosts)?;
        // A visit starts nodes and gives them no work.
        let work = Work::Acceptance(Acceptance::default());
        let nodes = resolve::nodes_of(&hosts)?;
        let plan = RunPlan::of(nodes, work, resolve::deadlines_of(&words.launch)?);
        Ok(Self {
            plan,
            hosts,
            engine,
        })
    }

    /// The hosts as a folded host list.
    pub(super) fn names(&self) -> String {
        let labels: Vec<String> = self.plan.nodes.iter().map(|it| it.label.clone()).collect();
        launcher::hosts::fold(&labels)
    }

    /// Starts the visit. The error is the exit code.
    pub(super) fn visit(&self, launch: &Launch) -> Result<Visiting, u8> {
        let (program, stop) = process::stand_by(&self.hosts, launch)?;
        let mut settings = resolve::settings(launch, &self.plan, &self.engine, &stop);
        let joining = Joining::open(launch, &self.engine, &self.hosts)?;
        if let Some(joining) = &joining {
            joining.serve(&mut settings);
        }
        let conditions = Conditions {
            settings,
            program,
            stop: Arc::clone(&stop),
            command: Vec::new(),
            options: Vec::new(),
            hold: None,
            // A visit makes no links, and needs neither.
            token: String::new(),
            secret: String::new(),
            started_ms: 0,
            seal: None,
            resumed: None,
            name: None,
            watched: false,
        };
        let visit = controller::Visit::start(&self.plan, &self.hosts, &conditions, &mut Aside);
        Ok(Visiting {
            visit,
            stop,
            _joining: joining,
        })
    }
}

/// Parses the beginning of a token, which names a run: 4 to 32 hexadecimal digits.
pub(super) fn parse_token(flag: &str, text: &str) -> Result<String, UsageError> {
    const LEAST: usize = 4;
    let token = text.to_ascii_lowercase();
    let is_hex = token.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !(LEAST..=32).contains(&token.len()) {
        return Err(UsageError::Value(format!(
            "{flag} {text:?} is not a token of a run (write 4 or more digits of its token; 'pipebench status' lists them)"
        )));
    }
    Ok(token)
}

/// Token of the only run that `given` names. The error is exit code and sentence.
pub(super) fn find_run(views: &[View], given: &str, names: &str) -> Result<String, (u8, String)> {
    let mut found = status::matching(views, given);
    match found.len() {
        0 => Err((exit::USAGE, format!("no run {given} on {names}"))),
        1 => Ok(found.remove(0)),
        count => {
            let starts = |digits: usize| found.iter().map(move |it| it.get(..digits).unwrap_or(it));
            // Enough digits to distinguish the runs.
            let digits = (given.len() + 1..=32)
                .find(|digits| starts(*digits).collect::<BTreeSet<&str>>().len() == count)
                .map_or(32, |digits| digits.max(6));
            let runs = starts(digits).collect::<Vec<&str>>().join(", ");
            let text = format!("{given} names {count} runs: {runs} (give more digits)");
            Err((exit::USAGE, text))
        }
    }
}

/// Pairs each sighting with the earlier one of the same host. Hosts without an earlier one are left out.
pub(super) fn views(before: &[(String, Sighting)], now: Vec<(String, Sighting)>) -> Vec<View> {
    let beside = |(host, now): (String, Sighting)| {
        let (_, before) = before.iter().find(|(known, _)| *known == host)?;
        Some(View {
            before: before.clone(),
            now,
            host,
        })
    };
    now.into_iter().filter_map(beside).collect()
}

/// Prints the hosts that could not be visited; returns the exit code that follows.
pub(super) fn complain_of(troubles: &[Trouble]) -> u8 {
    for line in status::failures(troubles) {
        complain(&line);
    }
    match troubles.first() {
        None => exit::OK,
        Some(trouble) if trouble.kind == TroubleKind::Version => exit::VERSION,
        Some(_) => exit::UNREACHABLE,
    }
}

/// Exit code of a visit that ended with `own`: a run that is not found can be on a host that was not reached.
pub(super) fn code_of(own: u8, unreached: u8) -> u8 {
    match own {
        exit::USAGE if unreached != exit::OK => unreached,
        own => own,
    }
}

/// Observer that prints only notices.
struct Aside;

impl Observer for Aside {
    fn see(&mut self, event: RunEvent<'_>) {
        if let RunEvent::Notice(text) = event {
            write_all(&mut std::io::stderr().lock(), &format!("{text}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::seen;

    fn view(tokens: &[&str]) -> View {
        let nodes = tokens.iter().map(|token| {
            let mut node = seen(0, &["n1"]);
            node.card.token = (*token).to_owned();
            node
        });
        let now = Sighting {
            nodes: nodes.collect(),
            ..Sighting::default()
        };
        View {
            host: "n1".to_owned(),
            before: now.clone(),
            now,
        }
    }

    #[test]
    fn a_run_is_named_by_as_many_digits_as_tell_it_apart() {
        let tokens = [
            "3f9a1c00112233445566778899aabbcc",
            "3f9a1c77112233445566778899aabbcc",
        ];
        let views = [view(&tokens)];
        assert_eq!(find_run(&views, "3f9a1c77", "n1").unwrap(), tokens[1]);
        let (code, text) = find_run(&views, "3f9a", "n1").unwrap_err();
        assert_eq!(code, exit::USAGE);
        assert_eq!(
            text,
            "3f9a names 2 runs: 3f9a1c0, 3f9a1c7 (give more digits)"
        );
        let (code, text) = find_run(&views, "beef", "n[1-3]").unwrap_err();
        assert_eq!(
            (code, text.as_str()),
            (exit::USAGE, "no run beef on n[1-3]")
        );
    }

    #[test]
    fn a_token_needs_four_digits() {
        assert_eq!(parse_token("--end", "3F9A").unwrap(), "3f9a");
        for bad in ["", "3f9", "xyzw", "3f9a1c00112233445566778899aabbcc0"] {
            let error = parse_token("--end", bad).unwrap_err().to_string();
            assert!(error.starts_with("--end "), "{error}");
        }
    }
}
