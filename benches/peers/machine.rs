//! Requirements of this machine, and the facts about it that are printed with the figures.

use std::fs;
use std::process::Command;

use super::network::CONGESTION;
use super::options::Options;

/// Checks for root, and for programs by the packages they come from; installs missing ones.
pub fn prepare() -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("wants root, for networks of its own".to_owned());
    }
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("peers: installing {}", missing.join(" "));
    // Package lists that cannot be updated can still be good enough for the installation, which is judged below.
    apt_get(&["update", "-q"]);
    apt_get(&[&["install", "-qy", "--no-install-recommends"], &missing[..]].concat());
    match PROGRAMS.iter().find(|(program, _)| !is_there(program)) {
        Some((program, package)) => Err(format!(
            "{program} is missing, and apt-get did not install package {package}"
        )),
        None => Ok(()),
    }
}

/// Gives the measuring thread priority over all measured processes, but not to its own child processes. Pairs that wake each other
/// without end have kept other processes off both cores for a hundred seconds, long after the window was over.
pub fn go_first() {
    let own = std::process::id().to_string();
    let words = ["--reset-on-fork", "--fifo", "--pid", "1", &own];
    let status = command("chrt").args(words).status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("peers: no real-time priority: windows may last longer than they should");
    }
}

/// A line of Markdown above the tables: programs, machine, date and options.
pub fn describe(options: &Options) -> Result<String, String> {
    let own = first_line(env!("CARGO_BIN_EXE_pipebench"), &["--version"])?;
    let iperf3 = first_line("iperf3", &["--version"])?;
    let iperf2 = first_line("iperf", &["--version"])?;
    let (release, date) = (
        first_line("uname", &["-sr"])?,
        first_line("date", &["-u", "+%F"])?,
    );
    Ok(format!(
        "{date}: {own}; {iperf3} (iperf3); {iperf2}; {release}, {}, {} cores; {CONGESTION} for everybody; rounds: {}, \
         windows of {} s.",
        processor(),
        cores(),
        options.rounds,
        options.window.as_secs_f64()
    ))
}

/// Number of processes that can run at the same time.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| {
        let (field, name) = line.split_once(':')?;
        (field.trim() == "model name").then(|| name.trim().to_owned())
    });
    named.unwrap_or_else(|| "unknown processor".to_owned())
}

fn first_line(program: &str, words: &[&str]) -> Result<String, String> {
    let output = command(program).args(words).output();
    let output = output.map_err(|why| format!("cannot run {program}: {why}"))?;
    // Older versions of iperf print their version on stderr.
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| !line.is_empty());
    Ok(line.unwrap_or(program).trim().to_owned())
}

fn is_there(program: &str) -> bool {
    PATH.split(':')
        .any(|folder| fs::metadata(format!("{folder}/{program}")).is_ok())
}

fn apt_get(words: &[&str]) {
    // Run level 1 keeps the services of these packages from starting. The timeout exists because mirrors can be slow.
    let status = command("timeout")
        .args(["300", "apt-get"])
        .args(words)
        .envs([("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")])
        .stdout(std::process::Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("peers: apt-get {} failed", words[0]);
    }
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .stdin(std::process::Stdio::null());
    command
}

/// The same search path as the lab's.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs and their packages. The lab itself asks for anything else that it needs.
const PROGRAMS: [(&str, &str); 7] = [
    ("iperf3", "iperf3"),
    ("iperf", "iperf"),
    ("sshd", "openssh-server"),
    ("ssh-keygen", "openssh-client"),
    ("ip", "iproute2"),
    ("taskset", "util-linux"),
    ("chrt", "util-linux"),
];
