//! Who lives on a host, and what was left there. All of it is read from outside through /proc, so
//! that looking changes nothing on the host.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::unistd::Pid;

use super::raise::Lab;
use super::running::wait_until;

/// One process of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// As seen by the test, so that it can be signalled.
    pub pid: Pid,
    pub ppid: Pid,
    pub name: String,
    pub args: String,
    /// The letter of /proc: R, S, D, T, Z ...
    pub state: char,
}

impl Lab {
    /// All processes of a host's pid namespace; none once it was killed.
    pub fn processes(&self, host: usize) -> Vec<Process> {
        let wanted = self.pid_space(host);
        all_pids()
            .filter(|pid| pid_space_of(*pid).as_ref() == Some(wanted))
            .filter_map(read_process)
            .collect()
    }

    /// The host's processes whose name or arguments contain `name`. The lab's own first process
    /// never counts. While a process starts another program, its arguments read as empty for a
    /// moment: wait, then count.
    pub fn survivors(&self, host: usize, name: &str) -> Vec<Process> {
        self.processes(host)
            .into_iter()
            .filter(|process| !self.is_first(host, process.pid))
            .filter(|process| process.name.contains(name) || process.args.contains(name))
            .collect()
    }

    /// Waits until no such process is left; panics with the list at the deadline.
    #[track_caller]
    pub fn expect_no_survivors(&self, host: usize, name: &str, deadline: Duration) {
        let mut found = Vec::new();
        let ends = std::time::Instant::now() + deadline;
        wait_until("the survivors are counted", deadline * 2, || {
            found = self.survivors(host, name);
            found.is_empty() || std::time::Instant::now() >= ends
        });
        assert!(found.is_empty(), "survivors on n{host}: {found:#?}");
    }

    /// What appeared in /dev/shm, /tmp, /var/tmp and /run since the lab was raised, as paths on
    /// that host.
    pub fn leftovers(&self, host: usize) -> Vec<String> {
        let known = self.first_names(host);
        self.names(host).difference(known).cloned().collect()
    }

    /// Where the test finds a file of a host (through /proc; an absolute symbolic link on the way
    /// would mislead it).
    pub fn path(&self, host: usize, path: &str) -> PathBuf {
        let first = self.first_process(host);
        PathBuf::from(format!("/proc/{first}/root/{path}"))
    }

    pub(super) fn names(&self, host: usize) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for folder in ["/dev/shm", "/tmp", "/var/tmp", "/run"] {
            let entries = fs::read_dir(self.path(host, folder))
                .unwrap_or_else(|why| panic!("lab: cannot list {folder} of n{host}: {why}"));
            for entry in entries.flatten() {
                names.insert(format!("{folder}/{}", entry.file_name().to_string_lossy()));
            }
        }
        names
    }
}

/// The pid namespace of a process, as the kernel names it.
pub(super) fn pid_space_of(pid: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The children of a process, oldest first.
pub(super) fn children_of(parent: Pid) -> Vec<Pid> {
    all_pids()
        .filter_map(read_process)
        .filter(|process| process.ppid == parent)
        .map(|process| process.pid)
        .collect()
}

/// Every process of the machine.
pub(super) fn all_pids() -> impl Iterator<Item = Pid> {
    fs::read_dir("/proc")
        .expect("/proc can be listed")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
}

/// A process, unless it has gone meanwhile.
pub(super) fn read_process(pid: Pid) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may itself contain blanks and brackets.
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = tail.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let ppid = fields.next()?.parse().ok()?;
    let args = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(Process {
        pid,
        ppid: Pid::from_raw(ppid),
        name: name.to_owned(),
        args: String::from_utf8_lossy(&args)
            .replace('\0', " ")
            .trim_end()
            .to_owned(),
        state,
    })
}
