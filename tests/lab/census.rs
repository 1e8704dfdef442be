//! Lists a host's processes and leftover files. Reads everything from outside through /proc, so
//! that it changes nothing on the host.

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
    /// The pid in the test's namespace, so that the test can send signals to it.
    pub pid: Pid,
    pub ppid: Pid,
    pub name: String,
    pub args: String,
    /// The state letter of /proc: R, S, D, T, Z ...
    pub state: char,
}

impl Lab {
    /// All processes of a host's pid namespace; empty after it was killed.
    pub fn processes(&self, host: usize) -> Vec<Process> {
        let wanted = self.pid_space(host);
        all_pids()
            .filter(|pid| pid_space_of(*pid).as_ref() == Some(wanted))
            .filter_map(read_process)
            .collect()
    }

    /// The host's processes whose name or arguments contain `name`. The lab's own first process
    /// never counts. While a process starts another program, its arguments read as empty for a
    /// moment: wait first, then count.
    pub fn survivors(&self, host: usize, name: &str) -> Vec<Process> {
        self.processes(host)
            .into_iter()
            .filter(|process| !self.is_first(host, process.pid))
            .filter(|process| process.name.contains(name) || process.args.contains(name))
            .collect()
    }

    /// Waits until no such process remains; panics with the list at the deadline.
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

    /// Files that appeared in /dev/shm, /tmp, /var/tmp and /run since the lab was raised, as paths on
    /// that host.
    pub fn leftovers(&self, host: usize) -> Vec<String> {
        let known = self.first_names(host);
        self.names(host).difference(known).cloned().collect()
    }

    /// The path at which the test finds a file of a host. It leads through /proc; an absolute symbolic link in it
    /// would lead elsewhere.
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

/// The pid namespace of a process, by the kernel's name.
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

/// Reads a process; `None` if it has ended meanwhile.
pub(super) fn read_process(pid: Pid) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and can itself contain blanks and brackets.
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
