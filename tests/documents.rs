//! Compares the documents with the program: their commands run, the options they name exist, the examples work,
//! and the help gives an example of every option.

mod alone;
mod commands;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use commands::{commands, help_of};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Paths below the repository and texts of README, CONTRIBUTING and the pages of docs/.
fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect_paths(&root().join("docs"), &mut found);
    found.retain(|path| path.ends_with(".md"));
    assert!(found.len() >= 17, "only {} pages of docs/", found.len());
    let mut paths: Vec<PathBuf> = found.into_iter().map(PathBuf::from).collect();
    paths.extend([root().join("README.md"), root().join("CONTRIBUTING.md")]);
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root()).expect("below the root");
            let text = fs::read_to_string(&path).expect("a readable page");
            (name.to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// Runs a command to its end. At the deadline, kills it and panics with its error output.
#[track_caller]
fn finish(command: &mut Command, title: &str) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| fs::File::create(folder.path().join(name)).expect("a file");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("err"))
        .spawn()
        .unwrap_or_else(|error| panic!("{title}: {error}"));
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
    let ends = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return Output {
                status,
                stdout: read("out"),
                stderr: read("err"),
            };
        }
        if Instant::now() >= ends {
            child.kill().expect("a child");
            child.wait().expect("a child");
            let said = String::from_utf8_lossy(&read("err")).into_owned();
            panic!("{title}: still running after {DEADLINE:?}\n{said}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn expect_success(output: &Output, title: &str) {
    assert!(
        output.status.success(),
        "{title}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn help() -> String {
    help_of(&[])
}

/// Lines of a page's fenced blocks whose opening line is ``` followed by one of `kinds`.
fn fenced<'page>(page: &'page str, kinds: &[&str]) -> Vec<&'page str> {
    let mut lines = Vec::new();
    let mut inside = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(kind), None) => inside = Some(kinds.contains(&kind)),
            (Some(_), Some(_)) => inside = None,
            (None, Some(true)) => lines.push(line),
            (None, _) => {}
        }
    }
    assert!(inside.is_none(), "a block is not closed");
    lines
}

/// Arguments of a documented pipebench command; `None` for other programs.
fn words_of(command: &str) -> Option<&str> {
    ["pipebench ", "cargo run --release -- "]
        .iter()
        .find_map(|start| command.strip_prefix(start))
}

/// Passes the words through a shell, as a reader does, and adds `--dry-run`.
fn dry_run(words: &str) -> Output {
    let asked = if words.ends_with("--dry-run") {
        ""
    } else {
        "--dry-run"
    };
    let line = format!("exec \"$PIPEBENCH\" {words} {asked}");
    let mut command = Command::new("sh");
    command
        .args(["-c", &line])
        .env("PIPEBENCH", PIPEBENCH)
        .env("SLURM_JOB_NODELIST", "n[01-04]")
        .current_dir(root());
    finish(&mut command, words)
}

/// Runs a command that needs stored runs in a folder that holds some; `None` for other commands.
fn of_kept_runs(words: &str) -> Option<Output> {
    const COMMANDS: [&str; 10] = [
        "latency", "report", "list", "compare", "merge", "retest", "init", "run", "check", "serve",
    ];
    let of_file = ["linktest show ", "linktest export "];
    let of_file = of_file.iter().any(|start| words.starts_with(start));
    let command = words
        .split(' ')
        .next()
        .filter(|word| COMMANDS.contains(word) || of_file)?;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |path: PathBuf, text: String| {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    for (run, record) in [
        ("pb-20261101-090000-aaaaaa", "acceptance"),
        ("pb-20261120-090000-acacac", "acceptance"),
        ("pb-20261121-090000-b0b0b0", "slow-receiver"),
        ("pb-20261122-100000-cab1e5", "latency"),
        ("pb-20261105-100000-1b1b1b", "patterns"),
        ("pb-20261125-100000-1b1b1b", "patterns"),
    ] {
        let stored = root().join("tests/golden").join(record).join("record.json");
        let text = fs::read_to_string(stored).expect("a stored record");
        write(
            folder.path().join("results").join(run).join("record.json"),
            text,
        );
    }
    write(
        folder.path().join("cluster.hosts"),
        "n1\nn2\nn3\nn4\n".to_owned(),
    );
    let sample = root().join("tests/samples/n4_basic.sion");
    let result = folder.path().join("pingpong_results_bin.sion");
    fs::copy(sample, result).expect("a file");
    let mut copies = vec![
        ("examples/web.toml", "web.toml"),
        ("examples/web.toml", "examples/web.toml"),
        ("examples/plan.toml", "examples/plan.toml"),
    ];
    if command != "init" {
        copies.push(("src/cli/plan.toml", "plan.toml"));
    }
    for (from, to) in copies {
        let text = fs::read_to_string(root().join(from)).expect(from);
        write(folder.path().join(to), text);
    }
    // Input files of the latency commands.
    for name in ["topology.txt", "lfts.txt", "ports.csv", "fabric.toml"] {
        let sample = root().join("tests/samples/fabric").join(name);
        fs::copy(sample, folder.path().join(name)).expect("a file");
    }
    let asked = match command {
        "latency" if words.contains(" run ") || words.contains(" locate ") => "--dry-run",
        "retest" | "check" => "--dry-run",
        "serve" if !words.contains("--check") && !words.contains("--example") => "--check",
        // With --resume, a dry run looks for the run to resume.
        "run" if !words.contains("--resume") && !words.contains("--dry-run") => "--dry-run",
        _ => "",
    };
    // Hosts are written into a plan after a check, and these do not exist.
    if words.starts_with("init --hosts") {
        alone::wait();
    }
    let words = &words.replace("init --hosts 'n[01-16]'", "init --hosts local:2");
    let line = format!("exec \"$PIPEBENCH\" {words} {asked}");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &line])
        .env("PIPEBENCH", PIPEBENCH)
        .current_dir(folder.path());
    Some(finish(&mut shell, words))
}

#[test]
fn documented_commands_are_understood() {
    let mut seen = 0;
    for (name, page) in pages() {
        for command in fenced(&page, &["console", "sh"]) {
            let Some(words) = words_of(command).filter(|words| !words.starts_with("--help")) else {
                continue;
            };
            seen += 1;
            if let Some(told) = of_kept_runs(words) {
                assert!(
                    matches!(told.status.code(), Some(0 | 1)) && told.stderr.is_empty(),
                    "{name}: {command}: {}",
                    String::from_utf8_lossy(&told.stderr)
                );
                continue;
            }
            expect_success(&dry_run(words), &format!("{name}: {command}"));
        }
    }
    assert!(seen >= 5, "only {seen} commands were found");
}

#[test]
fn the_commands_of_the_help_are_understood() {
    let help = help();
    let examples = help
        .split("\nEXAMPLES\n")
        .nth(1)
        .expect("EXAMPLES in --help");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hosts = folder.path().join("cluster.txt");
    fs::write(&hosts, "n1\nn2\n").expect("a file");
    let mut seen = 0;
    for line in examples.lines().take_while(|line| !line.is_empty()) {
        // At least three spaces separate a command from its explanation.
        let command = line.trim().split("   ").next().expect("a first part");
        let words = words_of(command).unwrap_or_else(|| panic!("{line:?} is no command"));
        let words = words.replace("cluster.txt", &hosts.to_string_lossy());
        seen += 1;
        expect_success(&dry_run(&words), line);
    }
    assert!(seen >= 5, "only {seen} examples were found");
}

#[test]
fn a_newcomers_two_commands_stand_on_the_first_screen() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let screen: Vec<&str> = readme.lines().take(25).collect();
    for command in [
        "cargo run --release -- --hosts local:3 --phases 3",
        "tests/run",
    ] {
        assert!(screen.contains(&command), "{command} is not there");
    }
}

/// Long options in a text, such as `--data-network`.
fn flags(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("--") {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || "-_/".contains(letter)) {
            continue;
        }
        let flag: String = text[at + 2..]
            .chars()
            .take_while(|letter| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || *letter == '-'
            })
            .collect();
        let flag = flag.trim_end_matches('-');
        if flag.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            found.insert(format!("--{flag}"));
        }
    }
    found
}

#[test]
fn every_option_that_is_named_exists() {
    // Options of other programs: cargo, git, srun, salloc, kubectl, systemctl, iperf3 and the benchmarks.
    const OTHERS: [&str; 15] = [
        "--now",
        "--write",
        "--release",
        "--test",
        "--lib",
        "--overlap",
        "--exclusive",
        "--nodes",
        "--ntasks",
        "--cpu-bind",
        "--bench",
        "--workspace",
        "--from-file",
        "--net",
        "--ntasks-per-node",
    ];
    let known: BTreeSet<String> = commands()
        .iter()
        .flat_map(|command| flags(&help_of(command)))
        .collect();
    let mut texts = pages();
    let mut examples = Vec::new();
    collect_paths(&root().join("examples"), &mut examples);
    examples.retain(|path| Path::new(path).is_file());
    for path in examples {
        let text: String = fs::read_to_string(&path)
            .expect("a readable file")
            .lines()
            .filter(|line| !line.starts_with("#SBATCH"))
            .collect::<Vec<_>>()
            .join("\n");
        texts.push((path, text));
    }
    let mut wrong = Vec::new();
    for (name, text) in texts {
        for flag in flags(&text) {
            if !known.contains(&flag) && !OTHERS.contains(&flag.as_str()) {
                wrong.push(format!("{name}: {flag}"));
            }
        }
    }
    assert!(wrong.is_empty(), "no such option: {wrong:?}");
}

/// Options of the long help: each option's heading line and the text below it.
fn options(help: &str) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    let listed = help.split("\nEXAMPLES\n").next().expect("a first part");
    for line in listed.lines() {
        let depth = line.len() - line.trim_start().len();
        if (2..=6).contains(&depth) && line.trim_start().starts_with('-') {
            options.push((line.trim().to_owned(), String::new()));
        } else if let Some((_, text)) = options.last_mut().filter(|_| depth >= 8 || line.is_empty())
        {
            text.push_str(line.trim());
            text.push(' ');
        }
    }
    options
}

#[test]
fn the_help_has_an_example_for_every_option() {
    for command in commands() {
        let least = match command.first().map(String::as_str) {
            None => 25,
            Some("status" | "watch") => 10,
            Some(_) => 0,
        };
        expect_examples(&help_of(&command), least);
    }
}

#[track_caller]
fn expect_examples(help: &str, least: usize) {
    let options = options(help);
    assert!(
        options.len() > least,
        "only {} options were found",
        options.len()
    );
    let own = |(name, _): &&(String, String)| {
        !["-h, --help", "-V, --version"]
            .iter()
            .any(|known| name.starts_with(known))
    };
    let mut wrong = Vec::new();
    for (name, text) in options.iter().filter(own) {
        let Some((_, example)) = text.split_once("Example:") else {
            wrong.push(format!("{name}: no example"));
            continue;
        };
        // The example uses this option, by its long or its short name.
        let names: Vec<&str> = name
            .split_whitespace()
            .filter(|word| word.starts_with('-'))
            .map(|word| word.trim_end_matches(',').split('[').next().unwrap_or(word))
            .collect();
        if !names.iter().any(|name| example.contains(name)) {
            wrong.push(format!(
                "{name}: the example is one of something else: {example}"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Exit codes and their meanings, from the table of two columns in the help.
fn exit_codes(table: &[&str]) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for line in table {
        // The second column begins after the longest entry of the first one.
        let (left, right) = line.split_at(line.len().min(35));
        for entry in [left, right]
            .map(str::trim)
            .iter()
            .filter(|entry| !entry.is_empty())
        {
            codes.insert(entry.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    codes
}

#[test]
fn the_exit_codes_of_the_documents_are_those_of_the_help() {
    let help = help();
    let listed: Vec<&str> = help
        .split("\nEXIT CODES\n")
        .nth(1)
        .expect("EXIT CODES in --help")
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .take_while(|line| !line.is_empty())
        .collect();
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let section = readme
        .split("\n## Verdicts and exit codes\n")
        .nth(1)
        .expect("the section");
    let section = section.split("\n## ").next().expect("its end");
    // A row: code, meaning, verdict words. The first one is the heading.
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows
        .skip(1)
        .map(|row| {
            row.trim_matches('|')
                .splitn(3, '|')
                .map(str::trim)
                .collect()
        })
        .collect();
    let shown: BTreeSet<String> = rows
        .iter()
        .map(|row| format!("{} {}", row[0], row[1]))
        .collect();
    assert_eq!(shown, exit_codes(&listed));
    assert!(exit_codes(&listed).contains("20 run invalid, or a peer was lost or timed out"));
    for (code, word) in [
        ("0", "PASS"),
        ("0", "NOT JUDGED"),
        ("1", "FAIL"),
        ("3", "UNDECIDED"),
        ("3", "HOST-LIMITED"),
        ("20", "INVALID"),
    ] {
        let row = rows.iter().find(|row| row[0] == code).expect("a row");
        let explained = format!("`{word}`: ");
        assert!(row[2].contains(&explained), "{code}: no {word}");
    }
}

#[test]
fn every_field_of_a_record_is_described() {
    let page = fs::read_to_string(root().join("docs/record.md")).expect("docs/record.md");
    let mut fields = BTreeSet::new();
    for name in ["one-host", "two-hosts", "broken-off", "linktest", "latency"] {
        let path = root().join("tests/golden").join(name).join("record.json");
        let text = fs::read_to_string(path).expect("a stored record");
        collect_fields(&serde_json::from_str(&text).expect("JSON"), &mut fields);
    }
    let missing: Vec<&String> = fields
        .iter()
        .filter(|field| {
            !page.contains(&format!("`{field}`")) && !page.contains(&format!("\"{field}\""))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "docs/record.md does not tell of {missing:?}"
    );
}

fn collect_fields(value: &serde_json::Value, fields: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(entries) => {
            for (name, value) in entries {
                fields.insert(name.clone());
                collect_fields(value, fields);
            }
        }
        serde_json::Value::Array(entries) => {
            entries
                .iter()
                .for_each(|value| collect_fields(value, fields));
        }
        _ => {}
    }
}

/// Symptom: of more than 64 hosts, clush started the first 64 and waited for the end of their nodes, and the others did
/// not join in time. pdsh stops at 32.
#[test]
fn starters_that_begin_with_few_hosts_are_shown_with_the_number_of_all() {
    let mut found = 0;
    for (page, text) in pages() {
        for starter in ["'clush ", "'pdsh "] {
            for (at, _) in text.match_indices(starter) {
                let command = text[at + 1..].split('\'').next().unwrap_or_default();
                let words: Vec<&str> = command.split_whitespace().collect();
                let command = words.join(" ");
                assert!(command.contains("-f %N"), "{page}: {command}");
                found += 1;
            }
        }
    }
    assert!(found >= 3, "only {found} commands of starters");
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    for (name, page) in pages() {
        let path = root().join(&name);
        let folder = path.parent().expect("a folder");
        for (at, _) in page.match_indices("](") {
            let target: String = page[at + 2..]
                .chars()
                .take_while(|letter| *letter != ')')
                .collect();
            if target.starts_with("http") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let file = match file {
                "" => path.clone(),
                file => folder.join(file),
            };
            assert!(file.exists(), "{name}: {target} is not there");
            if !heading.is_empty() {
                let text = fs::read_to_string(&file).expect("a readable page");
                let found = text.lines().any(|line| anchor(line) == heading);
                assert!(found, "{name}: {target}: no such heading");
            }
        }
    }
}

/// Anchor of a heading, as GitHub makes it; empty for other lines.
fn anchor(line: &str) -> String {
    let Some((_, title)) = line.split_once("# ").filter(|_| line.starts_with('#')) else {
        return String::new();
    };
    let kept = |letter: char| letter.is_alphanumeric() || " -_".contains(letter);
    let title = title
        .to_lowercase()
        .replace(|letter: char| !kept(letter), "");
    title.replace(' ', "-")
}

#[test]
fn the_architecture_page_is_short_and_names_what_exists() {
    let page = fs::read_to_string(root().join("docs/dev/architecture.md")).expect("the page");
    let words = page.split_whitespace().count();
    assert!(words <= 5300, "{words} words, the limit is 5300");
    let mut there = Vec::new();
    for folder in ["src", "latency/src", "launcher/src", "numbers/src", "tests"] {
        collect_paths(&root().join(folder), &mut there);
    }
    // A word such as `src/sys/`, `lanes.rs` or `plan/lanes.rs`.
    for part in page.split('`').skip(1).step_by(2) {
        let is_path = part.ends_with(".rs") || part.ends_with('/');
        if is_path && !part.contains(' ') {
            let end = format!("/{}", part.trim_end_matches('/'));
            let found = there.iter().any(|path| path.ends_with(&end));
            assert!(found || root().join(part).exists(), "{part} is not there");
        }
    }
}

fn collect_paths(folder: &Path, found: &mut Vec<String>) {
    found.push(folder.to_string_lossy().into_owned());
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect_paths(&path, found);
        } else {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

/// The pages show what stored runs print, so they show the output of this version: whole files, or their first lines.
/// `make golden` sets PIPEBENCH_GOLDEN=rewrite, and the blocks are written anew.
#[test]
fn the_pages_show_what_the_program_prints() {
    let rewrites = std::env::var("PIPEBENCH_GOLDEN").is_ok_and(|word| word == "rewrite");
    let mut seen = Vec::new();
    for (name, page) in pages() {
        let mut parts = page.split("<!-- shows ");
        let mut made = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (what, rest) = part.split_once(" -->\n```text\n").expect("a block");
            let (_, after) = rest.split_once("```\n<!-- end -->\n").expect("its end");
            let (lines, file) = match what.split_once(" lines of ") {
                Some((lines, file)) => (lines.parse().expect("a number"), file),
                None => (usize::MAX, what),
            };
            let stored = fs::read_to_string(root().join(file)).expect("a stored document");
            let shown: String = stored.split_inclusive('\n').take(lines).collect();
            made += &format!("<!-- shows {what} -->\n```text\n{shown}```\n<!-- end -->\n{after}");
            seen.push((name.clone(), what.to_owned()));
        }
        if rewrites && made != page {
            fs::write(root().join(&name), made).expect("a writable page");
        } else {
            assert!(made == page, "{name} is not up to date (make golden)");
        }
    }
    for (name, what) in [
        (
            "README.md",
            "8 lines of tests/golden/slow-receiver/summary.txt",
        ),
        ("docs/report.md", "tests/golden/one-host/header.txt"),
        ("docs/report.md", "tests/golden/one-host/summary.txt"),
    ] {
        let wanted = (name.to_owned(), what.to_owned());
        assert!(seen.contains(&wanted), "{name} does not show {what}");
    }
}

/// Figures of the readme's section on trust are those of the page that the measurements are written to.
#[test]
fn the_readme_quotes_the_page_of_truth() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect(name);
    let (readme, truth) = (read("README.md"), read("docs/truth.md"));
    let truth: Vec<&str> = truth.split_whitespace().collect();
    let truth = truth.join(" ");
    let section = readme
        .split("\n## Can you trust it?\n")
        .nth(1)
        .expect("the section");
    let section = section.split("\n## ").next().expect("its end");
    let words: Vec<&str> = section.split_whitespace().collect();
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    let mut quoted = 0;
    for three in words.windows(3) {
        if is_number(three[0]) && three[1] == "of" && is_number(three[2]) {
            let figure = three.join(" ");
            assert!(truth.contains(&figure), "docs/truth.md: no {figure:?}");
            quoted += 1;
        }
    }
    assert!(quoted >= 3, "only {quoted} figures");
}

#[test]
fn a_readme_is_short() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let lines = readme.lines().count();
    assert!(lines <= 130, "{lines} lines, the limit is 130");
}

/// Symptom: paragraphs of 72, of 120 and of 250 characters. Tables, blocks and what programs measured may be wider.
#[test]
fn prose_has_one_width() {
    const WIDTH: usize = 120;
    let changes = fs::read_to_string(root().join("CHANGELOG.md")).expect("CHANGELOG.md");
    let mut pages = pages();
    pages.push(("CHANGELOG.md".to_owned(), changes));
    let mut wrong = Vec::new();
    for (name, page) in pages {
        let (mut in_block, mut is_made) = (false, false);
        for (number, line) in page.lines().enumerate() {
            in_block ^= line.starts_with("```");
            if let Some(mark) = line.strip_prefix("<!-- ") {
                is_made = !mark.contains("end ");
            }
            let is_prose = !in_block && !is_made && !line.starts_with(['|', '!']);
            if is_prose && line.chars().count() > WIDTH {
                wrong.push(format!("{name}:{}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "longer than {WIDTH}: {wrong:?}");
}

/// Symptom: "Default 2. ... [default: 2]", and "No default." eight times.
#[test]
fn no_option_says_its_default_twice_or_that_it_has_none() {
    let mut wrong = Vec::new();
    for command in commands() {
        for (name, text) in options(&help_of(&command)) {
            let said = text.matches("[default: ").count() + text.matches("Default: ").count();
            if said > 1 || text.contains("No default") {
                wrong.push(format!("{command:?} {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn examples_are_shell_scripts_without_errors() {
    let mut seen = 0;
    for entry in fs::read_dir(root().join("examples")).expect("examples/") {
        let path = entry.expect("a readable folder").path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            seen += 1;
            let title = path.display().to_string();
            expect_success(
                &finish(Command::new("sh").arg("-n").arg(&path), &title),
                &title,
            );
            let text = fs::read_to_string(&path).expect("a readable file");
            assert!(text.contains("\nset -eu\n"), "{title}: set -eu");
        }
    }
    assert!(seen >= 3, "only {seen} scripts were found");
}

#[test]
fn the_example_of_a_host_file_is_understood() {
    let output = dry_run("--hostfile examples/cluster.hosts --phases 3");
    expect_success(&output, "examples/cluster.hosts");
    let text = fs::read_to_string(root().join("examples/cluster.hosts")).expect("the file");
    let help = help();
    let (_, keys) = options(&help)
        .into_iter()
        .find(|(name, _)| name.starts_with("--hostfile"))
        .expect("--hostfile");
    for key in keys.split(['[', ']']).filter(|part| part.ends_with('=')) {
        assert!(
            text.contains(&format!("#   {key}")),
            "{key} is not explained"
        );
    }
}

/// The example is the template, filled in.
#[test]
fn the_example_of_a_plan_is_understood_by_run_and_check() {
    for command in ["run", "check"] {
        let output = dry_run(&format!("{command} examples/plan.toml"));
        expect_success(&output, command);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("nodes      8: n[01-08]"), "{said}");
        assert!(said.contains("\nreach      SSH"), "{said}");
    }
    let read = |name: &str| fs::read_to_string(root().join(name)).expect(name);
    let (template, example) = (read("src/cli/plan.toml"), read("examples/plan.toml"));
    let keys = template.lines().filter_map(|line| line.split_once(" = "));
    for (key, _) in keys.filter(|(key, _)| !key.starts_with('#')) {
        assert!(example.contains(&format!("\n{key} = ")), "no {key}");
    }
    assert_eq!(example.matches("\nswitchport = ").count(), 8);
    assert!(example.contains("\nports = 8\n"), "{example}");
}

/// Runs an example script with the tested executable first on the path, as `pipebench`.
fn run_example(name: &str, arguments: &[&str]) -> (Output, tempfile::TempDir) {
    alone::wait();
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::symlink(PIPEBENCH, folder.path().join("pipebench")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command
        .arg(root().join("examples").join(name))
        .args(arguments)
        .arg(folder.path().join("results"))
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("TIME", "1s")
        .env("TREES", "4x2 8x2")
        .current_dir(Path::new("/"));
    (finish(&mut command, name), folder)
}

#[test]
fn the_example_of_three_local_nodes_runs() {
    let (output, folder) = run_example("three-local-nodes.sh", &[]);
    expect_success(&output, "three-local-nodes.sh");
    let said = String::from_utf8_lossy(&output.stdout);
    let runs = fs::read_dir(folder.path().join("results")).expect("results");
    let runs: Vec<PathBuf> = runs.map(|run| run.expect("a run").path()).collect();
    assert_eq!(runs.len(), 3);
    for run in runs {
        // The verdict stands first in the file, and the run printed the same.
        let summary = fs::read_to_string(run.join("summary.txt")).expect("a summary");
        let verdict = summary.lines().next().unwrap_or_default();
        assert!(
            verdict.starts_with("NOT JUDGED  3 nodes on one host"),
            "{summary}"
        );
        assert!(said.contains(verdict), "{said}");
    }
}

#[test]
fn the_example_of_the_papers_tables_runs() {
    let (output, folder) = run_example("latency-paper.sh", &[]);
    expect_success(&output, "latency-paper.sh");
    let said = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "plan       16 pairs in 8 rounds (paper)",
        "plan       16 pairs in 5 rounds (rounds)",
        "plan       64 pairs in 31 rounds (paper)",
        "plan       64 pairs in 4 rounds (rounds)",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    // The calculated latencies equal the set ones in all digits shown.
    assert_eq!(said.matches("| 0.000 | 0.000 |").count(), 2, "{said}");
    let table =
        |name: &str| fs::read_to_string(folder.path().join("results").join(name)).expect("a table");
    for (name, rows) in [
        ("pairs-4-2.csv", 28),
        ("cables-4-2.csv", 16),
        ("pairs-8-2.csv", 496),
    ] {
        let table = table(name);
        assert_eq!(table.lines().count(), rows + 1, "{name}");
        for line in table.lines().skip(1) {
            let mut figures = line
                .rsplit(',')
                .map(|word| word.parse::<f64>().expect("a number"));
            let (calculated, set) = (figures.next().expect("two"), figures.next().expect("two"));
            assert!((calculated - set).abs() < 2e-6, "{name}: {line}");
        }
    }
}

#[test]
fn the_example_of_two_networks_runs_where_there_is_one() {
    let (output, _folder) = run_example("two-networks.sh", &["local:2", "127.0.0.0/8"]);
    expect_success(&output, "two-networks.sh");
}

/// Every row of the fault table names existing tests, and the table lists every fault test.
#[test]
fn the_fault_table_and_the_tests_of_faults_name_each_other() {
    let page = fs::read_to_string(root().join("docs/dev/faults.md")).expect("the page");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(".rs`"));
    let mut named = BTreeSet::new();
    for row in rows {
        let cell = row
            .trim_end_matches(" |")
            .rsplit(" | ")
            .next()
            .expect("a cell");
        for test in cell.split(", ") {
            let (file, name) = test.trim_matches('`').split_once("` `").expect(row);
            let path = if file == "sshd.rs" {
                "launcher/tests"
            } else {
                "tests"
            };
            let text = fs::read_to_string(root().join(path).join(file)).expect(file);
            assert!(
                text.contains(&format!("fn {name}()")),
                "{file} has no {name}"
            );
            named.insert(name.to_owned());
        }
    }
    for file in ["faults.rs", "lacks.rs", "labs/faults.rs", "labs/links.rs"] {
        let text = fs::read_to_string(root().join("tests").join(file)).expect(file);
        let mut lines = text.lines();
        while lines.any(|line| line == "#[test]") {
            let line = lines.next().unwrap_or_default();
            let name = line.trim_start_matches("fn ").trim_end_matches("() {");
            assert!(named.contains(name), "{file}: {name} has no row");
        }
    }
}

/// A threat without a test that shows the result is only a claim.
#[test]
fn every_test_that_the_page_of_threats_names_exists() {
    let page = fs::read_to_string(root().join("docs/threats.md")).expect("the page");
    let mut sources = String::new();
    let mut folders: Vec<_> = ["src", "launcher", "tests", "fuzz"]
        .map(|name| root().join(name))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let is_source = path.extension().is_some_and(|ending| ending == "rs");
            match path.is_dir() {
                true if path.ends_with("node_modules") => {}
                true => folders.push(path),
                false if is_source => sources += &fs::read_to_string(path).expect("text"),
                false => {}
            }
        }
    }
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.ends_with("` |"));
    let mut named = 0;
    for row in rows {
        let cell = row
            .trim_end_matches(" |")
            .rsplit(" | ")
            .next()
            .expect("a cell");
        for test in cell.split(", ") {
            let name = test.trim_matches('`');
            assert!(
                sources.contains(&format!("fn {name}()")),
                "there is no {name}"
            );
            named += 1;
        }
    }
    assert!(named >= 20, "{named} tests");
}

#[test]
fn every_threshold_of_the_judge_stands_in_its_page() {
    let source = fs::read_to_string(root().join("src/judge/thresholds.rs")).expect("thresholds");
    let page = fs::read_to_string(root().join("docs/judging.md")).expect("judging.md");
    let (mut meaning, mut seen) = ("", 0);
    for line in source.lines() {
        if let Some(said) = line.strip_prefix("/// ") {
            meaning = said;
        }
        let Some((name, rest)) = line
            .split_once("const ")
            .and_then(|(_, rest)| rest.split_once(": "))
        else {
            continue;
        };
        let value = rest
            .split_once(" = ")
            .expect("a value")
            .1
            .trim_end_matches(';');
        let row = format!("| `{name}` | {value} | {meaning} |");
        assert!(
            !meaning.is_empty() && page.lines().any(|line| line == row),
            "not in docs/judging.md: {row}"
        );
        meaning = "";
        seen += 1;
    }
    assert!(seen > 50, "only {seen} thresholds were found");
}
