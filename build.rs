//! Tells the executable what it is built of: commit, target and compiler, for `--version --verbose`.
//!
//! Works without git. Says the same whenever the same source is built, and is run again only where its answer may
//! change: both ends of a run compare the digests of their executables.

use std::env;
use std::path::Path;
use std::process::Command;

/// What the executable is made of. A change of anything else neither builds it again nor makes it another one.
const SOURCES: [&str; 11] = [
    "src",
    "latency/src",
    "latency/Cargo.toml",
    "launcher/src",
    "launcher/Cargo.toml",
    "numbers/src",
    "numbers/Cargo.toml",
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    ".cargo",
];

const UNDATED: &str = "undated";

fn main() {
    let of = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=build.rs");
    // Tests run debug builds, and should not be built again for every commit.
    let (commit, date) = if of("PROFILE") == "release" {
        watch();
        commit()
    } else {
        (
            "not recorded in a debug build".to_owned(),
            UNDATED.to_owned(),
        )
    };
    println!("cargo::rustc-env=PIPEBENCH_COMMIT={commit}");
    println!("cargo::rustc-env=PIPEBENCH_COMMIT_DATE={date}");
    println!("cargo::rustc-env=PIPEBENCH_TARGET={}", of("TARGET"));
    println!("cargo::rustc-env=PIPEBENCH_PROFILE={}", of("PROFILE"));
    let compiler = said(Command::new(of("RUSTC")).arg("--version"));
    let compiler = compiler.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=PIPEBENCH_COMPILER={compiler}");
}

/// Has this run again when the source changes or another commit is checked out. A file that is not there must not be
/// named: it would count as changed each time.
fn watch() {
    for path in SOURCES.iter().filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// The commit with its date, and the date alone.
fn commit() -> (String, String) {
    const UNKNOWN: &str = "unknown (built outside of its git repository)";
    // An unpacked archive may lie in the repository of something else.
    let ours = git(&["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix.is_empty());
    let shown = git(&["show", "--no-patch", "--format=%H %cs"]).filter(|_| ours);
    let Some((commit, date)) = shown.as_deref().and_then(|shown| shown.split_once(' ')) else {
        return (UNKNOWN.to_owned(), UNDATED.to_owned());
    };
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(SOURCES);
    let changed = if git(&status).is_some_and(|changes| changes.is_empty()) {
        ""
    } else {
        ", with changes that are not committed"
    };
    (format!("{commit} of {date}{changed}"), date.to_owned())
}

fn git(words: &[&str]) -> Option<String> {
    said(Command::new("git").args(words))
}

/// What a command printed, without the end of its line; none if it failed or is not there.
fn said(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim_end().to_owned())
}
