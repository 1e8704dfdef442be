//! Accepts requests: checks them against the site, stores them in the run store, and starts runners. Also handles requests that lost their runners.

use std::collections::HashMap;
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::report::listing;
use crate::store::StoreError;
use crate::units;

use super::request::{self, Asked, Extent, Fields, REQUEST_VERSION, Refusal, Request};
use super::run_store::{FolderError, LAPSE_MS, RunName, RunStore};
use super::runner;
use super::site::Site;
use super::state::{How, Outcome, Stage, State};
use super::tools::{self, Tools};

/// Time that a run can take beyond the site's limit for data, in milliseconds: it starts hosts, drains links, and measures suspects again.
const MARGIN_MS: u64 = 5 * 60 * 1000;

/// Reason why a request was not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Declined {
    /// The site does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many runs wait for the fabric: their number, and its name.
    #[error("{0} runs already wait for fabric {1:?}: try again later")]
    Full(usize, String),
    /// A client starts too many runs within a minute.
    #[error("too many starts from this address: wait a minute")]
    TooOften,
    /// The run store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No runner could be started.
    #[error("cannot start a runner: {}", crate::sys::why(.0))]
    Runner(std::io::Error),
}

/// Description of a run before its start.
pub(super) struct Offer {
    /// The request, checked against the site.
    pub asked: Asked,
    /// Ports, nodes, tests and time of the run.
    pub extent: Extent,
    /// Its nodes, folded.
    pub hosts: String,
}

/// A run to start, and its request after the check against the site.
pub(super) type Wanted = (RunName, Request);

/// Accepts requests and reports on runs.
pub(super) struct Queue {
    /// Settings of the site.
    pub site: Site,
    /// Runs of the site.
    pub run_store: RunStore,
    tools: Tools,
    /// Thread of the server that starts runners, which end with it. `None`: this process, which ends soon, starts detached runners.
    starter: Option<Sender<Wanted>>,
    /// Cache of runs that are over, which do not change.
    known: Mutex<HashMap<RunName, State>>,
    /// Cache of [`Queue::lengths`], by profile and pattern: each is a plan for each group.
    lengths: Mutex<HashMap<[String; 2], Lengths>>,
}

/// Planned time of a test on each group in milliseconds, or why the group cannot run it.
pub(super) type Lengths = Vec<Result<u64, Refusal>>;

impl Queue {
    /// Creates a queue. A server has a `starter`, and passes the other end to [`Queue::tend`], in a thread that lives as long as the runs can. Runs of a
    /// program that lives for one request are detached.
    pub(super) fn new(
        site: Site,
        tools: Tools,
        starter: Option<Sender<Wanted>>,
    ) -> Result<Self, FolderError> {
        Ok(Self {
            run_store: RunStore::open(&site.results)?,
            site,
            tools,
            starter,
            known: Mutex::default(),
            lengths: Mutex::default(),
        })
    }

    /// The date, in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        (self.tools.now_ms)()
    }

    /// 128 random bits as hexadecimal digits.
    pub(super) fn random(&self) -> String {
        (self.tools.random)()
    }

    /// Checks a request and describes its run. The error names the field that is wrong.
    pub(super) fn offer(&self, fields: &Fields) -> Result<Offer, Refusal> {
        offer(fields, &self.site, &self.tools)
    }

    /// Planned time of a profile and pattern on each group of the site.
    pub(super) fn lengths(&self, profile: &str, pattern: &str) -> Lengths {
        let key = [profile, pattern].map(str::to_owned);
        let mut known = self.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        let length = |group: &String| {
            let [profile, pattern] = key.clone();
            let fields = Fields {
                group: group.clone(),
                profile,
                pattern,
                ..Fields::default()
            };
            self.offer(&fields).map(|offer| offer.extent.data_ms)
        };
        let groups = self.site.groups.keys();
        known
            .entry(key.clone())
            .or_insert_with(|| groups.map(length).collect())
            .clone()
    }

    /// Makes a name for a run that can be started later.
    pub(super) fn new_name(&self) -> String {
        units::run_name(self.now_ms(), &self.random())
    }

    /// Accepts a request and returns the name of its run. If a run named `wanted` exists already, returns that name and starts nothing.
    pub(super) fn start(
        &self,
        fields: &Fields,
        wanted: Option<RunName>,
    ) -> Result<RunName, Declined> {
        let Offer {
            asked,
            extent,
            hosts,
        } = self.offer(fields)?;
        let door = self.run_store.door()?;
        if let Some(name) = wanted.as_ref().filter(|name| self.run_store.has(name)) {
            return Ok(name.clone());
        }
        self.sweep();
        let Ok(name) = wanted.map_or_else(|| self.new_name().parse(), Ok) else {
            return Err(Declined::Runner(std::io::ErrorKind::InvalidInput.into()));
        };
        let asked_ms = self.now_ms();
        let before = self.run_store.before(&name, &asked.fabric, asked_ms);
        // The first of them holds the fabric.
        let waiting = before.len().saturating_sub(1);
        if waiting >= self.site.limits.waiting {
            return Err(Declined::Full(waiting, asked.fabric));
        }
        let request = Request {
            version: REQUEST_VERSION,
            name: name.to_string(),
            asked_ms,
            asked,
            extent,
            hosts,
            limit_ms: self.site.limits.duration_ns / 1_000_000 + MARGIN_MS,
        };
        self.run_store.add(&request)?;
        drop(door);
        match &self.starter {
            // The thread ends with the server; the queue keeps the request.
            Some(starter) => match starter.send((name.clone(), request)) {
                Ok(()) | Err(_) => {}
            },
            None => {
                let folder = self.run_store.folder_of(&name);
                if let Err(error) = runner::start(&self.tools, &folder, &request, false) {
                    self.end(&name, &request, How::Failed, Some(error.to_string()));
                    return Err(Declined::Runner(error));
                }
            }
        }
        Ok(name)
    }

    /// Starts new runners for requests that lost theirs, if runners are detached. Without a server, each start, cancel and first page does this.
    pub(super) fn sweep(&self) {
        if self.starter.is_some() {
            return;
        }
        for (name, request) in self.orphans() {
            let folder = self.run_store.folder_of(&name);
            // The next sweep tries again.
            let (Ok(_) | Err(_)) = runner::start(&self.tools, &folder, &request, false);
        }
    }

    /// State of a run now. `None` when the run does not exist.
    pub(super) fn state(&self, name: &RunName) -> Option<State> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // A cancelled run can write its record a moment later.
        let is_whole = |state: &&State| state.has_record || !self.run_store.has_record(name);
        if let Some(state) = known().get(name).filter(is_whole) {
            return Some(state.clone());
        }
        let state = self.run_store.state(name, self.now_ms())?;
        // Do not cache the others: a failed run can get a runner again, and a run without an outcome can be about to store it.
        if state.told && matches!(state.state, Stage::Ended | Stage::Cancelled) {
            known().insert(name.clone(), state.clone());
        }
        Some(state)
    }

    /// Asks a run to end. Returns false if it is over, or has no runner and gets none.
    pub(super) fn cancel(&self, name: &RunName) -> Result<bool, StoreError> {
        let asked = self.run_store.cancel(name, self.now_ms())?;
        self.sweep();
        Ok(asked)
    }

    /// Finds runs with all these words, latest first, at most `most`. The second value is true if more exist.
    pub(super) fn find(&self, words: &str, most: usize) -> (Vec<State>, bool) {
        self.find_before(None, |state| state.has(words), most)
    }

    /// The runs before this one that are wanted. `None`: among all runs.
    pub(super) fn find_before(
        &self,
        before: Option<&RunName>,
        is_wanted: impl Fn(&State) -> bool,
        most: usize,
    ) -> (Vec<State>, bool) {
        let names = self.run_store.names().into_iter();
        let names = names.filter(|name| before.is_none_or(|before| name < before));
        let states = names.filter_map(|name| self.state(&name));
        let mut found: Vec<State> = states.filter(is_wanted).take(most + 1).collect();
        let more = found.len() > most;
        found.truncate(most);
        (found, more)
    }

    /// The runs that this queued run waits for, in queue order.
    pub(super) fn ahead(&self, state: &State) -> Vec<State> {
        let Ok(name) = state.name.parse::<RunName>() else {
            return Vec::new();
        };
        let Some(request) = self.run_store.request(&name) else {
            return Vec::new();
        };
        let fabric = &request.asked.fabric;
        let before = self.run_store.before(&name, fabric, self.now_ms());
        let states = before.iter().filter_map(|name| self.state(name));
        states.collect()
    }

    /// Runs that wait or run, in queue order.
    pub(super) fn under_way(&self) -> Vec<State> {
        let queue = self.run_store.queue().into_iter();
        let states = queue.filter_map(|(name, _)| self.state(&name));
        states.filter(|state| !state.is_over()).collect()
    }

    /// Starts runners until `is_over`, and reaps those that have ended. Regularly starts new runners for runs that lost theirs before their turn, as
    /// when a server ended. Ends all its runners before it returns. A runner ends with the thread that started it: this thread must live as long as
    /// the server.
    pub(super) fn tend(&self, wanted: &Receiver<Wanted>, is_over: &dyn Fn() -> bool) {
        const LOOK: Duration = Duration::from_millis(200);
        /// Number of looks from one search for orphans to the next.
        const ROUND: u32 = 10;
        let mut children: Vec<(RunName, Child)> = Vec::new();
        let mut looks = 0_u32;
        while !is_over() {
            let mut wanted: Vec<Wanted> = wanted.recv_timeout(LOOK).into_iter().collect();
            children.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
            if looks.is_multiple_of(ROUND) {
                wanted.extend(self.orphans());
            }
            looks = looks.wrapping_add(1);
            for (name, request) in wanted {
                // A runner that was just started has not stored its process id yet.
                if children.iter().any(|(known, _)| *known == name) {
                    continue;
                }
                let folder = self.run_store.folder_of(&name);
                match runner::start(&self.tools, &folder, &request, true) {
                    Ok(child) => children.push((name, child)),
                    Err(error) => tools::tell(&format!(
                        "cannot start a runner for {name}: {}",
                        crate::sys::why(&error)
                    )),
                }
            }
        }
        for (_, child) in &children {
            runner::tell(child, Signal::SIGTERM);
        }
        for (_, mut child) in children {
            let (Ok(_) | Err(_)) = child.wait();
        }
    }

    /// Queued requests without a runner that never began, if the site still allows them. All others without a runner get their outcome.
    fn orphans(&self) -> Vec<Wanted> {
        let (run_store, now_ms) = (&self.run_store, self.now_ms());
        let mut found = Vec::new();
        for (name, _) in run_store.queue() {
            let Some(request) = run_store.request(&name) else {
                continue;
            };
            // In the first seconds a detached runner can still be starting.
            if run_store.is_kept(&name, now_ms) {
                continue;
            }
            if run_store.outcome(&name).is_some() {
                run_store.leave_queue(&request);
                continue;
            }
            let runner = run_store.runner(&name);
            let began = runner.is_some_and(|runner| runner.began_ms.is_some());
            let is_late = now_ms.saturating_sub(request.asked_ms) >= LAPSE_MS;
            let (how, complaint) = match (run_store.is_cancelled(&name), began, is_late) {
                (true, ..) => (How::Cancelled, None),
                (false, true, _) => (How::Lost, None),
                (false, false, true) => (How::Lapsed, None),
                (false, false, false) => {
                    match still_allowed(&name, &request, &self.site, &self.tools) {
                        Ok(()) => {
                            found.push((name, request));
                            continue;
                        }
                        Err(what) => (How::Failed, Some(what)),
                    }
                }
            };
            self.end(&name, &request, how, complaint);
        }
        found
    }

    /// Stores the outcome of a request that has no runner to do so.
    fn end(&self, name: &RunName, request: &Request, how: How, complaint: Option<String>) {
        let outcome = Outcome {
            how,
            exit_code: None,
            ended_ms: self.now_ms(),
            card: None,
            complaint,
        };
        if self.run_store.set_outcome(name, &outcome).is_ok() {
            self.run_store.leave_queue(request);
        }
    }
}

/// Checks a request against a site and describes its run. The error names the field that is wrong.
pub(super) fn offer(fields: &Fields, site: &Site, tools: &Tools) -> Result<Offer, Refusal> {
    let asked = request::hold(fields, site)?;
    let plan = (tools.understand)(&asked.words).map_err(refusal_of)?;
    let extent = Extent::of(&plan, site)?;
    Ok(Offer {
        asked,
        extent,
        hosts: listing::hosts(&plan),
    })
}

/// A refusal of the command line, at the field that its option comes from.
fn refusal_of(what: String) -> Refusal {
    const OPTIONS: [&str; 5] = ["rate", "time", "phases", "pattern", "hosts"];
    let of_option = OPTIONS.into_iter().find_map(|field| {
        let rest = what.strip_prefix("--")?.strip_prefix(field)?;
        Some(Refusal::of(field, rest.strip_prefix(": ")?))
    });
    of_option.unwrap_or_else(|| Refusal::of("run", what))
}

/// Checks a stored request again, because the site can allow less by now. The error is a sentence.
fn still_allowed(
    name: &RunName,
    request: &Request,
    site: &Site,
    tools: &Tools,
) -> Result<(), String> {
    let told = |refusal: Refusal| format!("this site no longer allows it: {refusal}");
    let asked = request::hold(&request.asked.fields, site).map_err(told)?;
    // Name and fabric become parts of paths.
    let is_same = asked.words == request.asked.words && asked.fabric == request.asked.fabric;
    if !is_same || request.name != name.to_string() {
        return Err("the stored request no longer matches the site's file".to_owned());
    }
    let plan = (tools.understand)(&asked.words)?;
    Extent::of(&plan, site).map(|_| ()).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::run_store::tests::request;
    use crate::web::site::tests::site;

    /// Symptom: "--rate: 1000 bit/s?" stood above the form, and the field was not marked.
    #[test]
    fn a_refusal_of_an_option_stands_at_its_field() {
        let refusal = refusal_of("--rate: 1000 bit/s? (write 1000M)".to_owned());
        assert_eq!(
            (refusal.field, refusal.what.as_str()),
            ("rate", "1000 bit/s? (write 1000M)")
        );
        let refusal = refusal_of("--ratex: no".to_owned());
        assert_eq!(
            (refusal.field, refusal.what.as_str()),
            ("run", "--ratex: no")
        );
    }

    /// Name and fabric of a stored request become parts of paths.
    #[test]
    fn a_stored_request_that_says_more_than_its_fields_is_not_started() {
        const NAME: &str = "pb-20261121-101500-abcdef";
        let site = site();
        let fields = Fields {
            group: "local".to_owned(),
            ..Fields::default()
        };
        let asked = request::hold(&fields, &site).unwrap();
        let stored = |name: &str, fabric: &str| Request {
            asked: Asked {
                fabric: fabric.to_owned(),
                ..asked.clone()
            },
            ..request(name, 1000, fabric)
        };
        let tools = Tools {
            understand: |_| Err("understood".to_owned()),
            now_ms: || 2000,
            random: String::new,
            program: std::path::PathBuf::new(),
        };
        let checked = |request: &Request| {
            still_allowed(&NAME.parse().unwrap(), request, &site, &tools).unwrap_err()
        };
        assert_eq!(checked(&stored(NAME, "local")), "understood");
        let mut other = stored(NAME, "local");
        other.asked.words = vec!["--rsh=x".to_owned()];
        for request in [stored(NAME, "../x"), stored("../x", "local"), other] {
            let why = checked(&request);
            assert!(why.contains("no longer matches"), "{why}");
        }
    }
}
