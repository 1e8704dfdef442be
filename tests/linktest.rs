//! Link tests on one machine: real ranks over real sockets, with LinkTest's options, output lines and file.

mod whole;

use pipebench::internals::plan::Work;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use pipebench::internals::plan::job::Round;
use pipebench::internals::plan::linktest::{Kernel, Linktest};
use pipebench::internals::record::{LinktestRecord, Record};
use pipebench::internals::report::json;
use pipebench::internals::store::linktest::{self, Meaning};
use whole::{PIPEBENCH, alone};

/// Result of a link test.
struct Tested {
    said: String,
    record: Record,
    folder: tempfile::TempDir,
}

impl Tested {
    fn job(&self) -> &LinktestRecord {
        self.record.outcome.linktest().expect("a link test")
    }

    fn plan(&self) -> &Linktest {
        match &self.record.plan.work {
            Work::Linktest(linktest) => linktest,
            _ => panic!("a link test"),
        }
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
    }
}

/// Runs pipebench; returns exit code, standard output and standard error.
fn pipebench(folder: &Path, words: &str) -> (Option<i32>, String, String) {
    alone::wait();
    let output = Command::new(PIPEBENCH)
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("pipebench runs");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[track_caller]
fn tested(words: &str) -> Tested {
    let folder = tempfile::tempdir().expect("a folder");
    let all = format!("linktest {words} --json record.json");
    let (code, said, errors) = pipebench(folder.path(), &all);
    assert_eq!(code, Some(0), "{words}: {said}{errors}");
    let text = std::fs::read_to_string(folder.path().join("record.json")).expect("a record");
    Tested {
        said,
        record: json::read(&text).expect("a record"),
        folder,
    }
}

/// Symptom: a dry run did not mention the result file, which a link test writes unless the user forbids it.
#[test]
fn a_dry_run_names_the_result_file_and_writes_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = "linktest --hosts n1,n2 --dry-run";
    let (code, said, errors) = pipebench(folder.path(), words);
    assert_eq!(code, Some(0), "{errors}");
    let line =
        "files      none: a dry run measures nothing; a run writes to pingpong_results_bin.sion\n";
    assert!(said.contains(line), "{said}");
    assert!(!folder.path().join("pingpong_results_bin.sion").exists());
    let (_, said, _) = pipebench(folder.path(), &format!("{words} --no-sion-file"));
    assert!(!said.contains("files "), "{said}");
}

/// Expects every ordered pair of ranks exactly once in each round.
#[track_caller]
fn expect_all_pairs(tested: &Tested, ranks: usize) {
    let all: BTreeSet<(usize, usize)> = (0..ranks)
        .flat_map(|one| (0..ranks).map(move |other| (one, other)))
        .filter(|(one, other)| one != other)
        .collect();
    for round in &tested.job().rounds {
        let seen: BTreeSet<_> = round
            .times
            .iter()
            .map(|time| (time.from, time.to))
            .collect();
        assert_eq!((seen.len(), round.times.len()), (all.len(), all.len()));
        assert_eq!(seen, all);
        for time in &round.times {
            assert!(time.seconds > 0.0 && time.seconds < 10.0, "{time:?}");
            let spread = time.spread.expect("messages were timed one by one");
            assert!(spread.least_s <= spread.median_s && spread.p99_s <= spread.most_s);
        }
    }
}

/// The lines that scripts look for: a number, a unit and, in brackets, another pair of these.
#[track_caller]
fn expect_result_lines(said: &str) {
    for name in ["Min", "Avg", "Max"] {
        let start = format!("RESULT: {name} Time:");
        let line = said.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("no {start} in {said}"));
        let words: Vec<&str> = line[start.len()..].split_whitespace().collect();
        let [number, unit, "(", rate, per_second] = words[..] else {
            panic!("{line}: {words:?}");
        };
        assert!(
            number.parse::<f64>().is_ok() && rate.parse::<f64>().is_ok(),
            "{line}"
        );
        assert!(["ns", "us", "ms", "s"].contains(&unit), "{line}");
        assert!(per_second.ends_with("B/s)"), "{line}");
    }
}

#[test]
fn every_pair_is_measured_by_every_kernel_with_any_number_of_ranks() {
    for (kernel, word) in [
        (Kernel::Semidirectional, ""),
        (Kernel::Bidirectional, "--bidirectional"),
        (Kernel::Unidirectional, "--unidirectional"),
    ] {
        for ranks in [2, 3, 5, 6] {
            let words = format!("--hosts local:{ranks} -n 4 -w 1 -s 20000 --num-slowest 2 {word}");
            let tested = tested(&words);
            assert_eq!(tested.plan().kernel, kernel);
            expect_all_pairs(&tested, ranks);
            expect_result_lines(&tested.said);
            let round = &tested.job().rounds[0];
            assert_eq!(round.steps, ranks - 1 + ranks % 2);
            assert_eq!(round.retests.len(), 2);
            assert!(round.retests[0].old_s >= round.retests[1].old_s);
            let steps = tested.said.matches("Parallel Results for step").count();
            assert_eq!(steps, round.steps, "{}", tested.said);
        }
    }
}

#[test]
fn schedules_and_buffers_are_those_that_were_asked_for() {
    let serial = tested("--hosts local:4 -n 3 -s 1000 --serial-tests");
    expect_all_pairs(&serial, 4);
    assert_eq!(serial.job().rounds[0].steps, 6);
    assert!(
        serial.said.contains("Serial Results for step 6:"),
        "{}",
        serial.said
    );
    let halves = tested("--hosts local:5 -n 3 -s 1000 --bisection --bidirectional");
    let round = &halves.job().rounds[0];
    assert_eq!((round.steps, round.times.len()), (3, 12));
    let across = |time: &&pipebench::internals::record::PairTime| (time.from < 2) != (time.to < 2);
    assert_eq!(round.times.iter().filter(across).count(), 12);
    assert!(
        halves.said.contains("avg. bisection bw:"),
        "{}",
        halves.said
    );
    // The contents differ between buffers, and the ranks compare them.
    let checked = tested(
        "--hosts local:3 -n 7 -s 100001 --num-multi-buffer 3 --randomize-buffers --check-buffers --all-to-all --unidirectional",
    );
    expect_all_pairs(&checked, 3);
    assert_eq!(checked.plan().buffers, 3);
    let all = checked.job().rounds[0]
        .all_to_all_s
        .as_ref()
        .expect("all to all");
    assert!(all.len() == 3 && all.iter().all(|seconds| *seconds > 0.0));
    assert!(checked.said.contains("all-to-all min"), "{}", checked.said);
}

#[test]
fn a_seed_gives_the_same_order_again_and_is_told() {
    let words = "--hosts local:6 -n 1 -w 0 -s 10 --randomize-steps --seed-randomize-steps 7 --num-randomize-tasks 2 \
                 --seed-randomize-tasks 11";
    let (one, other) = (tested(words), tested(words));
    let orders = |tested: &Tested| -> Vec<Round> {
        let rounds = tested.job().rounds.iter();
        rounds.map(|round| round.round.clone()).collect()
    };
    assert_eq!(orders(&one), orders(&other));
    assert_eq!(one.job().rounds.len(), 2);
    assert_ne!(orders(&one)[0], orders(&one)[1]);
    expect_all_pairs(&one, 6);
    let steps = |tested: &Tested| -> Vec<(usize, usize, usize)> {
        let times = tested.job().rounds[0].times.iter();
        times.map(|time| (time.step, time.from, time.to)).collect()
    };
    assert_eq!(steps(&one), steps(&other));
    for seed in ["seed-randomize-steps=7", "seed-randomize-tasks=11"] {
        assert!(one.said.contains(seed), "{}", one.said);
    }
    let file =
        linktest::read(one.file("pingpong_results_bin.sion").as_slice()).expect("a result file");
    assert_eq!((file.header.rank_orders, file.header.rank_seed), (2, 11));
    assert_eq!(file.sets.len(), 2);
}

#[test]
fn ranks_are_placed_as_asked_and_reach_each_other_within_and_between_nodes() {
    for (order, nodes) in [("block", [0, 0, 1, 1]), ("round-robin", [0, 1, 0, 1])] {
        let words =
            format!("--hosts local:2 --ranks-per-node 2 --rank-order {order} -n 3 -s 300000");
        let tested = tested(&words);
        let placed: Vec<usize> = tested.job().ranks.iter().map(|rank| rank.node).collect();
        assert_eq!(placed, nodes);
        expect_all_pairs(&tested, 4);
    }
    // Each rank has its own processor if the machine has enough.
    let pinned = tested("--hosts local --ranks-per-node 2 -n 3 -s 10");
    let on: BTreeSet<usize> = pinned
        .job()
        .ranks
        .iter()
        .map(|rank| rank.processor)
        .collect();
    let enough = pinned.record.hosts[0].facts.cores >= 2;
    assert!(!enough || on.len() == 2, "{on:?}");
    for mode in ["tcp", "unix", "mpi"] {
        expect_all_pairs(
            &tested(&format!(
                "--hosts local --ranks-per-node 3 -n 2 -s 9 -m {mode}"
            )),
            3,
        );
    }
}

#[test]
fn the_result_file_holds_what_the_record_does_and_is_shown_and_exported() {
    let tested = tested("--hosts local:4 -n 5 -s 4096 --all-to-all --num-slowest 3 -o links.sion");
    let bytes = tested.file("links.sion");
    let file = linktest::read(bytes.as_slice()).expect("a result file");
    assert_eq!(file.header.version, [2, 1, 16]);
    assert_eq!((file.header.messages, file.header.message_bytes), (5, 4096));
    assert!(file.header.all_to_all && !file.header.bisection);
    let (set, round) = (&file.sets[0], &tested.job().rounds[0]);
    assert_eq!(file.meaning(set), Meaning::Steps);
    let pairs = file.pairs(set).expect("links");
    assert_eq!(pairs.len(), 12);
    for pair in &pairs {
        let mut times = round.times.iter();
        let time = times.find(|time| (time.from, time.to) == (pair.from, pair.to));
        assert_eq!(Some(pair.seconds), time.map(|time| time.seconds));
    }
    let again: Vec<f64> = set.retests.iter().map(|one| one.new_s).collect();
    assert_eq!(
        again,
        round
            .retests
            .iter()
            .map(|one| one.new_s)
            .collect::<Vec<_>>()
    );
    let folder = tested.folder.path();
    let (code, shown, errors) = pipebench(folder, "linktest show links.sion");
    assert_eq!(code, Some(0), "{errors}");
    // It once read "written by LinkTest", which is another program.
    assert!(
        shown.starts_with("format      LinkTest 2.1.16\n"),
        "{shown}"
    );
    assert!(shown.contains("12 links, times by step"), "{shown}");
    let (code, table, _) = pipebench(folder, "linktest export links.sion --csv");
    assert_eq!((code, table.lines().count()), (Some(0), 13), "{table}");
    let (code, text, _) = pipebench(folder, "linktest export links.sion --json");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (code, value["meaning"][0].as_str()),
        (Some(0), Some("steps"))
    );
    assert_eq!(value["links"][0].as_array().map(Vec::len), Some(12));
}

#[test]
fn iterations_have_a_file_each_and_a_folder_keeps_what_reports_are_made_of() {
    let tested = tested("--hosts local:2 -n 2 -s 100 --min-iterations 3 --folder kept");
    assert_eq!(tested.job().rounds.len(), 3);
    for number in 0..3 {
        let name = format!("pingpong_results_bin_i00{number}.sion");
        let file = linktest::read(tested.file(&name).as_slice()).expect("a result file");
        assert_eq!(file.sets.len(), 1);
    }
    let folder = tested.folder.path();
    let (code, text, errors) = pipebench(folder, "report pb- --in kept");
    assert_eq!(code, Some(0), "{errors}");
    expect_result_lines(&text);
    let (code, page, _) = pipebench(folder, "report pb- --in kept --format html");
    assert_eq!(code, Some(0));
    assert!(
        page.contains("Links between ranks"),
        "the page has the map of links"
    );
    let (code, table, _) = pipebench(folder, "report pb- --in kept --format csv");
    assert_eq!((code, table.lines().count()), (Some(0), 7), "{table}");
    let (code, _, errors) = pipebench(folder, "retest pb- --in kept");
    assert_eq!(code, Some(2));
    assert!(errors.contains("is a link test"), "{errors}");
    let (code, ran, _) = pipebench(
        folder,
        "linktest --hosts local:2 -n 1 -s 1 --min-runtime 3 --no-sion-file --quiet",
    );
    assert_eq!(code, Some(0));
    assert!(ran.contains(" rounds"), "{ran}");
}

#[test]
fn what_cannot_be_read_or_done_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bad.sion");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let good = std::fs::read(samples.join("n4_basic.sion")).expect("a sample");
    let cases: [(&str, Vec<u8>, &str); 4] = [
        ("empty", Vec::new(), "not a SION file"),
        (
            "cut off",
            good[..good.len() / 2].to_vec(),
            "ends at byte 10274, before",
        ),
        ("text", b"hello, world".to_vec(), "not a SION file"),
        (
            "lying",
            [&good[..24], &[0xff, 0xff, 0xff, 0x7f], &good[28..]].concat(),
            "number of tasks 2147483647 at byte 24 is impossible",
        ),
    ];
    for (what, bytes, expected) in cases {
        std::fs::write(&path, bytes).expect("written");
        let (code, said, errors) = pipebench(folder.path(), "linktest show bad.sion");
        assert_eq!((code, said.as_str()), (Some(2), ""), "{what}");
        assert!(
            errors.starts_with("pipebench: bad.sion: ") && errors.contains(expected),
            "{errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    for (words, expected) in [
        (
            "show missing.sion",
            "cannot read missing.sion: no such file",
        ),
        ("export bad.sion", "export: give --csv or --json"),
        (
            "export bad.sion --csv --json",
            "export: --csv and --json both go to standard output",
        ),
        ("--hosts local", "1 ranks: from 2 to 4096"),
        (
            "--hosts local:2 -s 1G --num-multi-buffer 4096 --no-sion-file",
            "of memory on this host",
        ),
    ] {
        let (code, _, errors) = pipebench(folder.path(), &format!("linktest {words}"));
        assert!(matches!(code, Some(2 | 12)), "{words}: {code:?}");
        assert!(errors.contains(expected), "{words}: {errors}");
    }
    // Sample files of other programs, read as a user would read them.
    for name in [
        "n2_basic",
        "n4_a2a_retest3",
        "n4_multichunk",
        "lt12_real_n4_a2a",
    ] {
        let file = samples.join(format!("{name}.sion"));
        let (code, shown, errors) =
            pipebench(folder.path(), &format!("linktest show {}", file.display()));
        assert_eq!(code, Some(0), "{name}: {errors}");
        assert!(shown.contains(" links, times by "), "{name}: {shown}");
    }
}
