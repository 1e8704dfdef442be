//! What a terminal shows: colours, the live line, the question before a large run, and where the verdict stands.

mod alone;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use nix::pty::{Winsize, openpty};

/// Text that a command printed to a terminal, and its exit code.
struct Shown {
    text: String,
    code: Option<i32>,
}

/// Runs a command in a terminal of so many columns; types `answer` at once.
fn in_terminal(columns: u16, words: &[&str], variables: &[(&str, &str)], answer: &str) -> Shown {
    let size = Winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let ends = openpty(Some(&size), None).expect("a terminal");
    let end = || Stdio::from(ends.slave.try_clone().expect("a descriptor"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_pipebench"))
        .args(words)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied())
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .expect("it starts");
    drop(ends.slave);
    let mut master = File::from(ends.master);
    master.write_all(answer.as_bytes()).expect("it reads");
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    // A terminal that nobody has open any more ends with an error.
    while let Ok(count @ 1..) = master.read(&mut part) {
        bytes.extend_from_slice(&part[..count]);
    }
    Shown {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        code: child.wait().expect("it has ended").code(),
    }
}

fn record(name: &str) -> String {
    format!(
        "{}/tests/golden/{name}/record.json",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn verdict_words_have_colour_on_a_terminal_unless_it_must_not() {
    let words = ["report", &record("slow-receiver")];
    let shown = in_terminal(120, &words, &[], "");
    assert!(
        shown
            .text
            .starts_with("\u{1b}[1;31mFAIL\u{1b}[0m  n3 receive"),
        "{}",
        shown.text
    );
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let shown = in_terminal(120, &words, &[variable], "");
        assert!(shown.text.starts_with("FAIL  n3 receive"), "{}", shown.text);
        assert!(!shown.text.contains('\u{1b}'), "{}", shown.text);
    }
}

#[test]
fn a_run_on_many_hosts_shows_its_plan_and_asks_before_it_starts() {
    let words = ["--hosts", "n[1-9].invalid", "--deadline", "resolve=1s"];
    let shown = in_terminal(120, &words, &[], "n\n");
    for part in [
        "nodes      9: n[1-9].invalid",
        "start? [y/N]",
        "pipebench: not started",
    ] {
        assert!(shown.text.contains(part), "{part}: {}", shown.text);
    }
    assert_eq!(shown.code, Some(2));
    // The names do not exist: a run that was not asked for ends there.
    for (more, answer) in [(None, "yes\n"), (Some("--yes"), "")] {
        let words: Vec<&str> = words.into_iter().chain(more).collect();
        let shown = in_terminal(120, &words, &[], answer);
        assert_eq!(shown.code, Some(10), "{}", shown.text);
        assert_eq!(
            shown.text.contains("start?"),
            more.is_none(),
            "{}",
            shown.text
        );
    }
}

#[test]
fn the_live_line_fits_the_terminal_and_says_which_test_runs() {
    for columns in [80, 120] {
        alone::wait();
        let words = "--hosts local:3 --time 1s --warmup 300ms --pattern rotate";
        let words: Vec<&str> = words.split(' ').collect();
        let shown = in_terminal(columns, &words, &[("NO_COLOR", "1")], "");
        let live = shown.text.split("\r\u{1b}[K");
        let live: Vec<&str> = live.filter(|line| line.contains(" s of 2 s ")).collect();
        assert!(live.len() >= 2, "{}", shown.text);
        for line in live {
            let line = line.lines().next().unwrap_or_default();
            assert!(line.chars().count() < usize::from(columns), "{line}");
            assert!(
                line.contains("test 1 of 2 ring") || line.contains("test 2 of 2"),
                "{line}"
            );
            assert!(line.contains("  total "), "{line}");
        }
    }
}

#[test]
fn the_verdict_is_the_last_line_of_a_long_summary() {
    alone::wait();
    let words = ["--hosts", "local:3", "--time", "500ms", "--warmup", "100ms"];
    let shown = in_terminal(80, &words, &[("NO_COLOR", "1")], "");
    let lines: Vec<&str> = shown.text.lines().filter(|line| !line.is_empty()).collect();
    let verdicts = lines.iter().filter(|line| line.contains("NOT JUDGED  "));
    assert_eq!(verdicts.count(), 2, "{}", shown.text);
    let last = lines.last().copied().unwrap_or_default();
    assert!(last.starts_with("NOT JUDGED  "), "{last}");
}
