//! What a terminal shows: colours, the live line, the question before a large run, and where the verdict stands.

mod whole;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use nix::pty::{Winsize, openpty};
use whole::alone;

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
    let plain = whole::run(&words);
    let plain = String::from_utf8_lossy(&plain.stdout).replace('\n', "\r\n");
    for columns in [80, 120] {
        let shown = in_terminal(columns, &words, &[], "");
        let start = "\u{1b}[1;31mFAIL\u{1b}[0m  n3 receive";
        assert!(shown.text.starts_with(start), "{}", shown.text);
        let colours = ["\u{1b}[1;31m", "\u{1b}[1;32m", "\u{1b}[0m"];
        let without = colours
            .iter()
            .fold(shown.text, |text, colour| text.replace(colour, ""));
        assert_eq!(without, plain);
    }
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
fn the_live_picture_fits_the_terminal_and_says_which_test_runs_and_what_is_left() {
    for columns in [80, 120] {
        alone::wait();
        let words = "--hosts local:3 --time 1s --warmup 300ms --pattern rotate";
        let words: Vec<&str> = words.split(' ').collect();
        let shown = in_terminal(columns, &words, &[("NO_COLOR", "1")], "");
        let live = shown.text.split("\r\u{1b}[K");
        let live: Vec<&str> = live.filter(|part| part.contains("] ")).collect();
        assert!(live.len() >= 2, "{}", shown.text);
        for picture in live {
            let picture = picture.trim_start_matches("\u{1b}[1A\u{1b}[K");
            let lines: Vec<&str> = picture.lines().map(str::trim_end).collect();
            let [first, rates, ..] = lines[..] else {
                panic!("one line: {picture}");
            };
            for line in [first, rates] {
                assert!(line.chars().count() < usize::from(columns), "{line}");
            }
            assert!(
                first.starts_with('[') && first.contains(" s left  test "),
                "{first}"
            );
            assert!(
                ["1 of 2 ring  ", "2 of 2 shift:2  "]
                    .iter()
                    .any(|test| first.contains(test))
                    && first.contains(" s of 2 s"),
                "{first}"
            );
            assert!(
                rates.starts_with("    total ") && rates.contains("  slowest "),
                "{rates}"
            );
        }
        // The picture is erased whole before the next one, and before the result.
        let (drawn, erased) = (
            shown.text.matches("\n    total "),
            shown.text.matches("\u{1b}[1A\u{1b}[K"),
        );
        assert_eq!(drawn.count(), erased.count(), "{}", shown.text);
    }
}

#[test]
fn the_verdict_is_the_last_line_of_a_long_summary() {
    alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().display().to_string();
    let words = "--hosts local:3 --time 500ms --warmup 100ms --folder";
    let words: Vec<&str> = words.split(' ').chain([&*folder]).collect();
    let shown = in_terminal(80, &words, &[("NO_COLOR", "1")], "");
    assert!(shown.text.contains("\nrecord "), "{}", shown.text);
    let lines: Vec<&str> = shown.text.lines().filter(|line| !line.is_empty()).collect();
    let verdicts = lines.iter().filter(|line| line.contains("NOT JUDGED  "));
    assert_eq!(verdicts.count(), 2, "{}", shown.text);
    let last = lines.last().copied().unwrap_or_default();
    assert!(last.starts_with("NOT JUDGED  "), "{last}");
    assert!(last.contains(": weakest local"), "{last}");
}

#[test]
fn a_pipe_gets_plain_lines() {
    alone::wait();
    let words = ["--hosts", "local:2", "--time", "2s", "--warmup", "100ms"];
    let output = whole::run(&words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains(['\r', '\u{1b}']), "{said}");
    let is_rate = |line: &str| line.contains(" s of 3 s") && line.contains("  total ");
    assert!(said.lines().any(is_rate), "{said}");
}
