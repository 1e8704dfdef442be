//! One run per host: whoever holds the host's name has it.
//!
//! ```text
//!  first run                                   second run
//!  binds the name, listens                     binds: taken
//!                                       <---   connects
//!  accepts, writes its line, closes     --->   reads who it is, reports busy
//!  (ends: the name is gone at once)     --->   end-of-file without a line: binds again
//!  (stopped: says nothing)                     asks the kernel who listens
//! ```
//!
//! The name is abstract: there is no file to leave behind, it goes with its process however that ends, and it is
//! that of a network namespace, which is what counts as a host here. Of several nodes of a run on one host the first
//! one holds it for all.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::Assignment;
use crate::plan::job::RankAssignment;
use crate::record::{Trouble, TroubleKind};
use crate::sys::socket::{self, SocketOptions};
use crate::sys::{clock, process, why};
use crate::units::show_since;

use super::census;

const NAME: &str = "pipebench-host";

/// A name that was just given up is taken by the next one; one whose run is only just ending may still be answered for.
const GRACE_NS: u64 = 300_000_000;
/// A holder that ends gives the name free within this time, busy as it may be with its children.
const LIMIT_NS: u64 = 2_000_000_000;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
const LINE_BYTES: usize = 4096;

/// The host, held for one run until this is dropped or the process ends.
pub struct HostLock {
    listener: OwnedFd,
    line: Vec<u8>,
}

/// What the holder says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    token: String,
    by: String,
    since_ms: u64,
}

/// Why the name could not be had.
#[derive(Debug)]
enum Refusal {
    /// Another run has it.
    Taken(Holder),
    /// Somebody has it and says nothing.
    Silent(Option<i32>),
    /// It cannot be had at all.
    Failed(io::Error),
}

/// Who wants the host, and for what run.
pub struct Claim<'a> {
    token: &'a str,
    by: &'a str,
    started_ms: u64,
    node: usize,
    same_host: &'a [bool],
}

impl<'a> Claim<'a> {
    /// For a test.
    pub fn of_test(assignment: &'a Assignment) -> Self {
        Self {
            token: &assignment.token,
            by: &assignment.by,
            started_ms: assignment.started_ms,
            node: assignment.node,
            same_host: &assignment.same_host,
        }
    }

    /// For a job of ranks.
    pub fn of_job(assignment: &'a RankAssignment) -> Self {
        Self {
            token: &assignment.token,
            by: &assignment.by,
            started_ms: assignment.started_ms,
            node: assignment.node,
            same_host: &assignment.same_host,
        }
    }

    /// Whether this node takes the lock for all nodes of its run on this host.
    pub fn is_holder(&self) -> bool {
        self.same_host.iter().position(|same| *same) == Some(self.node)
    }
}

impl HostLock {
    /// Takes the host for a run.
    pub fn take(claim: &Claim<'_>) -> Result<Self, Trouble> {
        let own = Holder {
            // Anybody on the host may ask; the whole token would open the run's links.
            token: claim.token.chars().take(16).collect(),
            by: claim.by.to_owned(),
            since_ms: claim.started_ms,
        };
        take(NAME, &own).map_err(|refusal| {
            let what = explain(refusal, clock::wall_ms());
            Trouble::own(TroubleKind::Resource, what)
        })
    }

    /// Becomes readable when somebody asks.
    pub fn descriptor(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// Answers whoever has asked.
    pub fn answer(&self) {
        const AT_ONCE: usize = 64;
        for _ in 0..AT_ONCE {
            let Ok(Some(caller)) = socket::accept(self.listener.as_fd(), Duration::ZERO) else {
                return;
            };
            // The line is much shorter than a socket's buffer, and whoever does not read it does not get it.
            if socket::set_nonblocking(&caller, true).is_ok() {
                match socket::send_bytes(caller.as_fd(), &self.line) {
                    Ok(_) | Err(_) => {}
                }
            }
        }
    }
}

fn take(name: &str, own: &Holder) -> Result<HostLock, Refusal> {
    let mut first_ns = None;
    loop {
        match socket::listen_unix(name, &SocketOptions::default()) {
            Ok(listener) => {
                socket::set_nonblocking(&listener, true).map_err(Refusal::Failed)?;
                let mut line = serde_json::to_vec(own).unwrap_or_default();
                line.push(b'\n');
                return Ok(HostLock { listener, line });
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(Refusal::Failed(error)),
        }
        let first_ns = *first_ns.get_or_insert_with(clock::monotonic_ns);
        let is_late = |limit_ns| clock::monotonic_ns() > first_ns + limit_ns;
        match ask(name) {
            Answer::Holder(holder) if is_late(GRACE_NS) => return Err(Refusal::Taken(holder)),
            Answer::Silent(pid) if is_late(LIMIT_NS) || pid.is_some_and(process::is_stopped) => {
                return Err(Refusal::Silent(pid));
            }
            Answer::Gone if is_late(LIMIT_NS) => return Err(Refusal::Silent(None)),
            Answer::Holder(_) | Answer::Silent(_) | Answer::Gone => {}
        }
        clock::sleep_until(clock::monotonic_ns() + 20_000_000);
    }
}

enum Answer {
    Holder(Holder),
    Silent(Option<i32>),
    /// It has ended meanwhile.
    Gone,
}

fn ask(name: &str) -> Answer {
    let (pid, said) = match socket::ask_unix(name, PATIENCE, LINE_BYTES) {
        Ok((pid, Ok(said))) => (pid, said),
        Ok((pid, Err(error))) if error.kind() == io::ErrorKind::WouldBlock => {
            return Answer::Silent(pid);
        }
        // Its backlog is full: so many ask, and nobody answers.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Answer::Silent(None),
        Ok((_, Err(_))) | Err(_) => return Answer::Gone,
    };
    match serde_json::from_slice(&said) {
        Ok(holder) => Answer::Holder(holder),
        Err(_) if said.is_empty() => Answer::Gone,
        Err(_) => Answer::Silent(pid),
    }
}

/// The same words on every host that the same run keeps busy, so that they are printed once.
fn explain(refusal: Refusal, now_ms: u64) -> String {
    let run = |token: &str, by: &str, since_ms: u64| {
        // Anybody may listen at the name, and say anything.
        let clean = |text: &str, longest: usize| -> String {
            text.replace(char::is_control, " ")
                .chars()
                .take(longest)
                .collect()
        };
        let (token, by) = (clean(token, 6), clean(by, 100));
        format!("run {token} by {by} since {}", show_since(since_ms, now_ms))
    };
    match refusal {
        Refusal::Taken(holder) => {
            let run = run(&holder.token, &holder.by, holder.since_ms);
            format!("busy: {run} (see 'pipebench status HOSTS')")
        }
        Refusal::Silent(pid) => {
            let card = pid.and_then(census::card_of_owner);
            let who = match (card, pid) {
                (Some(card), _) => run(&card.token, &card.by, card.started_ms),
                (None, Some(pid)) => format!("process {pid} has this host"),
                (None, None) => "somebody has this host".to_owned(),
            };
            let how = if pid.is_some_and(process::is_stopped) {
                "is stopped"
            } else {
                "does not answer"
            };
            format!("busy: {who}, which {how} (see 'pipebench status HOSTS')")
        }
        Refusal::Failed(error) => format!("cannot take this host for the run: {}", why(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(of: &str) -> String {
        format!("pipebench-unit-lock-{of}-{}", std::process::id())
    }

    fn holder(token: &str) -> Holder {
        Holder {
            token: token.repeat(16),
            by: "alice@login1".to_owned(),
            since_ms: 1_795_225_495_000,
        }
    }

    #[test]
    fn a_second_run_is_told_who_has_the_host() {
        let name = name("taken");
        let lock = take(&name, &holder("3f")).unwrap();
        let second = std::thread::spawn({
            let name = name.clone();
            move || take(&name, &holder("77")).err()
        });
        while !second.is_finished() {
            lock.answer();
            clock::sleep_until(clock::monotonic_ns() + 1_000_000);
        }
        let Some(Refusal::Taken(told)) = second.join().unwrap() else {
            panic!("not refused");
        };
        assert_eq!(told, holder("3f"));
        let text = explain(Refusal::Taken(told), 1_795_225_500_000);
        assert_eq!(
            text,
            "busy: run 3f3f3f by alice@login1 since 01:44 UTC (see 'pipebench status HOSTS')"
        );
    }

    #[test]
    fn a_name_that_is_given_up_is_taken_at_once_by_whoever_waits() {
        let name = name("freed");
        let lock = take(&name, &holder("3f")).unwrap();
        let second = std::thread::spawn({
            let name = name.clone();
            move || take(&name, &holder("77")).is_ok()
        });
        // Somebody has asked; instead of an answer the holder ends.
        let asked = socket::readable(lock.listener.as_fd(), Duration::from_secs(5)).unwrap();
        drop(lock);
        assert!(asked && second.join().unwrap());
    }

    #[test]
    fn a_holder_that_says_nothing_is_named_by_its_process() {
        let name = name("silent");
        let _lock = take(&name, &holder("3f")).unwrap();
        let Err(Refusal::Silent(pid)) = take(&name, &holder("77")) else {
            panic!("not refused");
        };
        assert_eq!(pid, Some(process::own_pid()));
        let text = explain(Refusal::Silent(pid), 0);
        assert!(
            text.contains("has this host, which does not answer"),
            "{text}"
        );
    }

    #[test]
    fn whoever_listens_at_the_name_cannot_steer_a_terminal() {
        let mut bad = holder("\u{1b}[");
        bad.by = "x\n\u{7}".repeat(1000);
        let text = explain(Refusal::Taken(bad), 0);
        assert!(
            !text.contains(char::is_control) && text.len() < 300,
            "{text}"
        );
    }
}
