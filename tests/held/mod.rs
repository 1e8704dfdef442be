//! Runs of the program on this machine: holds them at their start, inspects them, and waits for them.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

#[path = "../alone/mod.rs"]
mod alone;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub use alone::wait as take_turn;

pub const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A run that is held once all its links exist, and is ended with the test.
pub struct Held {
    pub child: Child,
    pub errors: BufReader<std::process::ChildStderr>,
}

impl Held {
    pub fn start(words: &[&str]) -> Self {
        alone::wait();
        let mut child = Command::new(PIPEBENCH)
            .args(words)
            .args(["--hold", "go"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pipebench starts");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut held = Self { child, errors };
        held.wait_for("held at go");
        held
    }

    pub fn wait_for(&mut self, pattern: &str) {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.errors.read_line(&mut line).expect("readable") > 0,
                "ended early: {seen}"
            );
            if line.contains(pattern) {
                return;
            }
            seen.push_str(&line);
        }
    }

    /// All descendants of the launching process.
    pub fn tree(&self) -> Vec<Process> {
        below(i32::try_from(self.child.id()).expect("a process id"))
    }

    pub fn release(&mut self) {
        let mut input = self.child.stdin.take().expect("piped");
        input.write_all(b"\n").expect("written");
    }

    pub fn finish(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + DEADLINE;
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).expect("readable");
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return (status.code(), rest);
            }
            pause();
        }
        panic!("did not end: {rest}");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let tree = self.tree();
        match self
            .child
            .kill()
            .and_then(|()| self.child.wait().map(|_| ()))
        {
            Ok(()) | Err(_) => {}
        }
        // The host is free for the next run once the last process has ended.
        let until = Instant::now() + DEADLINE;
        let left = || {
            all_processes().into_iter().any(|now| {
                tree.iter()
                    .any(|then| (then.pid, &then.name) == (now.pid, &now.name))
            })
        };
        while left() && Instant::now() < until {
            pause();
        }
    }
}

/// Gives other processes time between two looks at them.
pub fn pause() {
    std::thread::yield_now();
    let woken = nix::poll::poll(&mut [], nix::poll::PollTimeout::from(20_u8));
    assert_eq!(woken, Ok(0));
}

#[derive(Debug, Clone)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub name: String,
}

pub fn all_processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("a process table");
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (head, tail) = stat.rsplit_once(')')?;
            let mut fields = tail.split_whitespace();
            let state = fields.next()?;
            let parent = fields.next()?.parse().ok()?;
            let name = head.split_once('(')?.1.to_owned();
            (state != "Z").then_some(Process { pid, parent, name })
        })
        .collect()
}

pub fn below(root: i32) -> Vec<Process> {
    let all = all_processes();
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            found.push(process.clone());
            parents.push(process.pid);
        }
    }
    found
}

/// Names of status segments, except those that unit tests make.
pub fn segments() -> Vec<String> {
    fs::read_dir("/dev/shm")
        .expect("shared memory")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("pipebench-") && !name.starts_with("pipebench-unit-"))
        .collect()
}

pub fn run(words: &[&str]) -> Output {
    alone::wait();
    Command::new(PIPEBENCH)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("pipebench runs")
}

pub fn wait_until_gone(processes: &[Process], what: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let alive: Vec<Process> = all_processes()
            .into_iter()
            .filter(|now| {
                processes
                    .iter()
                    .any(|then| then.pid == now.pid && then.name == now.name)
            })
            .collect();
        if alive.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{what}: still alive: {alive:?}");
        pause();
    }
}
