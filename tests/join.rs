//! Runs whose nodes join: started by hand, by a command, or not at all. All nodes are processes of this machine, which go
//! by the names of several hosts.

mod whole;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use nix::sys::signal::Signal;
use whole::{PIPEBENCH, Process, Run, SOON, expect_gone, pause, run, send};

/// Options of a short run between nodes on one machine.
const SHORT: [&str; 8] = [
    "--phases", "2", "--time", "300ms", "--warmup", "100ms", "--rate", "80M",
];
/// Options of a run that lasts until something ends it.
const LONG: [&str; 6] = ["--phases", "2", "--time", "60s", "--rate", "80M"];
/// Names that a batch system gives to hosts. A host's own name goes before them, and is that of this machine.
const NAMED: [&str; 2] = ["--hosts", "n1,n2"];
/// A place for the port that only this machine reaches.
const HERE: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// A started `pipebench join`. It ends with the test at the latest.
struct Join(Child);

impl Join {
    /// Joins as the node of this host.
    fn start(token: &Path, host: &str) -> Self {
        Self::by(PIPEBENCH, token, host)
    }

    fn by(executable: &str, token: &Path, host: &str) -> Self {
        let child = Command::new(executable)
            .args(["join", "--deadline", "20s", "--token-file"])
            .arg(token)
            .env("SLURMD_NODENAME", host)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(child.expect("pipebench starts"))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a process id")
    }

    /// Waits for its end; exit code and error output.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + SOON;
        let status = loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < until, "a join does not end");
            pause();
        };
        let mut text = String::new();
        let mut errors = self.0.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut errors, &mut text).expect("text");
        (status.code(), text)
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    (folder, token)
}

/// Starts a run that awaits nodes, and waits until its port is open.
fn awaiting(count: usize, token: &Path, words: &[&str]) -> Run {
    let count = count.to_string();
    let own = ["--await", &count, "--token-file", &token.to_string_lossy()].map(str::to_owned);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let mut run = Run::start(&[&own, &HERE[..], words].concat());
    run.wait_for(&format!("waiting for {count} nodes: pipebench join "));
    run
}

fn own_name() -> String {
    let names = nix::sys::utsname::uname().expect("a name");
    names.nodename().to_string_lossy().into_owned()
}

/// Words of a starter that `engine.sh` is.
fn engine() -> String {
    format!("sh {}/tests/join/engine.sh %H", env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn process(run: &Run, name: &str) -> Process {
    let mut tree = run.tree();
    tree.retain(|process| process.name == name);
    tree.into_iter().next().expect(name)
}

fn refused(words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = run(words);
    (status.code(), String::from_utf8(stderr).expect("text"))
}

#[test]
fn nodes_that_a_user_starts_join_and_are_the_hosts_of_the_run() {
    let (_folder, token) = folder();
    let run = awaiting(2, &token, &SHORT);
    let mode = fs::metadata(&token).expect("a token").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The second host has the small executable only.
    let small = env!("CARGO_BIN_EXE_pipebench-node");
    let joins = [Join::start(&token, "n1"), Join::by(small, &token, "n2")];
    let ended = run.end("two that joined", SOON);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let record = ended.record.expect("a record");
    let own = own_name();
    for (host, number) in record.hosts.iter().zip(1..) {
        assert_eq!(host.node, format!("{own}#{number}"));
        assert_eq!(host.transport, "join");
    }
    assert_eq!(record.hosts.len(), 2);
    for join in joins {
        let (code, errors) = join.end();
        assert_eq!(code, Some(0), "{errors}");
    }
    assert!(!token.exists(), "the token file is left");
}

#[test]
fn one_command_starts_the_nodes_of_all_hosts() {
    let hosts = ["--hosts", "n[1-3]", "--starter", &engine()].map(str::to_owned);
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let run = Run::start(&[&hosts, &HERE[..], &SHORT].concat());
    let ended = run.end("a starter", SOON);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let record = ended.record.expect("a record");
    let labels: Vec<_> = record.hosts.iter().map(|host| host.node.as_str()).collect();
    assert_eq!(labels, ["n1", "n2", "n3"]);
    let starter = record.options.iter().find(|(name, _)| name == "starter");
    assert!(starter.is_some_and(|(_, words)| words.contains("engine.sh %H")));
}

/// Symptom: the launching side waited for the deadline, although nothing could join any more.
#[test]
fn a_starter_that_is_killed_ends_the_wait_and_is_named() {
    let hosts = [
        "--hosts",
        "n1,n2",
        "--starter",
        "sh -c 'echo begun >&2; exec sleep 1000'",
    ];
    let mut run = Run::start(&[&hosts, &HERE[..], &LONG].concat());
    run.wait_until("the starter runs", |run| {
        run.tree().iter().any(|process| process.name == "sleep")
    });
    let starter = process(&run, "sleep");
    send(starter.pid, Signal::SIGKILL);
    let ended = run.end("a killed starter", SOON);
    ended.expect(
        "a killed starter",
        10,
        &["n[1-2]: cannot connect", "starter"],
    );
    assert!(ended.errors.contains("KILL"), "{}", ended.errors);
}

#[test]
fn a_starter_that_cannot_run_is_named_with_its_last_line() {
    let words = "sh -c 'echo no such partition >&2; exit 3'";
    let (code, errors) = refused(&["--hosts", "n1,n2", "--starter", words]);
    assert_eq!(code, Some(10), "{errors}");
    assert!(errors.contains("status 3"), "{errors}");
    assert!(errors.contains("no such partition"), "{errors}");
}

#[test]
fn a_killed_launching_side_ends_joins_and_nodes() {
    let (_folder, token) = folder();
    let mut run = awaiting(2, &token, &[&NAMED, &LONG[..]].concat());
    let joins = ["n1", "n2"].map(|host| Join::start(&token, host));
    run.wait_for("   1 s");
    let mut left: Vec<Process> = run.tree();
    for join in &joins {
        left.extend(whole::below(join.pid()));
    }
    assert!(left.iter().any(|process| process.name == "pb-node"));
    send(run.pid(), Signal::SIGKILL);
    for join in joins {
        join.end();
    }
    expect_gone("after the end of the launching side", &left);
}

#[test]
fn a_node_that_joined_and_is_killed_is_named() {
    let (_folder, token) = folder();
    let mut run = awaiting(2, &token, &[&NAMED, &LONG[..]].concat());
    let joins = ["n1", "n2"].map(|host| Join::start(&token, host));
    run.wait_for("   1 s");
    let below = whole::below(joins[1].pid());
    let node = below.iter().find(|process| process.name == "pb-node");
    send(node.expect("a node").pid, Signal::SIGKILL);
    let ended = run.end("a killed node", SOON);
    ended.expect(
        "a killed node",
        20,
        &["n2: node status process killed by SIGKILL"],
    );
    expect_gone("after a killed node", &below);
}

/// Symptom: the processes of a node whose batch system killed its task stayed, or the run lasted until its deadline.
#[test]
fn a_join_that_is_killed_ends_its_node_and_the_run_names_the_host() {
    let (_folder, token) = folder();
    let mut run = awaiting(2, &token, &[&NAMED, &LONG[..]].concat());
    let joins = ["n1", "n2"].map(|host| Join::start(&token, host));
    run.wait_for("   1 s");
    let below = whole::below(joins[1].pid());
    send(joins[1].pid(), Signal::SIGKILL);
    let ended = run.end("a killed join", SOON);
    ended.expect("a killed join", 20, &["n2: lost"]);
    expect_gone("after a killed join", &below);
}

#[test]
fn a_run_that_is_interrupted_while_it_waits_leaves_nothing() {
    let (_folder, token) = folder();
    let run = awaiting(2, &token, &SHORT);
    let join = Join::start(&token, "n1");
    send(run.pid(), Signal::SIGINT);
    let ended = run.end("interrupted", SOON);
    assert_eq!(ended.code, Some(130), "{}", ended.errors);
    let (code, errors) = join.end();
    assert_eq!(code, Some(10), "{errors}");
    assert!(!token.exists(), "the token file is left");
}

/// Symptom: after a run that was killed, all nodes of the next one tried the address in the token file that was left.
#[test]
fn a_token_file_with_the_addresses_of_another_run_is_named() {
    let (_folder, token) = folder();
    fs::write(&token, format!("{}\n127.0.0.1:1\n", "ab".repeat(32))).expect("written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("changed");
    let run = awaiting(1, &token, &SHORT);
    send(run.pid(), Signal::SIGINT);
    let ended = run.end("a file that was left", SOON);
    ended.expect("a file that was left", 130, &["addresses of another run"]);
    assert!(token.exists(), "a file of the user is removed");
}

#[test]
fn a_wrong_token_joins_nothing_and_keeps_no_one_out() {
    let (folder, token) = folder();
    let run = awaiting(1, &token, &SHORT);
    let text = fs::read_to_string(&token).expect("a token");
    let (secret, addresses) = text.split_once('\n').expect("addresses");
    let other = folder.path().join("other");
    fs::write(&other, format!("{}\n{addresses}", "0".repeat(secret.len()))).expect("written");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("changed");
    let stranger = Join::start(&other, "n1");
    let (code, errors) = Join::start(&token, "n1").end();
    assert_eq!(code, Some(0), "{errors}");
    let ended = run.end("a wrong token", SOON);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    drop(stranger);
}

#[test]
fn a_host_that_the_list_does_not_name_is_refused_with_the_reason() {
    let (_folder, token) = folder();
    let run = awaiting(2, &token, &[&NAMED, &SHORT[..]].concat());
    let (code, errors) = Join::start(&token, "n3").end();
    assert_eq!(code, Some(10), "{errors}");
    assert!(errors.contains("the host list has no "), "{errors}");
    let first = Join::start(&token, "n1");
    let second = Join::start(&token, "n2");
    let ended = run.end("a stranger", SOON);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(ended.errors.contains("is refused"), "{}", ended.errors);
    drop((first, second));
}

#[test]
fn a_token_that_others_can_read_is_refused_on_both_sides() {
    let (_folder, token) = folder();
    fs::write(&token, format!("{}\n", "ab".repeat(32))).expect("written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).expect("changed");
    let name = token.to_string_lossy().into_owned();
    for words in [
        &["--await", "1", "--token-file", &name][..],
        &["join", "127.0.0.1:9", "--token-file", &name],
    ] {
        let (code, errors) = refused(words);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains("other users can read"), "{errors}");
    }
}

/// Symptom: with a starter that passes no standard input on, nodes waited for a token without end, or said that `-` has none.
#[test]
fn a_join_without_a_token_on_standard_input_ends_with_the_cure() {
    let join = |input: Stdio| {
        let mut command = Command::new(PIPEBENCH);
        let words = ["join", "127.0.0.1:9", "--deadline", "300ms"];
        command.args(words).args(["--token-file", "-"]);
        command.stdin(input).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn();
        Join(child.expect("pipebench starts"))
    };
    let (code, errors) = join(Stdio::null()).end();
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("standard input has no token"), "{errors}");
    // The test holds the other end of the pipe.
    let (code, errors) = join(Stdio::piped()).end();
    assert_eq!(code, Some(10), "{errors}");
    for part in ["no token came", "--token-file FILE"] {
        assert!(errors.contains(part), "{errors}");
    }
}

#[test]
fn a_host_that_does_not_join_is_named_at_the_deadline() {
    let (_folder, token) = folder();
    let words = ["--hosts", "n1,n2", "--deadline", "connect=2s"];
    let run = awaiting(2, &token, &[&words, &SHORT[..]].concat());
    let join = Join::start(&token, "n1");
    let ended = run.end("none joins", SOON);
    ended.expect("none joins", 10, &["n2: cannot connect", "2 s"]);
    let (code, errors) = join.end();
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn a_dry_run_says_how_nodes_are_started_and_opens_no_port() {
    let output = run(&["--await", "4", "--dry-run"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["join[1-4]", "reach      nodes join", "await=4"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let words = [
        "--hosts",
        "n[1-4]",
        "--starter",
        "clush -f %N -w %H",
        "--dry-run",
    ];
    let text = String::from_utf8(run(&words).stdout).expect("text");
    assert!(text.contains("reach      clush -f %N -w %H"), "{text}");
}

/// Symptom: `srun -N2 pipebench --hosts auto` was refused, or was two runs that took each other's hosts.
#[test]
fn the_tasks_of_a_job_step_are_one_run() {
    whole::alone::wait();
    let home = tempfile::tempdir().expect("a folder");
    let own = own_name();
    let task = |rank: &str, host: &str| {
        let mut command = Command::new(PIPEBENCH);
        command.args(["--hosts", "auto"]).args(HERE).args(SHORT);
        command
            .env("HOME", home.path())
            .env("SLURMD_NODENAME", host)
            .env("SLURM_PROCID", rank)
            .env("SLURM_JOB_ID", "7")
            .env("SLURM_STEP_ID", "0")
            .env("SLURM_JOB_NODELIST", format!("{own},n2"))
            .env("SLURM_STEP_NODELIST", format!("{own},n2"))
            .env("SLURM_STEP_NUM_NODES", "2")
            .env("SLURM_STEP_NUM_TASKS", "2")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Join(command.spawn().expect("pipebench starts"))
    };
    let (other, first) = (task("1", "n2"), task("0", &own));
    let (code, errors) = first.end();
    assert_eq!(code, Some(0), "{errors}");
    let (code, errors) = other.end();
    assert_eq!(code, Some(0), "{errors}");
    let left = fs::read_dir(home.path().join(".cache/pipebench")).expect("a folder");
    assert_eq!(left.count(), 0, "the token file is left");
}
