//! Takes requests: holds them against the site, puts them on the shelf, starts keepers; and looks after those that lost theirs.

use std::collections::HashMap;
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::record::Record;
use crate::store::StoreError;
use crate::units;

use super::keeper;
use super::request::{self, Asked, Extent, Fields, REQUEST_VERSION, Refusal, Request};
use super::shelf::{LAPSE_MS, RunName, Shelf};
use super::state::{How, Outcome, Stage, State};
use super::{Site, Tools};

/// A run may take so much longer than the site says of data: hosts are started, links drained, suspects measured again.
const MARGIN_MS: u64 = 5 * 60 * 1000;

/// Why a request was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Declined {
    /// The site does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many wait.
    #[error("{0} runs wait for {1:?} already")]
    Full(usize, String),
    /// Somebody asks too often.
    #[error("too many starts: wait a minute")]
    TooOften,
    /// The shelf cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No keeper could be started.
    #[error("cannot start a keeper: {}", crate::sys::why(.0))]
    Keeper(std::io::Error),
}

/// What would be done.
pub struct Offer {
    /// The request, as it was understood.
    pub asked: Asked,
    /// What it takes.
    pub extent: Extent,
}

/// Who starts keepers.
enum Starts {
    /// A thread of the server: keepers end with it.
    Thread(Sender<RunName>),
    /// This process, which is gone in a moment.
    Detached,
}

/// Takes requests.
pub struct Clerk {
    /// What the site allows.
    pub site: Site,
    /// Its runs.
    pub shelf: Shelf,
    tools: Tools,
    starts: Starts,
    /// Runs that are over do not change.
    known: Mutex<HashMap<RunName, State>>,
}

impl Clerk {
    /// Of a program that lives for one request: its runs are detached.
    pub fn detached(site: Site, tools: Tools) -> Result<Self, StoreError> {
        let shelf = Shelf::open(&site.results)?;
        Ok(Self::with(site, shelf, tools, Starts::Detached))
    }

    /// Of a server: keepers are started by [`tend`], in a thread that lives as long as their runs may.
    pub fn serving(site: Site, tools: Tools) -> Result<(Self, Receiver<RunName>), StoreError> {
        let shelf = Shelf::open(&site.results)?;
        let (sender, receiver) = channel();
        Ok((
            Self::with(site, shelf, tools, Starts::Thread(sender)),
            receiver,
        ))
    }

    fn with(site: Site, shelf: Shelf, tools: Tools, starts: Starts) -> Self {
        Self {
            site,
            shelf,
            tools,
            starts,
            known: Mutex::new(HashMap::new()),
        }
    }

    /// The date, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        (self.tools.now_ms)()
    }

    /// 128 bits at random, as hexadecimal digits.
    pub fn random(&self) -> String {
        (self.tools.random)()
    }

    /// What a request would do.
    pub fn offer(&self, fields: &Fields) -> Result<Offer, Refusal> {
        let asked = request::hold(fields, &self.site)?;
        let plan =
            (self.tools.understand)(&asked.words).map_err(|what| Refusal { field: "run", what })?;
        let extent = Extent::of(&plan, &self.site)?;
        Ok(Offer { asked, extent })
    }

    /// A name for a run that may be started.
    pub fn new_name(&self) -> String {
        units::run_name(self.now_ms(), &self.random())
    }

    /// Takes a request; the name of its run. One that was asked for by name is started once, however often it is asked for.
    pub fn start(&self, fields: &Fields, wanted: Option<RunName>) -> Result<RunName, Declined> {
        let Offer { asked, extent } = self.offer(fields)?;
        let door = self.shelf.door()?;
        if let Some(name) = wanted.as_ref().filter(|name| self.shelf.has(name)) {
            return Ok(name.clone());
        }
        self.sweep();
        let waiting = self.shelf.queue().into_iter().filter(|(name, fabric)| {
            *fabric == asked.fabric && self.shelf.is_kept(name, self.now_ms())
        });
        // The first of them has the fabric.
        let waiting = waiting.count().saturating_sub(1);
        if waiting >= self.site.limits.waiting {
            return Err(Declined::Full(waiting, asked.fabric));
        }
        let asked_ms = self.now_ms();
        let name = wanted.map_or_else(|| self.new_name(), |name| name.to_string());
        let request = Request {
            version: REQUEST_VERSION,
            name: name.clone(),
            asked_ms,
            by: asked.by,
            note: asked.note,
            what: asked.what,
            fabric: asked.fabric,
            fields: fields.clone(),
            words: asked.words,
            extent,
            limit_ms: self.site.limits.duration_ns / 1_000_000 + MARGIN_MS,
        };
        let Ok(name) = name.parse::<RunName>() else {
            return Err(Declined::Keeper(std::io::ErrorKind::InvalidInput.into()));
        };
        self.shelf.add(&request)?;
        drop(door);
        match &self.starts {
            // The thread ends with the server; the queue has the request.
            Starts::Thread(sender) => match sender.send(name.clone()) {
                Ok(()) | Err(_) => {}
            },
            Starts::Detached => {
                if let Err(error) = keeper::start(&self.tools, &self.shelf, &name, false) {
                    fail(
                        &self.shelf,
                        &name,
                        &request,
                        error.to_string(),
                        self.now_ms(),
                    );
                    return Err(Declined::Keeper(error));
                }
            }
        }
        Ok(name)
    }

    /// Sees to requests that lost their keepers, where no server does: below a web server each start and each first page looks after them.
    pub fn sweep(&self) {
        if !matches!(self.starts, Starts::Detached) {
            return;
        }
        for name in orphans(&self.shelf, &self.site, &self.tools) {
            match keeper::start(&self.tools, &self.shelf, &name, false) {
                Ok(_) | Err(_) => {} // The next one who looks tries again.
            }
        }
    }

    /// A run as it is now; none if there is no such run.
    pub fn state(&self, name: &RunName) -> Option<State> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // A run that was cancelled may write its record a moment later.
        let is_whole = |state: &&State| state.has_record || !self.shelf.has_record(name);
        if let Some(state) = known().get(name).filter(is_whole) {
            return Some(state.clone());
        }
        let state = self.shelf.state(name, self.now_ms())?;
        // What has failed may be seen to again; what has ended without saying how may be about to say so.
        if state.told && matches!(state.state, Stage::Ended | Stage::Cancelled) {
            known().insert(name.clone(), state.clone());
        }
        Some(state)
    }

    /// Asks for the end of a run; false if it is over, or nobody sees to it.
    pub fn cancel(&self, name: &RunName) -> Result<bool, StoreError> {
        let asked = self.shelf.cancel(name, self.now_ms())?;
        self.sweep();
        Ok(asked)
    }

    /// Runs with these words, latest first, at most so many; and whether there are more.
    pub fn find(&self, words: &str, most: usize) -> (Vec<State>, bool) {
        let names = self.shelf.names().into_iter();
        let states = names.filter_map(|name| self.state(&name));
        let mut found: Vec<State> = states
            .filter(|state| state.has(words))
            .take(most + 1)
            .collect();
        let more = found.len() > most;
        found.truncate(most);
        (found, more)
    }

    /// Runs that wait or run, in the order of the queue.
    pub fn under_way(&self) -> Vec<State> {
        let queue = self.shelf.queue().into_iter();
        let states = queue.filter_map(|(name, _)| self.state(&name));
        states.filter(|state| !state.is_over()).collect()
    }

    /// The record of a run.
    pub fn record(&self, name: &RunName) -> Option<Record> {
        self.shelf.record(name)
    }
}

/// Starts keepers until it is over, and takes note of those that have ended; now and then it starts those again that lost theirs before their turn,
/// as when a server went away. A keeper ends with the thread that started it: this one must live as long as the server.
pub fn tend(
    shelf: &Shelf,
    site: &Site,
    tools: &Tools,
    wanted: &Receiver<RunName>,
    is_over: &dyn Fn() -> bool,
) {
    const LOOK: Duration = Duration::from_millis(200);
    /// Looks between two for orphans.
    const ROUND: u32 = 10;
    let mut children: Vec<(RunName, Child)> = Vec::new();
    let mut looks = 0_u32;
    while !is_over() {
        let mut names: Vec<RunName> = wanted.recv_timeout(LOOK).into_iter().collect();
        children.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
        if looks.is_multiple_of(ROUND) {
            names.extend(orphans(shelf, site, tools));
        }
        looks = looks.wrapping_add(1);
        for name in names {
            // One that was started a moment ago has not said so yet.
            if children.iter().any(|(known, _)| *known == name) {
                continue;
            }
            match keeper::start(tools, shelf, &name, true) {
                Ok(child) => children.push((name, child)),
                Err(error) => super::tell(&format!(
                    "cannot start a keeper for {name}: {}",
                    crate::sys::why(&error)
                )),
            }
        }
    }
    for (_, child) in &children {
        keeper::tell(child, Signal::SIGTERM);
    }
    for (_, mut child) in children {
        match child.wait() {
            Ok(_) | Err(_) => {}
        }
    }
}

/// Requests that nobody sees to and that never began, if the site still allows them; the others get their outcome.
fn orphans(shelf: &Shelf, site: &Site, tools: &Tools) -> Vec<RunName> {
    let now_ms = (tools.now_ms)();
    let mut found = Vec::new();
    for (name, _) in shelf.queue() {
        let Some(request) = shelf.request(&name) else {
            continue;
        };
        // In the first seconds nobody knows yet whether a detached keeper is coming.
        if shelf.is_kept(&name, now_ms) {
            continue;
        }
        if shelf.outcome(&name).is_some() {
            shelf.leave_queue(&request);
            continue;
        }
        let began = shelf
            .keeper(&name)
            .is_some_and(|keeper| keeper.began_ms.is_some());
        let is_late = now_ms.saturating_sub(request.asked_ms) >= LAPSE_MS;
        let how = match (shelf.is_cancelled(&name), began, is_late) {
            (true, ..) => How::Cancelled,
            (false, true, _) => How::Lost,
            (false, false, true) => How::Lapsed,
            (false, false, false) => match still_allowed(&request, site, tools) {
                Ok(()) => {
                    found.push(name);
                    continue;
                }
                Err(what) => {
                    fail(shelf, &name, &request, what, now_ms);
                    continue;
                }
            },
        };
        end(shelf, &name, &request, how, None, now_ms);
    }
    found
}

/// The site may allow less by now than when it was asked.
fn still_allowed(request: &Request, site: &Site, tools: &Tools) -> Result<(), String> {
    let told = |refusal: Refusal| format!("this site does not allow it any more: {refusal}");
    let asked = request::hold(&request.fields, site).map_err(told)?;
    if asked.words != request.words {
        return Err("this site means something else by it by now".to_owned());
    }
    let plan = (tools.understand)(&asked.words)?;
    Extent::of(&plan, site).map(|_| ()).map_err(told)
}

fn fail(shelf: &Shelf, name: &RunName, request: &Request, what: String, now_ms: u64) {
    end(shelf, name, request, How::Failed, Some(what), now_ms);
}

/// Writes down how a request ended that no keeper will.
fn end(
    shelf: &Shelf,
    name: &RunName,
    request: &Request,
    how: How,
    complaint: Option<String>,
    now_ms: u64,
) {
    let outcome = Outcome {
        how,
        exit_code: None,
        ended_ms: now_ms,
        card: None,
        complaint,
    };
    if shelf.set_outcome(name, &outcome).is_ok() {
        shelf.leave_queue(request);
    }
}
