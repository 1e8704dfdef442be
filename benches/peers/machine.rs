//! Requirements of this machine, the peers' programs, and the facts that are printed with the figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::network::CONGESTION;
use super::options::Options;
use super::peers::Tool;

/// Checks for root, and for programs by the packages they come from; installs missing ones.
pub fn prepare() -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("wants root, for networks of its own".to_owned());
    }
    if let Some(given) = std::env::var_os("PEERS") {
        let found = build(Path::new(&given))?;
        GIVEN.set(found).expect("peers are prepared once");
    }
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(name, _)| program(name).is_none())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("peers: installing {}", missing.join(" "));
    // Package lists that cannot be updated can still be good enough for the installation, which is judged below.
    apt_get(&["update", "-q"]);
    apt_get(&[&["install", "-qy", "--no-install-recommends"], &missing[..]].concat());
    match PROGRAMS.iter().find(|(name, _)| program(name).is_none()) {
        Some((name, package)) => Err(format!(
            "{name} is missing, and apt-get did not install package {package}"
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
    let peers = [Tool::Iperf3, Tool::Iperf2, Tool::Neper].map(Tool::name);
    let peers = peers
        .into_iter()
        .filter_map(|name| Some((name, program(name)?)));
    let peers = peers.map(|(name, path)| {
        let version = first_line(&path.to_string_lossy(), &["--version"])?;
        let given = GIVEN.get().is_some_and(|given| given.contains(&path));
        let whose = if given { "given" } else { "the system's" };
        Ok(format!("{name}: {version}, {whose}"))
    });
    let peers = peers.collect::<Result<Vec<String>, String>>()?.join("; ");
    let (release, date) = (
        first_line("uname", &["-sr"])?,
        first_line("date", &["-u", "+%F"])?,
    );
    Ok(format!(
        "{date}: {own}; {peers}; {release}, {}, {} cores; {CONGESTION} for everybody; rounds: {}, \
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

/// The executable of this name: one of those that `PEERS` gives, or the system's.
pub fn program(name: &str) -> Option<PathBuf> {
    let given = GIVEN.get().into_iter().flatten();
    let named = |path: &&PathBuf| path.file_name().is_some_and(|own| own == name);
    let mut of_system = PATH.split(':').map(|folder| Path::new(folder).join(name));
    let found = given.clone().find(named).cloned();
    found.or_else(|| of_system.find(|path| path.is_file()))
}

/// The search path of the peers' programs.
pub fn search_path() -> String {
    let given = GIVEN
        .get()
        .into_iter()
        .flatten()
        .filter_map(|path| path.parent());
    let mut folders: Vec<String> = given.map(|folder| folder.display().to_string()).collect();
    folders.dedup();
    folders.push(PATH.to_owned());
    folders.join(":")
}

/// Executables that were given in the folder `PEERS`, or built from sources there.
static GIVEN: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Finds executables in a folder, and builds those of the source folders in it.
fn build(given: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot =
        |what: &Path, why: &dyn std::fmt::Display| format!("PEERS: {}: {why}", what.display());
    let names = [Tool::Iperf3, Tool::Iperf2, Tool::Neper].map(Tool::name);
    let entries = fs::read_dir(given).map_err(|why| cannot(given, &why))?;
    let mut found = Vec::new();
    for entry in entries.flatten().map(|entry| entry.path()) {
        let name = entry.file_name().unwrap_or_default();
        if entry.is_file() && names.iter().any(|known| *known == name) {
            found.push(entry.canonicalize().map_err(|why| cannot(&entry, &why))?);
        } else if entry.join("configure").is_file() || entry.join("Makefile").is_file() {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
                .join("peers")
                .join(name);
            fs::create_dir_all(&folder).map_err(|why| cannot(&folder, &why))?;
            eprintln!("peers: building {}", entry.display());
            // Without shared libraries the executable is the program itself, and not a script that starts it.
            let script = "cp -r \"$1\"/. . && { [ ! -e configure ] || ./configure -q --disable-shared; } && make -s";
            let mut make = Command::new("sh");
            make.args(["-ec", script, "sh"])
                .arg(&entry)
                .current_dir(&folder);
            let built = make.stdout(std::process::Stdio::null()).status();
            if !built.is_ok_and(|status| status.success()) {
                return Err(cannot(&entry, &"does not build"));
            }
            let places = ["src", "."].map(|place| folder.join(place));
            let files = places
                .iter()
                .flat_map(|place| names.map(|name| place.join(name)));
            found.extend(files.filter(|file| file.is_file()));
        }
    }
    if found.is_empty() {
        return Err(cannot(
            given,
            &format!("neither sources nor {}", names.join(", ")),
        ));
    }
    Ok(found)
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
