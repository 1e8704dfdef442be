//! Every kind of work has every ability, as the table in docs/dev/architecture.md says: this runs each kind and tries each cell.

mod whole;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::Signal;
use pipebench::internals::record::{Live, Outcome, Record};
use pipebench::internals::report::json;
use whole::{PIPEBENCH, alone};

/// A kind of work: its column of the table, and commands that measure little and much of it.
struct Kind {
    name: &'static str,
    little: &'static str,
    much: &'static str,
    /// A command that measures several parts, and what the journal says after the first one.
    parts: (&'static str, &'static str),
    table: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "acceptance",
        little: "--time 300ms --warmup 100ms --pattern rotate",
        much: "--time 60s",
        parts: ("--time 2s --warmup 100ms --pattern rotate", "test"),
        table: "table.csv",
    },
    Kind {
        name: "linktest",
        little: "linktest -m tcp -n 20 -s 4K --no-sion-file",
        much: "linktest -m tcp -n 20 -s 4K --no-sion-file --min-runtime 60",
        parts: (
            "linktest -m tcp -n 20 -s 4K --no-sion-file --min-iterations 200 --num-randomize-tasks 2",
            "measured_round",
        ),
        table: "links.csv",
    },
    Kind {
        name: "latency",
        little: "latency run f.toml --map order --wait sleep",
        much: "latency run f.toml --map order --wait sleep --pings 1000000",
        parts: (
            "latency run f.toml --map order --wait sleep --pings 1000000",
            "hosts",
        ),
        table: "cables.csv",
    },
    Kind {
        name: "imb",
        little: "imb PingPong --msglog 2:4 --iter 20",
        much: "imb PingPong Exchange --msglog 2:20 --iter 1000000,100000",
        parts: (
            "imb PingPong Exchange --msglog 3:3 --iter 20000",
            "measured_table",
        ),
        table: "patterns.csv",
    },
];

/// A folder with the description of a fabric of three hosts.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let words = "latency generate leaf-spine --leaves 1 --spines 1 --hosts-per-switch 3 -o f.toml";
    said(folder.path(), words, &[0]);
    folder
}

fn ask(folder: &Path, words: &str) -> Output {
    alone::wait();
    Command::new(PIPEBENCH)
        .current_dir(folder)
        .args(words.split_whitespace())
        .output()
        .expect("it starts")
}

/// Runs a command that must end with one of `codes`; returns its output and its errors.
#[track_caller]
fn said(folder: &Path, words: &str, codes: &[i32]) -> (String, String) {
    let output = ask(folder, words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let code = output.status.code().unwrap_or(-1);
    assert!(codes.contains(&code), "{words}: {code}\n{out}\n{err}");
    (out, err)
}

/// Exit codes of a run that came to its end: this machine may be busy, so its verdict may be any.
const MEASURED: &[i32] = &[0, 1, 3];

fn record(folder: &Path) -> Record {
    let text = std::fs::read_to_string(folder.join("record.json")).expect("a record");
    json::read(&text).expect("a record")
}

/// The only run in `results`.
fn run_of(folder: &Path) -> PathBuf {
    let runs = std::fs::read_dir(folder.join("results")).expect("results");
    let mut runs: Vec<PathBuf> = runs.map(|run| run.expect("a run").path()).collect();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// Cells of the table in docs/dev/architecture.md, by ability and kind.
fn table() -> BTreeMap<(String, String), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dev/architecture.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim_matches('|');
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("| ability |"));
    let head = cells(lines.next().expect("a table of kinds and abilities"));
    let mut table = BTreeMap::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let row = cells(line);
        for (kind, cell) in head.iter().zip(&row).skip(1) {
            table.insert((row[0].clone(), kind.clone()), cell.clone());
        }
    }
    table
}

/// What the test of an ability needs.
struct Try {
    kind: &'static Kind,
    folder: PathBuf,
}

impl Try {
    fn dry_run(&self) {
        let words = format!("{} --hosts local:3 --dry-run", self.kind.little);
        let (out, _) = said(&self.folder, &words, &[0]);
        assert!(out.contains("nodes      3: local[1-3]"), "{out}");
        assert!(out.contains("processes"), "{out}");
    }

    fn folder(&self) {
        let words = format!("{} --hosts local:3 --folder results", self.kind.little);
        said(&self.folder, &words, MEASURED);
        let run = run_of(&self.folder);
        for file in ["record.json", "summary.txt", self.kind.table] {
            let text = std::fs::read_to_string(run.join(file)).expect(file);
            assert!(text.lines().count() > 1, "{file}: {text}");
        }
        assert!(
            !run.join("journal.jsonl").exists(),
            "the record holds it all"
        );
        assert!(record(&run).outcome.is_complete());
    }

    /// The run that `folder` kept, in every form.
    fn report(&self) {
        let run = run_of(&self.folder);
        let run = run.to_string_lossy();
        for format in ["text", "html", "csv", "json", "junit", "openmetrics"] {
            let (out, _) = said(
                &self.folder,
                &format!("report {run} --format {format}"),
                &[0],
            );
            assert!(!out.contains("nothing was measured"), "{format}: {out}");
            assert!(out.lines().count() > 1, "{format}: {out}");
        }
    }

    fn seal(&self) {
        let record = record(&run_of(&self.folder));
        let seal = record.seal.expect("a seal");
        let digest = launcher::digest_of(seal.as_bytes());
        let shown = record.options.iter().find(|(name, _)| name == "seal");
        assert!(digest.starts_with(&shown.expect("it was printed").1));
        // Another plan has another seal.
        let mut plan = record.plan.clone();
        let mut changed = serde_json::to_value(&plan.work).expect("JSON");
        let place = match self.kind.name {
            "acceptance" => "/acceptance/tests/0/streams",
            "linktest" => "/linktest/messages",
            "latency" => "/latency/probe/messages",
            _ => "/imb/memory",
        };
        *changed.pointer_mut(place).expect(place) = serde_json::json!(7);
        plan.work = serde_json::from_value(changed).expect("a plan");
        let text = |plan| pipebench::internals::plan::seal::text(plan, "1", "2");
        assert_ne!(text(&plan), text(&record.plan));
    }

    fn compare(&self) {
        let run = run_of(&self.folder);
        let run = run.to_string_lossy();
        let words = format!("{} --hosts local:3 --baseline {run}", self.kind.little);
        let (out, _) = said(&self.folder, &words, MEASURED);
        let name = record(&run_of(&self.folder)).name();
        match self.kind.name {
            "latency" => {
                std::fs::remove_dir_all(self.folder.join("results")).expect("removed");
                said(&self.folder, &format!("{words} --json run.json"), &[2]);
                return;
            }
            "imb" => {}
            _ => assert!(out.contains(&name), "{out}"),
        }
        if self.kind.name == "acceptance" {
            let words = format!("check --hosts local:3 --baseline {run}");
            let (_, err) = said(&self.folder, &words, &[2]);
            assert!(err.contains("leave out --baseline"), "{err}");
        }
        let (out, _) = said(&self.folder, &format!("compare {run} {run}"), &[0]);
        assert!(out.contains("+0.0 %"), "{out}");
        let other = "tests/golden/broken-off/record.json";
        let other = Path::new(env!("CARGO_MANIFEST_DIR")).join(other);
        if self.kind.name != "acceptance" {
            let words = format!("compare {} {run}", other.display());
            let (_, err) = said(&self.folder, &words, &[2]);
            assert!(err.contains("they cannot be compared"), "{err}");
        }
    }

    fn live(&self) {
        let run = self.folder.join("pb-20261125-100000-abcdef");
        std::fs::create_dir(&run).expect("a folder");
        let words = format!(
            "{} --hosts local:3 --run-folder={} --parent={}",
            self.kind.little,
            run.display(),
            std::process::id()
        );
        said(&self.folder, &words, MEASURED);
        let text = std::fs::read_to_string(run.join("live.json")).expect("a live document");
        let live: Live = serde_json::from_str(&text).expect("a live document");
        assert_eq!(live.nodes, ["local1", "local2", "local3"]);
        let now = live.test.expect("a part of the work");
        assert!(now.number >= 1 && now.number <= now.of, "{now:?}");
        let record = record(&run);
        assert_eq!(record.name(), "pb-20261125-100000-abcdef");
        assert!(!record.command.iter().any(|word| word.contains("parent")));
    }

    /// Starts a run, and kills its launching side as soon as its journal has `text`. Returns the run's folder.
    fn killed(&self, words: &str, text: &str) -> PathBuf {
        alone::wait();
        let parent = self.folder.join("results");
        if parent.exists() {
            std::fs::remove_dir_all(&parent).expect("removed");
        }
        let words = format!("{words} --hosts local:3 --folder results");
        let mut run = Command::new(PIPEBENCH)
            .current_dir(&self.folder)
            .args(words.split_whitespace())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        let has_text = || -> Option<bool> {
            let run = std::fs::read_dir(&parent).ok()?.next()?.ok()?.path();
            let journal = std::fs::read_to_string(run.join("journal.jsonl")).ok()?;
            Some(journal.contains(&format!("\"{text}\":")))
        };
        whole::wait_until(text, Duration::from_secs(20), || has_text() == Some(true));
        let pid = i32::try_from(run.id()).expect("a process");
        whole::send(pid, Signal::SIGKILL);
        run.wait().expect("it has ended");
        alone::wait();
        run_of(&self.folder)
    }

    /// A launching side that is killed leaves what was measured until then.
    fn journal(&self) {
        let run = self.killed(self.kind.much, "hosts");
        let journal = std::fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
        let opening = journal.lines().find(|line| line.contains("\"journal\""));
        let opening: serde_json::Value =
            serde_json::from_str(opening.expect("an opening")).expect("JSON");
        assert!(
            opening["plan"]["work"][self.kind.name].is_object(),
            "{opening}"
        );
        assert!(opening["seal"].is_string());
    }

    /// A run whose launching side was killed goes on after its last whole part.
    fn resume(&self) {
        let (words, part) = self.kind.parts;
        let run = self.killed(words, part);
        let name = run.file_name().expect("a name").to_string_lossy();
        let journal = std::fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
        let words = format!("{words} --hosts local:3 --folder results --resume {name}");
        if self.kind.name == "latency" {
            let (_, err) = said(&self.folder, &words, &[2]);
            assert!(err.contains("measures them in one go"), "{err}");
            return;
        }
        let (_, err) = said(&self.folder, &format!("{words} --dry-run"), &[0]);
        assert_eq!(err, "");
        said(
            &self.folder,
            &format!("{words} --json whole.json --json-stream events.jsonl"),
            MEASURED,
        );
        let text = std::fs::read_to_string(self.folder.join("whole.json")).expect("a record");
        let record = json::read(&text).expect("a record");
        assert_eq!(record.resumed.as_deref(), Some(&*name));
        assert!(record.outcome.is_complete());
        let parts = |outcome| -> Vec<serde_json::Value> {
            let (list, least) = match outcome {
                Outcome::Acceptance(record) => (serde_json::to_value(record.tests), 2),
                Outcome::Linktest(record) => (serde_json::to_value(record.rounds), 400),
                Outcome::Latency(_) => panic!("it cannot be resumed"),
                Outcome::Imb(record) => (serde_json::to_value(record.tables), 3),
            };
            let list = list.expect("JSON").as_array().expect("a list").clone();
            assert!(list.len() >= least, "{} parts", list.len());
            list
        };
        let parts = parts(record.outcome);
        let of_journal = journal.lines().filter_map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).ok()?;
            line.get_mut(part).map(serde_json::Value::take)
        });
        let of_journal: Vec<_> = of_journal.collect();
        assert!(!of_journal.is_empty() && of_journal.len() < parts.len());
        for (known, now) in of_journal.iter().zip(&parts) {
            assert_eq!(known, now);
        }
        assert!(!of_journal.contains(&parts[of_journal.len()]));
        // The events have all parts, those of the earlier run too: so has a journal, and the run can be resumed once more.
        let events = std::fs::read_to_string(self.folder.join("events.jsonl")).expect("events");
        let begin = format!("{{\"{part}\":");
        let told = events.lines().filter(|line| line.starts_with(&begin));
        assert_eq!(told.count(), parts.len());
        assert!(
            events
                .lines()
                .last()
                .is_some_and(|line| line.starts_with("{\"end\":"))
        );
        let other = format!("{} --hosts local:3 --resume whole.json", self.kind.little);
        let (_, err) = said(&self.folder, &other, &[2]);
        assert!(
            err.contains("is complete: there is nothing to resume"),
            "{err}"
        );
    }

    fn keep_going(&self) {
        let hosts = "--hosts local:2,127.0.0.1:9 --deadline connect=2s";
        let words = format!("{} {hosts} --keep-going --json run.json", self.kind.little);
        said(&self.folder, &words, MEASURED);
        let text = std::fs::read_to_string(self.folder.join("run.json")).expect("a record");
        let record = json::read(&text).expect("a record");
        assert_eq!(record.missing.len(), 1, "{:?}", record.missing);
        assert_eq!(record.plan.nodes.len(), 2);
        assert!(record.outcome.is_complete() && record.outcome.has_begun());
    }
}

#[test]
fn every_kind_has_what_the_table_says() {
    let table = table();
    type Test = fn(&Try);
    let tries: [(&str, Test); 9] = [
        ("`--dry-run`", Try::dry_run),
        ("`--folder`: record, table, summary", Try::folder),
        (
            "`report`: text, page, CSV, JSON, JUnit, OpenMetrics",
            Try::report,
        ),
        ("seal", Try::seal),
        ("`--baseline`, `compare`", Try::compare),
        ("live document", Try::live),
        ("journal", Try::journal),
        ("`--keep-going`", Try::keep_going),
        ("`--resume`", Try::resume),
    ];
    for (ability, _) in table.keys() {
        let mut known = tries
            .iter()
            .map(|(ability, _)| *ability)
            .chain(["`--samples`"]);
        assert!(known.any(|known| known == ability), "{ability} has no test");
    }
    for kind in &KINDS {
        let folder = folder();
        let one = Try {
            kind,
            folder: folder.path().to_owned(),
        };
        let cell = |ability: &str| &table[&(ability.to_owned(), kind.name.to_owned())];
        for (ability, test) in &tries {
            let is_refused = (*ability, kind.name) == ("`--resume`", "latency");
            assert_eq!(
                cell(ability).starts_with("yes"),
                !is_refused,
                "{ability} {}",
                kind.name
            );
            test(&one);
        }
        if cell("`--samples`").starts_with("no: ") {
            let words = format!("{} --hosts local:3 --samples x", kind.little);
            let (_, err) = said(folder.path(), &words, &[2]);
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
}
