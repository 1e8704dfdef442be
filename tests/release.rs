//! What is handed out: `--version --verbose` and its licences, manual page, completions, tarball and Debian package.
//!
//! `PIPEBENCH_GOLDEN=rewrite cargo test --test release` writes the list of licences anew; review the difference.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const LICENCES: &str = "src/cli/licences.txt";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that must succeed; returns what it printed.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("a program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}",
        output.status
    );
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn pipebench(words: &[&str]) -> String {
    output(Command::new(PIPEBENCH).args(words))
}

/// What `--version --verbose` tells under a name.
fn told(name: &str) -> String {
    let version = pipebench(&["--version", "--verbose"]);
    let line = version.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}"))
        .trim()
        .to_owned()
}

/// SHA-256 of a file, by another program than ours.
fn digest_of(path: &Path) -> String {
    let said = output(Command::new("sha256sum").arg(path));
    said.split(' ').next().expect("a digest").to_owned()
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// Cargo on what is built, without the network.
fn cargo(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    output(
        command
            .args(words)
            .args(["--offline", "--locked"])
            .current_dir(root()),
    )
}

/// Lines with name, version and licence of each crate in the executable, in order, and of the C libraries that some
/// of them bring along.
fn built_in() -> String {
    let target = told("target");
    // Procedural macros write code for the compiler; they are not in the executable themselves.
    let tree = cargo(&[
        "tree",
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}|{l}",
        "--target",
        &target,
    ]);
    let mut lines = BTreeSet::new();
    for line in tree.lines() {
        let (package, licence) = line.split_once('|').expect("a package and its licence");
        let mut words = package.split(' ');
        let name = words.next().expect("a name");
        let version = words.next().expect("a version").trim_start_matches('v');
        let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
        assert!(!licence.is_empty(), "{name} names no licence");
        if name != "pipebench" {
            lines.insert(format!("{name:20} {version:11} {licence}\n"));
        }
    }
    for (name, version, licence) in c_libraries() {
        lines.insert(format!("{name:20} {version:11} {licence}\n"));
    }
    lines.into_iter().collect()
}

fn c_libraries() -> [(&'static str, String, &'static str); 3] {
    let metadata = cargo(&[
        "metadata",
        "--format-version=1",
        "--filter-platform=host-tuple",
    ]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).expect("JSON");
    let package = |name: &str| {
        let packages = metadata["packages"].as_array().expect("a list");
        let found = packages.iter().find(|package| package["name"] == name);
        found
            .unwrap_or_else(|| panic!("{name} is not in Cargo.lock"))
            .clone()
    };
    // A header defines its library's version: #define NAME "1.2.3".
    let defined = |name: &str, header: &str, word: &str| {
        let manifest = PathBuf::from(package(name)["manifest_path"].as_str().expect("a path"));
        let header = fs::read_to_string(manifest.with_file_name(header)).expect("a header");
        let line = header
            .lines()
            .find_map(|line| line.strip_prefix(&format!("#define {word} ")));
        line.expect("a version").trim().trim_matches('"').to_owned()
    };
    // As in 300.6.1+3.6.3.
    let openssl = package("openssl-src")["version"]
        .as_str()
        .expect("a version")
        .to_owned();
    let openssl = openssl
        .split('+')
        .nth(1)
        .expect("OpenSSL's version")
        .to_owned();
    [
        (
            "libssh2",
            defined(
                "libssh2-sys",
                "libssh2/include/libssh2.h",
                "LIBSSH2_VERSION",
            ),
            "BSD-3-Clause",
        ),
        ("openssl", openssl, "Apache-2.0"),
        (
            "zlib",
            defined("libz-sys", "src/zlib/zlib.h", "ZLIB_VERSION"),
            "Zlib",
        ),
    ]
}

#[test]
fn the_list_of_licences_is_that_of_cargo_lock() {
    let path = root().join(LICENCES);
    let made = built_in();
    if std::env::var("PIPEBENCH_GOLDEN").is_ok_and(|word| word == "rewrite") {
        fs::write(&path, &made).expect("a writable folder");
        return;
    }
    let stored = fs::read_to_string(&path).expect(LICENCES);
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (stored, made) = (lines(&stored), lines(&made));
    assert!(
        stored == made,
        "{LICENCES}\n  too much: {:#?}\n  missing: {:#?}\nmake golden writes it anew; review the difference",
        stored.difference(&made).collect::<Vec<_>>(),
        made.difference(&stored).collect::<Vec<_>>()
    );
}

#[test]
fn the_version_is_one_line() {
    let line = format!("pipebench {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(pipebench(&["--version"]), line);
    assert_eq!(pipebench(&["-V", "--hosts", "n1"]), line);
}

#[test]
fn the_long_version_tells_the_build_and_all_that_is_built_in() {
    let said = pipebench(&["--version", "--verbose"]);
    let line = format!("pipebench {}\n", env!("CARGO_PKG_VERSION"));
    assert!(said.starts_with(&line), "{said}");
    assert!(!told("commit").is_empty() && told("compiler").starts_with("rustc "));
    assert_eq!(told("profile"), "debug");
    assert_eq!(told("sha256"), digest_of(Path::new(PIPEBENCH)));
    for line in built_in().lines() {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    for name in ["rust-library", "glibc", "libgcc"] {
        assert!(!told(name).is_empty(), "{name}");
    }
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    for words in [
        "--version --verbose",
        "--version",
        "--help",
        "manual",
        "completions bash",
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(PIPEBENCH);
        let output = command.args(words.split(' ')).stdout(writer).output();
        let output = output.expect("a program");
        assert_eq!(
            (output.status.code(), &*output.stderr),
            (Some(0), &b""[..]),
            "{words}"
        );
    }
}

/// Options that the help names.
fn options() -> BTreeSet<String> {
    let help = pipebench(&["--help"]);
    let listed = help.split("\nEXAMPLES\n").next().expect("a first part");
    let named = listed
        .lines()
        .filter(|line| line.trim_start().starts_with('-'));
    let options: BTreeSet<String> = named
        .flat_map(|line| {
            line.split([' ', ','])
                .take_while(|word| !word.starts_with('<'))
        })
        .filter(|word| word.starts_with('-'))
        .map(str::to_owned)
        .collect();
    assert!(options.len() > 40, "{options:?}");
    options
}

#[test]
fn the_manual_page_has_every_option_of_the_help() {
    let page = pipebench(&["manual"]);
    let bare = page
        .replace("\\-", "-")
        .replace("\\fB", "")
        .replace("\\fR", "");
    for option in options() {
        let found = bare
            .lines()
            .any(|line| line.split([' ', ',']).any(|word| word == option));
        assert!(found, "{option} is not in the manual page");
    }
    for section in [
        "NAME",
        "SYNOPSIS",
        "OPTIONS",
        "COMMANDS",
        "EXAMPLES",
        "\"EXIT CODES\"",
    ] {
        assert!(
            page.contains(&format!("\n.SH {section}\n")),
            "no {section}\n{page}"
        );
    }
    assert!(
        !page.contains("--hold") && !bare.contains("--hold"),
        "a hidden option is shown"
    );
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = pipebench(&["completions", shell]);
        for option in options() {
            // fish writes -s x -l exclude.
            let bare = option.trim_start_matches('-');
            let fish = [format!("-s {bare} "), format!("-l {bare} ")];
            let found = script.contains(&option) || fish.iter().any(|form| script.contains(form));
            assert!(found, "{shell}: {option} is not there");
        }
        assert!(
            !script.contains("hold") && !script.contains("pipebench,node"),
            "{shell}"
        );
        if is_there(shell) {
            let path = folder.path().join(shell);
            fs::write(&path, &script).expect("a file");
            output(Command::new(shell).arg(check).arg(&path));
        } else {
            eprintln!("skipped: {shell} is not installed, its script was not read by it");
        }
    }
}
