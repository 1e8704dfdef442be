//! Runs seen from outside: listed, watched, ended by somebody else; and one run per host.

mod whole;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use whole::{Ended, PIPEBENCH, Process, Run, SOON, expect_gone, pause, run, segments};

/// Exit code and both outputs.
fn ask(words: &[&str]) -> (Option<i32>, String, String) {
    let output = run(words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The run that `status` lists, by its first six digits.
#[track_caller]
fn listed() -> String {
    let (code, text, errors) = ask(&["status"]);
    assert_eq!(code, Some(0), "{text}{errors}");
    let row = text
        .lines()
        .nth(1)
        .unwrap_or_else(|| panic!("nothing is listed: {text}{errors}"));
    row.split_whitespace().nth(1).expect("a token").to_owned()
}

fn hold(nodes: usize) -> Run {
    let hosts = format!("local:{nodes}");
    Run::held(&[
        "--hosts", &hosts, "--phases", "2", "--time", "30s", "--rate", "80M",
    ])
}

fn nodes_of(held: &Run) -> Vec<Process> {
    let mut nodes = held.tree();
    nodes.retain(|process| process.name == "pb-node");
    nodes.sort_by_key(|process| process.pid);
    nodes
}

fn signal(process: &Process, signal: Signal) {
    kill(Pid::from_raw(process.pid), signal).expect("sent");
}

#[test]
fn status_lists_a_run_and_disturbs_nothing() {
    let (code, text, _) = ask(&["status"]);
    assert_eq!((code, text.as_str()), (Some(0), "no runs on local\n"));
    let mut held = hold(3);
    let (code, text, errors) = ask(&["status"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("host   run     by "), "{text}");
    let user = nix::unistd::geteuid();
    let by = if user.is_root() { "root@" } else { "@" };
    for part in [by, " UTC ", " s  ", "local[1-3]", " 2      9 ", "ready"] {
        assert!(lines[1].contains(part), "{part}: {text}");
    }
    let run = listed();
    let (_, json, _) = ask(&["status", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let token = value["runs"][0]["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    assert!(token.len() == 32 && token.starts_with(&run), "{json}");
    assert_eq!(value["runs"][0]["nodes"].as_array().map(Vec::len), Some(3));
    // Somebody who watched it does no harm.
    held.release();
    held.wait_for("   1 s");
    let (_, text, _) = ask(&["status"]);
    assert!(
        text.lines()
            .nth(1)
            .is_some_and(|row| row.ends_with("running")),
        "{text}"
    );
    let rate = text
        .lines()
        .nth(1)
        .and_then(|row| row.split_whitespace().rev().nth(1));
    let rate: f64 = rate.and_then(|rate| rate.parse().ok()).expect("a rate");
    assert!(rate > 0.0, "{text}");
}

#[test]
fn a_run_is_ended_from_outside_by_its_first_digits() {
    let held = hold(2);
    let tree = held.tree();
    let run = listed();
    let (code, _, errors) = ask(&["status", "--end", "0000000000"]);
    assert_eq!(code, Some(2), "{errors}");
    assert_eq!(errors, "pipebench: no run 0000000000 on local\n");
    let (code, _, errors) = ask(&["status", "--end", "3f9"]);
    assert_eq!(code, Some(2), "{errors}");
    let (code, text, errors) = ask(&["status", "--end", &run[..4]]);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(text, format!("ended run {run} on local\n"));
    let Ended { code, errors, .. } = held.end("a held run", SOON);
    assert_eq!(code, Some(20), "{errors}");
    let first = errors.lines().find(|line| line.starts_with("pipebench:"));
    assert_eq!(
        first,
        Some("pipebench: local[1-2]: node status process: ended by 'pipebench status --end'"),
        "{errors}"
    );
    expect_gone("after --end", &tree);
    let (_, text, _) = ask(&["status"]);
    assert_eq!(text, "no runs on local\n");
}

#[test]
fn watch_shows_ports_and_links_and_leaves_with_the_run() {
    let mut held = hold(2);
    let run = listed();
    let (code, _, errors) = ask(&["watch", "ffffffffff", "--count", "1"]);
    assert_eq!(
        (code, errors.as_str()),
        (Some(2), "pipebench: no run ffffffffff on local\n")
    );
    held.release();
    held.wait_for("   1 s");
    let (code, text, errors) = ask(&["watch", &run, "--count", "2"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{text}");
    let pictures: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(pictures.len(), 2, "{text}");
    for picture in pictures {
        let lines: Vec<&str> = picture.lines().collect();
        assert!(lines[0].starts_with(&format!("run {run} by ")), "{text}");
        assert!(
            lines[1].starts_with("host    send Gbit/s  receive Gbit/s"),
            "{text}"
        );
        assert!(lines[2].starts_with("local"), "{text}");
        assert!(lines[4].starts_with("slowest links"), "{text}");
        let links = ["local1->local2 phase 0->1", "local2->local1 phase 0->1"];
        assert!(links.iter().all(|link| picture.contains(link)), "{text}");
        assert!(!picture.contains('\x1b'), "{text}");
    }
    // Whoever watches to the end is told of it.
    let watching = Command::new(PIPEBENCH)
        .args(["watch", &run])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut watching = watching;
    let mut lines = std::io::BufReader::new(watching.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.starts_with("slowest links") {
        line.clear();
        let got = std::io::BufRead::read_line(&mut lines, &mut line).expect("readable");
        assert!(got > 0, "ended early");
    }
    let (code, _, errors) = ask(&["status", "--end", &run]);
    assert_eq!(code, Some(0), "{errors}");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).expect("readable");
    assert!(rest.ends_with(&format!("run {run} has ended\n")), "{rest}");
    assert_eq!(watching.wait().expect("ended").code(), Some(0));
}

#[test]
fn leaving_a_picture_with_ctrl_c_is_no_failure() {
    let held = hold(1);
    let run = listed();
    for (sent, code) in [(Signal::SIGINT, 0), (Signal::SIGTERM, 143)] {
        let mut watching = Command::new(PIPEBENCH)
            .args(["watch", &run])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let mut lines = std::io::BufReader::new(watching.stdout.take().expect("piped"));
        let mut line = String::new();
        let got = std::io::BufRead::read_line(&mut lines, &mut line).expect("readable");
        assert!(got > 0, "ended early");
        let pid = i32::try_from(watching.id()).expect("a process id");
        kill(Pid::from_raw(pid), sent).expect("sent");
        assert_eq!(watching.wait().expect("ended").code(), Some(code));
    }
    assert!(!held.tree().is_empty());
}

#[test]
fn a_second_run_is_told_who_has_the_host() {
    let held = hold(3);
    let tree = held.tree();
    let run = listed();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    let words = "--hosts local:2 --time 100ms --quiet --folder";
    let words: Vec<&str> = words.split(' ').chain([&*path]).collect();
    let (code, text, errors) = ask(&words);
    assert_eq!(code, Some(12), "{errors}");
    // Nothing ran: there is no record, and no port to blame.
    assert_eq!(text, "", "{errors}");
    let runs = std::fs::read_dir(&path).expect("a folder");
    assert_eq!(runs.count(), 0);
    let first = errors.lines().next().unwrap_or_default();
    let start = format!("pipebench: local1: busy: run {run} by ");
    assert!(first.starts_with(&start), "{errors}");
    assert!(
        first.ends_with(" UTC (see 'pipebench status HOSTS')"),
        "{errors}"
    );
    // The host is free as soon as the run has gone, and the first run was not touched.
    assert_eq!(held.tree().len(), tree.len());
    drop(held);
    let (code, _, errors) = ask(&["--hosts", "local:2", "--time", "100ms", "--warmup", "0s"]);
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn a_stopped_holder_is_named_by_what_its_segment_says() {
    let held = hold(2);
    let run = listed();
    // Which of them holds the host is the launching side's choice.
    for node in nodes_of(&held) {
        signal(&node, Signal::SIGSTOP);
    }
    let (code, _, errors) = ask(&["--hosts", "local", "--time", "100ms", "--quiet"]);
    assert_eq!(code, Some(12), "{errors}");
    let first = errors.lines().next().unwrap_or_default();
    assert!(first.contains(&format!("busy: run {run} by ")), "{errors}");
    assert!(first.contains(", which is stopped (see "), "{errors}");
    let (_, text, _) = ask(&["status"]);
    let row = text.lines().nth(1).unwrap_or_default();
    assert!(
        row.starts_with("local") && row.ends_with("stopped"),
        "{text}"
    );
    // It hears of its end all the same.
    let (code, text, errors) = ask(&["status", "--end", &run]);
    assert_eq!(code, Some(0), "{text}{errors}");
}

/// Everything of a run is killed at once: only the next start can remove what it left, and the host is free.
#[test]
fn leftovers_of_a_killed_run_are_swept_and_the_host_is_free_at_once() {
    let held = hold(2);
    let tree = held.tree();
    whole::send(held.pid(), Signal::SIGKILL);
    // Parents last, so that nobody sees a child go; a stopped process does nothing more.
    for process in &tree {
        match kill(Pid::from_raw(process.pid), Signal::SIGSTOP) {
            Ok(()) | Err(_) => {}
        }
    }
    for process in tree.iter().rev() {
        match kill(Pid::from_raw(process.pid), Signal::SIGKILL) {
            Ok(()) | Err(_) => {}
        }
    }
    drop(held);
    expect_gone("after everything was killed", &tree);
    let left = segments().len();
    let (code, text, errors) = ask(&["status"]);
    assert_eq!(code, Some(0), "{errors}");
    let swept = match left {
        0 => String::new(),
        1 => "swept 1 leftover of killed runs on local\n".to_owned(),
        more => format!("swept {more} leftovers of killed runs on local\n"),
    };
    assert_eq!(text, format!("no runs on local\n{swept}"));
    let until = Instant::now() + Duration::from_secs(5);
    while !segments().is_empty() && Instant::now() < until {
        pause();
    }
    assert_eq!(segments(), Vec::<String>::new());
    let (code, _, errors) = ask(&["--hosts", "local:2", "--time", "100ms", "--warmup", "0s"]);
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn bad_words_and_unreachable_hosts_have_their_codes() {
    for words in [
        &["status", "--end", "soon"][..],
        &["status", "--fanout", "0"],
        &["status", "n[1-"],
        &["watch"],
        &["watch", "3f9a1c", "--count", "0"],
        &["watch", "word"],
    ] {
        let (code, _, errors) = ask(words);
        assert_eq!(code, Some(2), "{words:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{words:?}: {errors}");
    }
    let words = [
        "status",
        "local,nowhere.invalid",
        "--deadline",
        "resolve=2s",
    ];
    let (code, text, errors) = ask(&words);
    assert_eq!(code, Some(10), "{errors}");
    assert_eq!(text, "no runs on local\n");
    assert!(
        errors.starts_with("pipebench: nowhere.invalid: cannot resolve"),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let (code, text, _) = ask(&["status", "n[1-3]", "-x", "n2", "--dry-run"]);
    assert_eq!((code, text.as_str()), (Some(0), "would ask n[1,3]\n"));
}
