//! Tests plan files: written, run, interrupted and resumed; and the pre-flight check on this machine.

mod whole;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pipebench::internals::record::Record;
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

const PLAN: &str = "version = 1\n\
    [site]\nswitch = \"a switch\"\noperator = \"A. Tester\"\nports = 48\n\
    [run]\noutput = \"results\"\ntime = \"1s\"\nwarmup = \"200ms\"\nstreams = 1\n\
    [criteria]\nfloor = 80\nloss = 1e-4\n\
    [[hosts]]\nname = \"local:4\"\n\
    [[tests]]\npattern = \"rotate\"\n\
    [[tests]]\npattern = \"ring\"\ntime = \"2s\"\nrepeat = 2\n";

fn folder(plan: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plan.toml"), plan).expect("a plan");
    folder
}

fn ask(folder: &Path, words: &[&str]) -> Output {
    whole::alone::wait();
    let mut command = Command::new(PIPEBENCH);
    command
        .current_dir(folder)
        .args(words)
        .output()
        .expect("it runs")
}

#[track_caller]
fn said(folder: &Path, words: &[&str], code: i32) -> (String, String) {
    let output = ask(folder, words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{words:?}\n{out}\n{err}");
    (out, err)
}

fn runs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("results")).expect("results");
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.expect("a run").path()).collect();
    runs.sort();
    runs
}

fn record(run: &Path) -> Record {
    let text = fs::read_to_string(run.join("record.json")).expect("a record");
    json::read(&text).expect("a record")
}

#[test]
fn a_template_is_written_once_and_understood() {
    let folder = tempfile::tempdir().expect("a folder");
    said(folder.path(), &["init"], 0);
    let (_, err) = said(folder.path(), &["init"], 2);
    assert_eq!(
        err,
        "pipebench: plan.toml exists already (name another file)\n"
    );
    let (printed, _) = said(folder.path(), &["init", "-"], 0);
    assert_eq!(
        printed,
        fs::read_to_string(folder.path().join("plan.toml")).expect("written")
    );
    let (plan, _) = said(folder.path(), &["run", "plan.toml", "--dry-run"], 0);
    assert!(plan.contains("nodes      4: n[01-04]"), "{plan}");
    assert!(plan.contains("tests      9, one after the other"), "{plan}");
    let (_, err) = said(folder.path(), &["run", "none.toml"], 2);
    assert_eq!(
        err,
        "pipebench: cannot read none.toml: no such file or directory\n"
    );
}

#[test]
fn a_plan_is_run_and_its_seal_and_site_are_in_the_record() {
    let folder = folder(PLAN);
    let (out, _) = said(folder.path(), &["run", "plan.toml"], 0);
    let record = record(&runs(folder.path())[0]);
    assert_eq!(record.tests().len(), 5);
    assert!(record.tests().iter().all(|test| test.complete));
    assert_eq!(
        (record.plan.criteria.floor, record.plan.criteria.loss),
        (0.8, 1e-4)
    );
    let sealed = record.seal.as_ref().expect("sealed");
    assert!(
        sealed.contains("floor 0.8 min-rate none loss 1e-4"),
        "{sealed}"
    );
    assert!(sealed.contains(&record.tool_digest), "{sealed}");
    let digest = launcher::digest_of(sealed.as_bytes());
    assert!(out.contains(&format!("seal={}", &digest[..16])), "{out}");
    assert!(
        out.contains("      switch a switch; operator A. Tester\n"),
        "{out}"
    );
    // The output reports thresholds that were changed afterwards.
    let mut changed = record.clone();
    changed.plan.criteria.floor = 0.7;
    let path = folder.path().join("changed.json");
    fs::write(&path, json::write(&changed).expect("JSON")).expect("written");
    let (out, _) = said(folder.path(), &["report", "changed.json"], 0);
    assert!(
        out.contains("NOT AS SEALED: \"floor 0.7 min-rate none loss 1e-4"),
        "{out}"
    );
}

/// The launching side is killed in the fourth of five tests: the resumed run keeps three and runs two.
#[test]
fn a_run_that_broke_off_goes_on_behind_its_last_whole_test() {
    let folder = folder(PLAN);
    let plan = folder.path().join("plan.toml").display().to_string();
    let output = folder.path().join("results");
    let text = PLAN.replace("results", &output.display().to_string());
    fs::write(&plan, &text).expect("a plan");
    let mut run = whole::Run::start(&["run", &plan]);
    run.wait_for("test 4 of 5, ring");
    let tree = run.tree();
    whole::send(run.pid(), Signal::SIGKILL);
    drop(run);
    whole::expect_gone("a run whose launching side was killed", &tree);
    let first = runs(folder.path())[0].clone();
    assert!(!first.join("record.json").exists());
    let name = first
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    // A plan with another threshold is another test.
    fs::write(&plan, text.replace("floor = 80", "floor = 70")).expect("a plan");
    let (_, err) = said(folder.path(), &["run", &plan, "--resume", &name], 2);
    assert!(
        err.starts_with(&format!(
            "pipebench: cannot resume {name}: it has \"floor 0.8 "
        )) && err.contains("this command has \"floor 0.7 "),
        "{err}"
    );
    fs::write(&plan, &text).expect("a plan");
    let (out, _) = said(folder.path(), &["run", &plan, "--resume", &name], 0);
    assert!(
        out.contains(&format!(
            "the first tests are from {name}, which ended early"
        )),
        "{out}"
    );
    let second = runs(folder.path())[1].clone();
    let record = record(&second);
    assert_eq!(record.resumed.as_deref(), Some(name.as_str()));
    let numbers: Vec<usize> = record.tests().iter().map(|test| test.test).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    let journal = fs::read_to_string(first.join("journal.jsonl")).expect("a journal");
    // The kill came in the fourth test, unless the scheduler delayed this test program.
    let whole_tests = journal
        .lines()
        .filter(|line| line.starts_with("{\"test\":"))
        .count();
    assert!((3..5).contains(&whole_tests), "{whole_tests}");
    for (number, test) in record.tests().iter().enumerate() {
        let line = serde_json::to_string(&serde_json::json!({ "test": test })).expect("JSON");
        let taken_over = journal.lines().any(|other| {
            let same = serde_json::from_str::<serde_json::Value>(other).ok();
            same == serde_json::from_str(&line).ok()
        });
        assert_eq!(taken_over, number < whole_tests, "test {number}");
    }
    let whole = second
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let (_, err) = said(folder.path(), &["run", &plan, "--resume", &whole], 2);
    assert_eq!(
        err,
        format!("pipebench: {whole} is complete: there is nothing to resume\n")
    );
    let (_, err) = said(folder.path(), &["run", &plan, "--resume", "pb-1999"], 2);
    assert!(err.starts_with("pipebench: no run \"pb-1999\""), "{err}");
}

#[test]
fn a_preflight_needs_no_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, _) = said(
        folder.path(),
        &["check", "--hosts", "local:2", "--quiet"],
        0,
    );
    assert!(
        out.starts_with("READY  1 host, no pair crosses a switch\n"),
        "{out}"
    );
    assert!(out.contains("\nalike       kernel "), "{out}");
    let (_, err) = said(
        folder.path(),
        &["check", "--hosts", "local:2", "--nonsense"],
        2,
    );
    assert!(
        err.starts_with("pipebench: unexpected argument '--nonsense' found"),
        "{err}"
    );
    let (_, err) = said(folder.path(), &["check", "--hosts", "local:1"], 2);
    assert_eq!(err, "pipebench: check needs at least 2 nodes; there is 1\n");
    // A missing host costs its row and counts in no comparison with the others.
    let words = ["check", "--hosts", "local:2,nosuch.invalid", "--quiet"];
    let (out, err) = said(folder.path(), &words, 10);
    assert!(
        out.starts_with("NOT READY  ")
            && out.contains("\nmissing     nosuch.invalid: cannot resolve"),
        "{out}{err}"
    );
    assert!(!out.contains("differs "), "{out}");
    let (_, err) = said(folder.path(), &["check"], 2);
    assert_eq!(
        err,
        "pipebench: no hosts: name them with --hosts or --hostfile (try --hosts local:3)\n"
    );
    let (plan, _) = said(
        folder.path(),
        &["check", "--hosts", "local:3", "--dry-run"],
        0,
    );
    assert!(plan.contains("mesh"), "{plan}");
    // Required rates do not change the check: one test of one buffer, no second measurement. It once took two minutes.
    let ordered = [
        "check",
        "--hosts",
        "local:3",
        "--link-speed",
        "10g",
        "--fabric",
        "non-blocking",
        "--profile",
        "acceptance",
    ];
    let (plan, _) = said(folder.path(), &[&ordered[..], &["--dry-run"]].concat(), 0);
    let tests: Vec<&str> = plan
        .lines()
        .filter(|line| line.starts_with("test "))
        .collect();
    assert_eq!(tests.len(), 1, "{plan}");
    let mut words = plan.split_whitespace();
    assert!(words.any(|word| word == "buffers=1"), "{plan}");
    let (out, _) = said(folder.path(), &ordered, 0);
    assert!(out.contains("\nREADY  "), "{out}");
}

/// It took options only: a user with a plan had to type its hosts and speeds again.
#[test]
fn a_preflight_reads_the_hosts_of_a_plan() {
    let folder = folder(PLAN);
    let (out, _) = said(folder.path(), &["check", "plan.toml", "--quiet"], 0);
    assert!(
        out.starts_with("READY  1 host, no pair crosses a switch\n"),
        "{out}"
    );
    // The folder of the plan is for its run.
    assert!(!folder.path().join("results").exists());
    let (plan, _) = said(folder.path(), &["check", "plan.toml", "--dry-run"], 0);
    assert!(
        plan.contains("nodes      4: ") && plan.contains("mesh"),
        "{plan}"
    );
    let (_, err) = said(folder.path(), &["check", "plan.toml", "--mtu", "9000"], 2);
    assert!(
        err.contains("--mtu") && err.contains("cannot be used with"),
        "{err}"
    );
    let (_, err) = said(folder.path(), &["check", "none.toml"], 2);
    assert_eq!(
        err,
        "pipebench: cannot read none.toml: no such file or directory\n"
    );
}

/// The time limit is too short for all tests: the record has the finished ones, and a message reports the rest.
#[test]
fn a_run_that_may_not_take_longer_ends_in_time_and_says_what_it_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["--hosts", "local:6", "--pattern", "rotate", "--json", "r"];
    let times = ["--time", "2s", "--warmup", "0s"];
    let began = Instant::now();
    let limited = [&words[..], &times, &["--max-time", "6s"]].concat();
    let (out, err) = said(folder.path(), &limited, 3);
    // Five windows of two seconds, plus two seconds each to start and drain.
    let estimate = "5 tests, about 20 s; retests, if needed, take longer (at most 6 s)";
    assert!(err.contains(estimate), "{err}");
    assert!(err.find("test 1 of 5") > err.find(estimate), "{err}");
    assert!(began.elapsed() < Duration::from_secs(12), "{err}");
    let text = fs::read_to_string(folder.path().join("r")).expect("a record");
    let record = json::read(&text).expect("a record");
    let run = record.tests().len();
    assert!((1..5).contains(&run), "{run} tests");
    assert!(record.tests().iter().all(|test| test.complete), "{err}");
    let verdict = format!("UNDECIDED  --max-time allowed {run} of 5 tests");
    assert!(out.contains(&verdict), "{out}");
    let notice = format!(
        "--max-time 6 s: ended before test {} of 5, which takes about",
        run + 1
    );
    assert!(err.contains(&notice), "{err}");
    // If not even the first test fits, the run measures nothing and one line says why.
    let none = [&words[..4], &times, &["--max-time", "1s"]].concat();
    let (out, err) = said(folder.path(), &none, 2);
    let line = "pipebench: --max-time 1 s: ended before test 1 of 5, which takes about";
    assert!(err.contains(line) && out.is_empty(), "{out}\n{err}");
    let (_, err) = said(
        folder.path(),
        &["--hosts", "local:2", "--max-time", "0.5s"],
        2,
    );
    assert!(err.contains("--max-time 0.5s: at least 1s"), "{err}");
}

/// Once 100,000 hosts were allowed, and a dry run of them did not end.
#[test]
fn the_largest_list_of_hosts_is_planned_and_a_larger_one_refused_before_it_is_written_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let fabric = [
        "latency",
        "generate",
        "leaf-spine",
        "--leaves",
        "64",
        "--spines",
        "8",
        "--hosts-per-switch",
        "64",
    ];
    fs::write(folder.path().join("f"), said(folder.path(), &fabric, 0).0).expect("written");
    for (words, nodes) in [
        ("--hosts n[1-10000]", "10000: n[1-10000]"),
        ("--hosts n[1-10000] --pattern rotate", "10000: n[1-10000]"),
        (
            "--hosts n[1-10000] --profile acceptance",
            "10000: n[1-10000]",
        ),
        ("linktest --hosts n[1-4096]", "4096: n[1-4096]"),
        ("imb --hosts n[1-4096]", "4096: n[1-4096]"),
        ("latency run f --hosts h[0-4095]", "4096: h[0-4095]"),
    ] {
        let began = Instant::now();
        let all: Vec<&str> = words.split(' ').chain(["--dry-run"]).collect();
        let (out, _) = said(folder.path(), &all, 0);
        assert!(out.contains(&format!("nodes      {nodes}")), "{out}");
        let took = began.elapsed();
        // It takes a second alone, and five beside other tests; work that grows with the square of hosts takes minutes.
        assert!(took < Duration::from_secs(30), "{words} took {took:?}");
    }
    for list in ["n[1-10001]", "n[1-200]m[1-200]", "n[1-999999999999]"] {
        let (_, err) = said(folder.path(), &["--hosts", list, "--dry-run"], 2);
        let line = "pipebench: --hosts: the host list has more than 10000 hosts\n";
        assert_eq!(err, line, "{list}");
    }
    let name = format!("{}[1-9999]", "n".repeat(50_000));
    let (_, err) = said(folder.path(), &["--hosts", &name, "--dry-run"], 2);
    assert!(err.contains("at most 255 are allowed"), "{err}");
    let lines = format!("n[1-9999] data={}\n", "9".repeat(300_000));
    fs::write(folder.path().join("hosts"), lines).expect("written");
    let (_, err) = said(folder.path(), &["--hostfile", "hosts", "--dry-run"], 2);
    assert!(
        err.contains("line 1: it is longer than 4096 bytes"),
        "{err}"
    );
}
