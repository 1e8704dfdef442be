//! What is handed out: `--version --verbose` and its licences, manual pages, completions, tarball and Debian package.
//!
//! `PIPEBENCH_GOLDEN=rewrite cargo test --test release` writes the list of licences anew; review the difference.

mod commands;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use commands::help_of;

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

/// Crates that `Cargo.lock` has in more than one version, each with what brings the older one.
const OLD_COPIES: [(&str, &str); 13] = [
    ("bitflags", "shared_memory, by nix 0.23"),
    ("block-buffer", "snow, by blake2"),
    ("chacha20", "snow, by chacha20poly1305"),
    ("cpufeatures", "snow, by its ciphers"),
    ("crypto-common", "snow, by its ciphers"),
    ("digest", "snow, by blake2"),
    ("getrandom", "shared_memory, by rand 0.8, and snow"),
    ("memoffset", "shared_memory, by nix 0.23"),
    ("nix", "shared_memory"),
    ("r-efi", "snow, by getrandom 0.3, where there is UEFI"),
    ("rand", "shared_memory"),
    ("rand_core", "shared_memory, by rand 0.8"),
    (
        "syn",
        "macros of maud, utoipa, zerocopy and curve25519-dalek, while building",
    ),
];

/// docs/dev/release.md says why they stay. A new one is a decision, and so is a crate that comes from elsewhere than a registry.
#[test]
fn crates_come_from_a_registry_and_old_copies_are_the_known_ones() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let lock: toml::Table = lock.parse().expect("TOML");
    let packages = lock["package"].as_array().expect("packages");
    let mut versions: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        *versions.entry(name).or_default() += 1;
        let source = package.get("source").and_then(|source| source.as_str());
        assert!(
            source.is_none_or(|source| source.starts_with("registry+")),
            "{package:?}"
        );
        assert!(
            source.is_none() || package.get("checksum").is_some(),
            "{package:?}"
        );
    }
    let several = versions.iter().filter(|(_, count)| **count > 1);
    let several: Vec<&str> = several.map(|(name, _)| *name).collect();
    assert_eq!(several, OLD_COPIES.map(|(name, _)| name));
    let page = fs::read_to_string(root().join("docs/dev/release.md")).expect("the page");
    for (name, by) in OLD_COPIES {
        assert!(page.contains(&format!("| {name} | {by} |")), "{name}");
    }
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
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    assert_eq!(told("profile"), profile);
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
        "manual linktest",
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

/// Options at the start of a line, as in `-p, --phases <P>` and `--keep-going[=<SHARE>]`.
fn leading_options(line: &str) -> Vec<String> {
    let words = line.split([' ', ',', '[']).filter(|word| !word.is_empty());
    let options = words.take_while(|word| word.starts_with('-'));
    options.map(str::to_owned).collect()
}

/// Options that a help lists: texts about them stand further to the right, and those of the command at the left.
fn options_of(help: &str) -> BTreeSet<String> {
    let listed = help.split("\nEXAMPLES\n").next().expect("a first part");
    let names_one = |line: &&str| [2, 6].contains(&(line.len() - line.trim_start().len()));
    let lines = listed.lines().filter(names_one);
    lines.flat_map(leading_options).collect()
}

/// Options that the help names.
fn options() -> BTreeSet<String> {
    let options = options_of(&help_of(&[]));
    assert!(options.len() > 40, "{options:?}");
    options
}

/// Options of a command. The help of `check` and `load` refers to those of pipebench.
fn options_of_command(words: &[String]) -> BTreeSet<String> {
    if words != ["check"] && words != ["load"] {
        return options_of(&help_of(words));
    }
    let mut options = options();
    for own in ["-V", "--version", "--verbose"] {
        assert!(options.remove(own), "{own}");
    }
    options
}

/// All commands but pipebench itself.
fn commands() -> Vec<Vec<String>> {
    commands::commands().split_off(1)
}

/// Files with manual pages, by their names in the tarball.
fn page_files() -> BTreeSet<String> {
    let commands = commands();
    let names = commands.iter().map(|words| words.join("-"));
    let mut files: BTreeSet<String> = names.map(|name| format!("pipebench-{name}.1")).collect();
    files.insert("pipebench.1".to_owned());
    files
}

/// A manual page without what roff needs for hyphens and bold letters.
fn manual(words: &[&str]) -> String {
    let page = pipebench(&[&["manual"][..], words].concat());
    let bare = page.replace("\\-", "-").replace("\\fB", "");
    bare.replace("\\fR", "")
}

/// Options that a page describes: the first line of each entry of a list has them.
fn options_in(page: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = page.lines().collect();
    let entries = lines.windows(2).filter(|pair| pair[0] == ".TP");
    entries.flat_map(|pair| leading_options(pair[1])).collect()
}

#[track_caller]
fn expect_sections(page: &str, sections: &[&str]) {
    for section in sections {
        assert!(
            page.contains(&format!("\n.SH {section}\n")),
            "no {section}\n{page}"
        );
    }
}

#[test]
fn the_manual_page_has_every_option_of_the_help() {
    let page = manual(&[]);
    assert_eq!(options_in(&page), options());
    let sections = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "COMMANDS",
        "EXAMPLES",
        "\"EXIT CODES\"",
        "\"SEE ALSO\"",
    ];
    expect_sections(&page, &sections);
    for form in [
        "pipebench [load] --hosts HOSTS [OPTION]...",
        "pipebench --hostfile FILE [OPTION]...",
        "pipebench COMMAND [OPTION]...",
    ] {
        assert!(page.lines().any(|line| line == form), "no {form}\n{page}");
    }
    assert!(!page.contains("--hold"), "a hidden option is shown");
}

#[test]
fn the_manual_page_lists_the_pages_of_all_commands() {
    let page = manual(&[]);
    let (_, related) = page.split_once("\n.SH \"SEE ALSO\"\n").expect("SEE ALSO");
    let related: BTreeSet<&str> = related.trim_end().split(", ").collect();
    for words in commands() {
        let file = format!("pipebench-{}(1)", words.join("-"));
        assert!(related.contains(&*file), "{file} is not in {related:?}");
        let above = words[..words.len() - 1].join("-");
        let list = match above.is_empty() {
            true => page.clone(),
            false => manual(&[&above]),
        };
        let entry = format!("\n.TP\n{}, see {file}\n", words.join(" "));
        assert!(list.contains(&entry), "{file} is not among the commands");
    }
}

#[test]
fn every_command_has_a_page_with_all_its_options() {
    for words in commands() {
        let name = words.join("-");
        let page = manual(&[&name]);
        assert_eq!(options_in(&page), options_of_command(&words), "{name}");
        expect_sections(
            &page,
            &["SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT CODES\""],
        );
        for start in [
            format!("\n.SH NAME\npipebench-{name} - "),
            "\n.SH \"SEE ALSO\"\npipebench(1)".to_owned(),
        ] {
            assert!(page.contains(&start), "no {start}\n{page}");
        }
        assert!(!page.contains("Exit codes"), "{name}: in the description");
    }
}

#[test]
fn a_page_has_the_exit_codes_of_its_command_or_those_of_a_run() {
    let own = manual(&["check"]);
    assert!(own.contains("\n0 ready\n"), "{own}");
    for name in ["run", "imb", "latency-plan"] {
        assert!(manual(&[name]).contains("128+n  ended by signal n"));
    }
}

#[test]
fn a_name_without_a_page_is_answered_with_those_that_have_one() {
    let known: Vec<String> = commands().iter().map(|words| words.join("-")).collect();
    for name in ["linktes", "node", "latency run"] {
        let mut command = Command::new(PIPEBENCH);
        let output = command.args(["manual", name]).output().expect("a program");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(output.stdout.is_empty() && said.lines().count() == 1);
        for page in &known {
            assert!(said.contains(page), "{page} is not in {said}");
        }
    }
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

/// `check` and `load` completed no options, since their help refers to those of pipebench.
#[test]
fn completions_know_the_options_of_every_command() {
    let script = pipebench(&["completions", "bash"]);
    for words in commands() {
        let name: String = words.iter().map(|w| format!("__subcmd__{w}")).collect();
        let label = format!("pipebench{name})\n            opts=\"");
        let (_, after) = script.split_once(&label).expect(&label);
        let offered = after.split('"').next().expect("a first part");
        let offered = offered.split(' ').filter(|word| word.starts_with('-'));
        let offered: BTreeSet<String> = offered.map(str::to_owned).collect();
        assert_eq!(offered, options_of_command(&words), "{words:?}");
    }
}

/// Whether an executable asks for a program to load it, which a static one does not.
fn is_static(path: &Path) -> bool {
    const PT_INTERP: u32 = 3;
    let bytes = fs::read(path).expect("an executable");
    assert_eq!(&bytes[..6], b"\x7fELF\x02\x01", "64 bits, little-endian");
    let number = |at: usize, size: usize| {
        let part = bytes[at..at + size].iter().rev();
        part.fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let (first, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    assert!(count > 0, "no program headers");
    (0..count).all(|index| number(first + index * size, 4) != PT_INTERP as usize)
}

/// Makes what is handed out of the executable of the tests; whatever the user's rights and zone of time.
fn dist(folder: &Path, umask: &str, zone: &str) -> String {
    let line = format!("umask {umask}; exec \"$0\" \"$1\" \"$2\"");
    let mut command = Command::new("sh");
    command.args([
        OsStr::new("-c"),
        line.as_ref(),
        root().join("release/dist").as_ref(),
    ]);
    command
        .arg(PIPEBENCH)
        .arg(folder)
        .env("TZ", zone)
        .current_dir("/");
    output(&mut command)
}

/// Files below a folder, by their paths from there.
fn files(folder: &Path) -> BTreeSet<String> {
    let said = output(
        Command::new("find")
            .arg(folder)
            .args(["-type", "f", "-printf", "%P\n"]),
    );
    said.lines().map(str::to_owned).collect()
}

#[track_caller]
fn expect_files(folder: &Path, expected: &[&str]) {
    let there = files(folder);
    for path in expected {
        assert!(there.contains(*path), "{path} is not among {there:#?}");
    }
}

#[test]
fn what_is_handed_out_unpacks_and_is_the_same_each_time() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let [first, second, unpacked] =
        ["first", "second", "unpacked"].map(|name| temporary.path().join(name));
    let sums = dist(&first, "022", "UTC");
    assert_eq!(
        sums,
        dist(&second, "077", "Asia/Tokyo"),
        "the same source gave other bytes"
    );
    assert_eq!(
        sums,
        fs::read_to_string(first.join("SHA256SUMS")).expect("SHA256SUMS")
    );
    output(
        Command::new("sha256sum")
            .args(["--check", "SHA256SUMS"])
            .current_dir(&first),
    );

    fs::create_dir(&unpacked).expect("a folder");
    let (version, machine) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let name = format!("pipebench-{version}-{machine}-linux");
    let archive = first.join(format!("{name}.tar.gz"));
    output(
        Command::new("tar")
            .arg("-xzf")
            .arg(archive)
            .arg("-C")
            .arg(&unpacked),
    );
    let tree = unpacked.join(name);
    let expected = "pipebench pipebench-node pipebench.1 README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE LICENCES.txt \
        completions/pipebench.bash completions/pipebench.fish completions/_pipebench docs/record.md \
        examples/cluster.hosts";
    expect_files(&tree, &expected.split_whitespace().collect::<Vec<_>>());
    let packed = files(&tree).into_iter();
    let packed: BTreeSet<String> = packed.filter(|path| path.ends_with(".1")).collect();
    assert_eq!(packed, page_files());
    assert_eq!(
        digest_of(&tree.join("pipebench")),
        digest_of(Path::new(PIPEBENCH))
    );
    assert!(
        is_static(&tree.join("pipebench")),
        "it needs libraries of its host"
    );
    output(Command::new(tree.join("pipebench")).arg("--version"));
    licences_are_complete(&fs::read_to_string(tree.join("LICENCES.txt")).expect("licences"));

    let architecture = if machine == "x86_64" {
        "amd64"
    } else {
        "arm64"
    };
    // As --remote-binary looks for it.
    let node = first.join(format!("pipebench-node-{version}-{machine}"));
    assert_eq!(digest_of(&node), digest_of(&tree.join("pipebench-node")));
    assert!(is_static(&node), "it needs libraries of its host");
    let package = first.join(format!("pipebench_{version}_{architecture}.deb"));
    let members = output(Command::new("ar").arg("t").arg(&package));
    assert_eq!(members, "debian-binary\ncontrol.tar.gz\ndata.tar.gz\n");
    let control = unpack(&package, "control.tar.gz", &unpacked.join("control"));
    let fields = fs::read_to_string(control.join("control")).expect("control");
    for field in [
        &format!("Version: {version}"),
        &format!("Architecture: {architecture}"),
        "Section: net",
    ] {
        assert!(
            fields.lines().any(|line| line == field),
            "{field} is not in\n{fields}"
        );
    }
    let data = unpack(&package, "data.tar.gz", &unpacked.join("data"));
    let expected = "usr/bin/pipebench usr/bin/pipebench-node usr/share/man/man1/pipebench.1.gz \
        usr/share/bash-completion/completions/pipebench usr/share/zsh/vendor-completions/_pipebench \
        usr/share/fish/vendor_completions.d/pipebench.fish usr/share/doc/pipebench/copyright \
        usr/share/doc/pipebench/changelog.gz usr/share/doc/pipebench/LICENCES.txt.gz";
    expect_files(&data, &expected.split_whitespace().collect::<Vec<_>>());
    let zipped = page_files().into_iter().map(|file| format!("{file}.gz"));
    let zipped: BTreeSet<String> = zipped.collect();
    assert_eq!(files(&data.join("usr/share/man/man1")), zipped);
    let sums = control.join("md5sums");
    output(
        Command::new("md5sum")
            .args(["--check", "--quiet"])
            .arg(&sums)
            .current_dir(&data),
    );
    let listed = fs::read_to_string(sums).expect("sums").lines().count();
    assert_eq!(listed, files(&data).len(), "a file has no sum");
    if is_there("dpkg-deb") {
        output(Command::new("dpkg-deb").arg("--info").arg(&package));
        let again = unpacked.join("by-dpkg");
        output(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(&package)
                .arg(&again),
        );
        assert_eq!(files(&again), files(&data));
    }
}

/// Unpacks a member of a Debian package as anybody could, without Debian's tools.
fn unpack(package: &Path, member: &str, folder: &Path) -> PathBuf {
    fs::create_dir(folder).expect("a folder");
    let mut command = Command::new("sh");
    command.args(["-c", "ar p \"$0\" \"$1\" | tar -xz -C \"$2\""]);
    output(command.arg(package).arg(member).arg(folder));
    folder.to_owned()
}

/// Everything that is built in bears a text, unless its package has none and its licence is one of the others'.
fn licences_are_complete(text: &str) {
    // Rust's own notices come with most compilers, not with all.
    const WITHOUT: [&str; 7] = [
        "latency",
        "launcher",
        "libgcc",
        "maud",
        "numbers",
        "rust-library",
        "shared_memory",
    ];
    let (list, texts) = text.split_once("\n====").expect("texts below the list");
    let said = pipebench(&["--version", "--verbose"]);
    for line in said.split_once("\n\n").expect("a list").1.lines().skip(2) {
        assert!(list.contains(line), "{line} is not listed");
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        // Long lists of bearers are folded.
        let bears = words[1..]
            .iter()
            .chain(&words[..1])
            .all(|word| texts.contains(word));
        assert!(bears || WITHOUT.contains(&words[0]), "{line}: no text");
    }
}

#[test]
fn make_knows_its_words() {
    let planned = |word: &str| {
        let mut command = Command::new("make");
        output(
            command
                .args(["--dry-run", word])
                .env_remove("MAKEFLAGS")
                .current_dir(root()),
        )
    };
    for machine in ["x86_64", "aarch64"] {
        assert!(planned("dist").contains(&format!("release/build {machine}\n")));
    }
    assert!(planned("test").contains("tests/run"));
    assert!(planned("golden").contains("PIPEBENCH_GOLDEN=rewrite"));
    assert!(planned("clean-dist").contains("rm -rf dist"));
}
