//! Environment of this process: its executable, its host, the time, random numbers, and signals that ask for the end.

use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use launcher::Program;
use launcher::hosts::{self, Host};
use nix::sys::stat::{Mode, umask};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::plan::fit::Capacity;
use crate::{controller, exit, sys};

use super::args::Launch;
use super::terminal::{complain, fail};

/// The line by which the launching side knows that `pipebench-node` is of its own build.
pub(super) const BUILD: &str = concat!(
    "pipebench-node ",
    env!("CARGO_PKG_VERSION"),
    " of commit ",
    env!("PIPEBENCH_COMMIT"),
    " by ",
    env!("PIPEBENCH_COMPILER"),
    "\n"
);

/// A variable of this process's environment.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Facts that decide how the nodes of a job are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// True in a job of Slurm that names its hosts.
    pub in_slurm: bool,
    /// True if `srun` is installed.
    pub has_srun: bool,
    /// True in a job step with several tasks, which all are this command.
    pub is_task: bool,
}

/// The surroundings of this process.
pub(super) fn surroundings() -> Surroundings {
    // A shell that `srun --pty` gives a terminal is a task of its step, in which a user types.
    let is_typed = std::io::stdin().is_terminal();
    Surroundings {
        in_slurm: variable("SLURM_JOB_NODELIST").is_some(),
        has_srun: installed("srun").next().is_some(),
        is_task: hosts::is_one_of_several_tasks(&variable) && !is_typed,
    }
}

/// The programs of this name in the folders of PATH.
pub(super) fn installed(name: &str) -> impl Iterator<Item = PathBuf> {
    let is_program = |file: &PathBuf| {
        let facts = std::fs::metadata(file);
        facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files: Vec<PathBuf> = std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .collect();
    files.into_iter().filter(is_program)
}

/// 32 random hexadecimal digits. The error is the exit code: a run needs random numbers.
pub(super) fn random_digits() -> Result<String, u8> {
    controller::random_digits().map_err(|error| {
        let text = format!("cannot read random numbers from the kernel: {error}");
        fail(&text, exit::RESOURCE)
    })
}

/// Asks the kernel to send SIGTERM when the process `parent` ends. Returns false if it has ended already.
pub(super) fn end_with(parent: i32) -> bool {
    sys::process::die_with_parent(nix::sys::signal::Signal::SIGTERM);
    sys::process::parent_is(parent)
}

/// Keeps other users from writing to any file that this process or its children make.
pub(super) fn keep_files_own() {
    let others = Mode::S_IWGRP | Mode::S_IWOTH;
    // Reading the mask is possible only by setting it.
    umask(umask(others) | others);
}

/// This process's executable. The error is the exit code.
pub(super) fn own_program() -> Result<Program, u8> {
    Program::current().map_err(|error| {
        let text = format!("cannot read this executable: {error}");
        fail(&text, exit::BUG)
    })
}

/// This process's executable, with those for hosts. The error is the exit code.
pub(super) fn programs(launch: &Launch) -> Result<Program, u8> {
    let program = own_program()?.with_node(BUILD.as_bytes());
    match &launch.remote_binary {
        Some(folder) => program
            .with_others(folder)
            .map_err(|error| fail(&format!("--remote-binary: {error}"), exit::USAGE)),
        None => Ok(program),
    }
}

/// Date for a run, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    sys::clock::wall_ms()
}

/// A different seed for each run.
pub(super) fn seed() -> u64 {
    sys::clock::monotonic_ns() ^ sys::clock::wall_ms() << 20
}

/// Capacity of this host, as nodes on it will find it.
pub(super) fn here() -> Capacity {
    Capacity {
        name: sys::facts::own_name(),
        nodes: 0,
        processors: Some(sys::affinity::allowed().len()),
        memory_bytes: sys::limits::spare_memory(),
        flows: 0, // The data port is not known yet.
        bbr: sys::facts::congestion().starts_with("bbr"),
        rates: None,
    }
}

/// Prints that a handler cannot be installed; returns the exit code.
pub(super) fn no_handler(signal: i32, error: &std::io::Error) -> u8 {
    let text = format!("cannot handle signal {signal}: {error}");
    fail(&text, exit::BUG)
}

/// Signals that ask for the end. Under nohup SIGHUP is ignored, and stays ignored.
fn endings() -> impl Iterator<Item = i32> {
    let all = [SIGINT, SIGTERM, SIGHUP].into_iter();
    all.filter(|signal| !sys::signals::is_ignored(*signal))
}

/// The variable that holds the number of a signal that asks for the end. The error is the exit code.
pub(super) fn listen() -> Result<Arc<AtomicUsize>, u8> {
    let stop = Arc::new(AtomicUsize::new(0));
    for signal in endings() {
        let number = usize::try_from(signal).unwrap_or(0);
        let registered = signal_hook::flag::register_usize(signal, Arc::clone(&stop), number);
        registered.map_err(|error| no_handler(signal, &error))?;
    }
    Ok(stop)
}

/// From now on a signal that asks for the end ends this process at once: no host is in use any more, and files are written whole or not at all.
pub(super) fn end_at_signals() {
    for signal in endings() {
        let at_once = Arc::new(AtomicBool::new(true));
        // A signal without this handler is only noted, as before.
        let (Ok(_) | Err(_)) = signal_hook::flag::register_conditional_default(signal, at_once);
    }
}

/// Makes room for sessions to these hosts. The error is the exit code.
pub(super) fn make_room(hosts: &[Host], launch: &Launch) -> Result<(), u8> {
    match controller::make_room(hosts, launch.rsh.is_some()) {
        Ok(raised) => raised.iter().for_each(|text| complain(text)),
        Err(text) => return Err(fail(&text, exit::RESOURCE)),
    }
    Ok(())
}

/// The executables of a run, and the variable of [`listen`], once there is room for sessions to these hosts. The error is the exit code.
pub(super) fn stand_by(hosts: &[Host], launch: &Launch) -> Result<(Program, Arc<AtomicUsize>), u8> {
    make_room(hosts, launch)?;
    Ok((programs(launch)?, listen()?))
}
