//! One run per host: the process that holds the host's name holds the host.
//!
//! ```text
//!  first run                                   second run
//!  binds the name, listens                     binds: name in use
//!                                       <---   connects
//!  accepts, writes its line, closes     --->   reads the line, reports busy
//!  (ends: the name is free at once)     --->   end-of-file without a line: binds again
//!  (stopped: sends nothing)                    asks the kernel for the owner
//! ```
//!
//! The name is abstract. It leaves no file, and the kernel frees it when its process ends, for any reason. It belongs to a network
//! namespace, which counts as a host here. If a run has several nodes on one host, the first of them holds the name for all.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outside;
use crate::plan::{Membership, SocketOptions};
use crate::record::{Trouble, TroubleKind};
use crate::sys::socket::{self, Owner};
use crate::sys::{clock, facts, process, why};
use crate::units::show_since;

use super::census;

const NAME: &str = "pipebench-host";

/// A holder's answer is final only after this time: a run that is just ending may still answer and then free the name.
const GRACE_NS: u64 = 300_000_000;
/// A holder that ends frees the name within this time, even if it is busy with its children.
const LIMIT_NS: u64 = 2_000_000_000;
/// Timeout of the holder's answer.
const PATIENCE: Duration = Duration::from_secs(1);
const LINE_BYTES: usize = 4096;

/// The host lock of one run. The host is free again once this is dropped or the process ends.
pub(super) struct HostLock {
    listener: OwnedFd,
    line: Vec<u8>,
}

/// The holder's description of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    token: String,
    by: String,
    since_ms: u64,
}

/// Reason why the name could not be taken.
#[derive(Debug)]
enum Refusal {
    /// A process of the user with this id holds it, for this run as it says.
    Taken(u32, Holder),
    /// A process holds it and does not answer.
    Silent(Option<Owner>),
    /// The name cannot be taken at all.
    Failed(io::Error),
}

/// True if this node takes the lock for all nodes of its run on this host.
pub(super) fn is_holder(run: &Membership) -> bool {
    run.place_on_host == 0
}

/// True if a run holds this host.
pub(super) fn is_taken() -> bool {
    socket::listen_unix(NAME, &SocketOptions::default()).is_err()
}

impl HostLock {
    /// Takes the host for a run. If the host is busy, the failure describes the holder.
    pub(super) fn take(run: &Membership) -> Result<Self, Trouble> {
        let own = Holder {
            token: run.token.chars().take(16).collect(),
            by: run.by.clone(),
            since_ms: run.started_ms,
        };
        take(NAME, &own).map_err(|refusal| {
            let what = explain(refusal, clock::wall_ms());
            Trouble::own(TroubleKind::Resource, what)
        })
    }

    /// Descriptor that becomes readable when another process asks for the holder.
    pub(super) fn descriptor(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// Answers the processes that have asked.
    pub(super) fn answer(&self) {
        const AT_ONCE: usize = 64;
        for _ in 0..AT_ONCE {
            let Ok(Some(caller)) = socket::accept(self.listener.as_fd(), Duration::ZERO) else {
                return;
            };
            // The line is much shorter than a socket's buffer. A caller that does not read it does not get it.
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
        let answer = ask(name);
        let is_final = match &answer {
            Some(Refusal::Taken(..)) => is_late(GRACE_NS),
            Some(Refusal::Silent(owner)) => is_late(LIMIT_NS) || is_stopped(*owner),
            Some(Refusal::Failed(_)) | None => is_late(LIMIT_NS),
        };
        if is_final {
            return Err(answer.unwrap_or(Refusal::Silent(None)));
        }
        clock::sleep_until(clock::monotonic_ns() + 20_000_000);
    }
}

fn is_stopped(owner: Option<Owner>) -> bool {
    let pid = owner.and_then(|owner| owner.pid);
    pid.is_some_and(process::is_stopped)
}

/// What the holder says about itself, as a reason to refuse the name. `None` if the holder has ended meanwhile.
fn ask(name: &str) -> Option<Refusal> {
    let (owner, said) = match socket::ask_unix(name, PATIENCE, LINE_BYTES) {
        Ok((owner, Ok(said))) => (owner, said),
        Ok((owner, Err(error))) if error.kind() == io::ErrorKind::WouldBlock => {
            return Some(Refusal::Silent(Some(owner)));
        }
        // The backlog is full: many processes ask, and the holder answers none of them.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Some(Refusal::Silent(None));
        }
        Ok((_, Err(_))) | Err(_) => return None,
    };
    match outside::read(&said) {
        Ok(holder) => Some(Refusal::Taken(owner.user, holder)),
        Err(_) if said.is_empty() => None,
        Err(_) => Some(Refusal::Silent(Some(owner))),
    }
}

/// Explains a refusal. The text is the same on every host that one run keeps busy, so that it is printed once.
/// Any process can take the name and send any text. If another user holds it, the text begins with that user, as the kernel reports.
fn explain(refusal: Refusal, now_ms: u64) -> String {
    let run = |token: &str, by: &str, since_ms: u64| {
        let cut = |text: &str, longest: usize| -> String { text.chars().take(longest).collect() };
        let (token, by) = (cut(token, 6), cut(by, 100));
        format!("run {token} by {by} since {}", show_since(since_ms, now_ms))
    };
    let held = |user: u32, run: String| match user == nix::unistd::geteuid().as_raw() {
        true => run,
        false => format!("user {} holds this host and says: {run}", facts::user(user)),
    };
    match refusal {
        Refusal::Taken(user, holder) => {
            let run = held(user, run(&holder.token, &holder.by, holder.since_ms));
            format!("busy: {run} (see 'pipebench status HOSTS')")
        }
        Refusal::Silent(owner) => {
            let pid = owner.and_then(|owner| owner.pid);
            let card = pid.and_then(census::card_of_owner);
            let who = match (card, owner, pid) {
                (Some(card), Some(owner), _) => {
                    held(owner.user, run(&card.token, &card.by, card.started_ms))
                }
                (_, Some(owner), Some(pid)) => {
                    let user = facts::user(owner.user);
                    format!("process {pid} of user {user} holds this host")
                }
                (_, Some(owner), None) => {
                    format!("user {} holds this host", facts::user(owner.user))
                }
                (_, None, _) => "another process holds this host".to_owned(),
            };
            let how = if is_stopped(owner) {
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
        let Some(Refusal::Taken(user, told)) = second.join().unwrap() else {
            panic!("not refused");
        };
        assert_eq!(told, holder("3f"));
        let text = explain(Refusal::Taken(user, told), 1_795_225_500_000);
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
        // The second run has asked; the holder ends instead of answering.
        let asked = socket::readable(lock.listener.as_fd(), Duration::from_secs(5)).unwrap();
        drop(lock);
        assert!(asked && second.join().unwrap());
    }

    #[test]
    fn a_holder_that_says_nothing_is_named_by_its_process() {
        let name = name("silent");
        let _lock = take(&name, &holder("3f")).unwrap();
        let Err(Refusal::Silent(Some(owner))) = take(&name, &holder("77")) else {
            panic!("not refused");
        };
        assert_eq!(owner.pid, Some(process::own_pid()));
        let text = explain(Refusal::Silent(Some(owner)), 0);
        assert!(
            text.contains("holds this host, which does not answer"),
            "{text}"
        );
    }

    /// A forged line such as "busy: run deadbe by NAME@HOST since 1970-01-01" would blame an innocent person.
    #[test]
    fn a_host_that_another_user_holds_is_told_with_his_name_first() {
        let nobody = 65_534;
        let text = explain(Refusal::Taken(nobody, holder("3f")), 1_795_225_500_000);
        let user = facts::user(nobody);
        let told = "run 3f3f3f by alice@login1 since 01:44 UTC";
        let told = format!("busy: user {user} holds this host and says: {told} (see");
        assert!(text.starts_with(&told), "{text}");
    }

    #[test]
    fn a_process_that_listens_at_the_name_cannot_steer_a_terminal() {
        let mut bad = holder("\u{1b}[");
        bad.by = "x\n\u{7}\u{202e}".repeat(1000);
        let name = name("steers");
        let listener = socket::listen_unix(&name, &SocketOptions::default()).unwrap();
        let line = serde_json::to_vec(&bad).unwrap();
        let answers = std::thread::spawn(move || {
            while let Ok(Some(caller)) = socket::accept(listener.as_fd(), Duration::from_secs(1)) {
                match socket::send_bytes(caller.as_fd(), &line) {
                    Ok(_) | Err(_) => {}
                }
            }
        });
        let Err(refusal) = take(&name, &holder("77")) else {
            panic!("not refused");
        };
        let text = explain(refusal, 0);
        assert!(
            !text.contains(outside::steers) && text.len() < 400,
            "{text}"
        );
        answers.join().unwrap();
    }
}
