//! `report`, `list`, `compare`, `merge` and `retest` as a user types them, over stored records.

mod openmetrics;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
        .join("record.json")
}

/// A folder with runs as `--output` keeps them.
fn shelf(runs: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, record) in runs {
        let run = folder.path().join(name);
        fs::create_dir(&run).expect("a folder");
        fs::copy(golden(record), run.join("record.json")).expect("a copy");
    }
    folder
}

fn ask(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(PIPEBENCH);
    command
        .current_dir(folder)
        .args(words)
        .output()
        .expect("it runs")
}

#[track_caller]
fn said(folder: &Path, words: &[&str], code: i32) -> String {
    let output = ask(folder, words);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(code), "{words:?}\n{out}\n{err}");
    assert_eq!(err, "", "{words:?}");
    out.into_owned()
}

/// The one line of a command that could not do what it was asked to.
#[track_caller]
fn refused(folder: &Path, words: &[&str]) -> String {
    let output = ask(folder, words);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}\n{err}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{words:?}");
    assert_eq!(err.lines().count(), 1, "{words:?}\n{err}");
    err.trim_end().to_owned()
}

#[test]
fn every_form_of_a_report_is_the_stored_one() {
    let shelf = shelf(&[("pb-20261121-184127-acacac", "acceptance")]);
    for (format, stored) in [
        ("html", "page.html"),
        ("csv", "table.csv"),
        ("json", "record.json"),
        ("junit", "junit.xml"),
        ("openmetrics", "metrics.txt"),
    ] {
        let expected =
            fs::read_to_string(golden("acceptance").with_file_name(stored)).expect("stored");
        assert_eq!(
            said(shelf.path(), &["report", "20261121", "--format", format], 0),
            expected,
            "{format}"
        );
        let words = ["report", "pb-2026", "-f", format, "-o", "report.out"];
        assert_eq!(said(shelf.path(), &words, 0), "");
        assert_eq!(
            fs::read_to_string(shelf.path().join("report.out")).expect("written"),
            expected
        );
    }
    let text = said(shelf.path(), &["report", "pb-20261121-184127-acacac"], 0);
    let summary =
        fs::read_to_string(golden("acceptance").with_file_name("summary.txt")).expect("stored");
    let seal = text
        .strip_prefix(&summary)
        .expect("the summary, then the seal");
    let digest = Command::new("sha256sum")
        .arg(golden("acceptance"))
        .output()
        .expect("coreutils");
    let digest = String::from_utf8_lossy(&digest.stdout);
    let digest = digest.split(' ').next().expect("a digest");
    assert_eq!(
        seal,
        format!("record pb-20261121-184127-acacac/record.json  sha256 {digest}\n")
    );
}

/// Symptom: HTML in a file of the name `y.pdf`.
#[test]
fn a_file_that_ends_in_pdf_needs_the_option_pdf() {
    let shelf = shelf(&[("pb-20261121-184127-acacac", "acceptance")]);
    let words = ["report", "pb-2026", "-o", "y.pdf", "--format", "html"];
    let error = refused(shelf.path(), &words);
    assert!(error.contains("(--pdf y.pdf)"), "{error}");
    assert!(!shelf.path().join("y.pdf").exists());
}

#[test]
fn an_anonymous_report_names_no_host_in_any_form() {
    let shelf = shelf(&[
        ("pb-20261121-184127-acacac", "acceptance"),
        ("pb-20261122-184127-acacac", "slow-receiver"),
    ]);
    let forms = ["text", "html", "csv", "json", "junit", "openmetrics"];
    for form in forms {
        let words = ["report", "pb-20261122", "--anonymise", "-f", form];
        let text = said(shelf.path(), &words, 0);
        let mut words = text.split(|letter: char| !letter.is_alphanumeric());
        let named = words.find(|word| ["n1", "n2", "n3", "n4"].contains(word));
        assert_eq!(named, None, "{form}");
        assert!(text.contains("h3") && !text.contains("10.0.0."), "{form}");
    }
    // The record that it writes is one, and says what it is.
    let words = [
        "report",
        "pb-20261122",
        "--anonymise",
        "-f",
        "json",
        "-o",
        "x",
    ];
    said(shelf.path(), &words, 0);
    let text = said(shelf.path(), &["report", "x"], 0);
    assert!(
        text.contains("hosts, addresses and site are replaced"),
        "{text}"
    );
    // Symptom: `retest` looked for hosts h1, h2 and so on.
    let error = refused(shelf.path(), &["retest", "x"]);
    assert!(error.contains("its names were replaced"), "{error}");
    // Of two runs, the same host has the same name; no line names the file.
    let words = [
        "report",
        "pb-20261122",
        "--baseline",
        "pb-20261121",
        "--anonymise",
    ];
    let text = said(shelf.path(), &words, 0);
    assert!(text.contains("\nh3 receive "), "{text}");
    let last = text.lines().last().expect("a line");
    assert!(
        last.starts_with("names replaced; original record sha256 "),
        "{last}"
    );
}

/// As the machines that read them see them: well-formed, and with the counts that they promise.
#[test]
fn reports_for_machines_are_well_formed() {
    for name in ["acceptance", "slow-receiver", "broken-off", "one-host"] {
        let record = golden(name).display().to_string();
        let folder = tempfile::tempdir().expect("a folder");
        said(
            folder.path(),
            &["report", &record, "-f", "junit", "-o", "junit.xml"],
            0,
        );
        let script = "import sys, xml.etree.ElementTree as x\n\
            s = x.parse('junit.xml').getroot().find('testsuite'); c = s.findall('testcase')\n\
            n = lambda tag: str(sum(1 for one in c if one.find(tag) is not None))\n\
            assert s.get('tests') == str(len(c)), s.attrib\n\
            assert [s.get('failures'), s.get('errors'), s.get('skipped')] == [n('failure'), n('error'), n('skipped')], s.attrib\n\
            print(s.find('properties')[0].get('value'))";
        let read = Command::new("python3")
            .current_dir(folder.path())
            .args(["-c", script])
            .output()
            .expect("python");
        assert!(
            read.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&read.stderr)
        );
        let metrics = said(folder.path(), &["report", &record, "-f", "openmetrics"], 0);
        let samples = openmetrics::series(name, &metrics);
        assert!(samples.len() > 3, "{name}: {metrics}");
    }
}

#[test]
fn runs_are_listed_and_found_by_the_beginning_of_their_names() {
    let shelf = shelf(&[
        ("pb-20261121-184127-acacac", "acceptance"),
        ("pb-20261122-090000-b0b0b0", "slow-receiver"),
        ("notes", "one-host"),
    ]);
    let list = said(shelf.path(), &["list"], 0);
    assert_eq!(list, said(shelf.path(), &["list", "--folder", "."], 0));
    let rows: Vec<&str> = list.lines().collect();
    assert_eq!(rows.len(), 3, "{list}");
    assert!(
        rows[1].starts_with("pb-20261121-184127-acacac  2026-11-21 18:41:27")
            && rows[1].contains("PASS"),
        "{list}"
    );
    assert!(
        rows[2].contains("FAIL     n3 receive 55.42 of 91.58 Mbit/s"),
        "{list}"
    );
    assert_eq!(
        refused(shelf.path(), &["report", "pb-2026"]),
        "pipebench: \"pb-2026\" is the beginning of several runs: pb-20261121-184127-acacac, pb-20261122-090000-b0b0b0 (the newest: pb-20261122-090000-b0b0b0)"
    );
    assert_eq!(
        refused(shelf.path(), &["report", "pb-2027"]),
        "pipebench: no run \"pb-2027\" (a record, the folder of a run, or the beginning of a run's name in .; see 'pipebench list')"
    );
    let nothing = tempfile::tempdir().expect("a folder");
    assert_eq!(
        said(nothing.path(), &["list"], 0),
        "no runs in . (use --folder DIR to store runs, or name a folder: pipebench list results)\n"
    );
    // What cannot be read is named, and the others are listed.
    fs::write(
        shelf.path().join("pb-20261122-090000-b0b0b0/record.json"),
        "{",
    )
    .expect("written");
    let output = ask(shelf.path(), &["list"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        err.starts_with("pipebench: pb-20261122-090000-b0b0b0: not a record: "),
        "{err}"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
}

#[test]
fn a_run_is_compared_with_a_later_one() {
    let shelf = shelf(&[("pb-1", "acceptance"), ("pb-2", "slow-receiver")]);
    let worse = said(shelf.path(), &["compare", "pb-1", "pb-2"], 1);
    assert!(
        worse.contains("      new: n3 receive (switch port Eth1/3) FAIL\n"),
        "{worse}"
    );
    let row = worse
        .lines()
        .find(|line| line.starts_with("n3") && line.contains("receive"))
        .expect("a row");
    assert!(row.ends_with("-37.7 %"), "{row}");
    let why = worse.lines().last().expect("a last line");
    assert!(
        why.starts_with("worse: ") && why.contains(" by more than 5 %: n3 receive"),
        "{why}"
    );
    assert!(
        why.ends_with("; new faults: n3 receive (switch port Eth1/3)"),
        "{why}"
    );
    let better = said(
        shelf.path(),
        &["compare", "pb-2", "pb-1", "--tolerance", "15"],
        0,
    );
    assert!(
        better.contains("n3 receive at Eth1/3: FAIL before, PASS now, though nothing was moved"),
        "{better}"
    );
    said(shelf.path(), &["compare", "pb-2", "pb-1"], 1);
    said(shelf.path(), &["compare", "pb-1", "pb-1"], 0);
    let text = said(shelf.path(), &["report", "pb-2", "--baseline", "pb-1"], 0);
    assert!(
        text.contains(
            "baseline    pb-20261121-184127-acacac PASS  ->  pb-20261121-184228-b0b0b0 FAIL\n"
        ),
        "{text}"
    );
    assert_eq!(
        refused(
            shelf.path(),
            &["report", "pb-2", "--baseline", "pb-1", "-f", "csv"]
        ),
        "pipebench: --baseline needs --format text or html"
    );
    assert_eq!(
        refused(
            shelf.path(),
            &["compare", "pb-1", "pb-2", "--tolerance", "101"]
        ),
        "pipebench: --tolerance 101: from 0 to 100 percent"
    );
}

#[test]
fn cablings_are_merged_by_ports_of_the_switch() {
    let shelf = shelf(&[
        ("pb-1", "acceptance"),
        ("pb-2", "slow-receiver"),
        ("pb-3", "two-hosts"),
    ]);
    let sheet = said(shelf.path(), &["merge", "pb-1", "pb-2"], 1);
    assert!(
        sheet.starts_with("FAIL  2 runs, 4 ports of the switch: weakest Eth1/3 (n3) receive 55.42"),
        "{sheet}"
    );
    let other_half = fs::read_to_string(golden("acceptance"))
        .expect("stored")
        .replace("Eth1/", "Eth2/")
        .replace("acacacac", "cdcdcdcd");
    fs::write(shelf.path().join("other.json"), other_half).expect("written");
    let sheet = said(shelf.path(), &["merge", "pb-1", "other.json"], 0);
    assert!(
        sheet.starts_with("PASS  2 runs, 8 ports of the switch: "),
        "{sheet}"
    );
    assert!(
        sheet.lines().any(|line| line.starts_with("Eth2/4 ")),
        "{sheet}"
    );
    assert_eq!(
        refused(shelf.path(), &["merge", "pb-1", "pb-1"]),
        "pipebench: pb-20261121-184127-acacac is named twice: a run cannot be merged with itself"
    );
    let unnamed = fs::read_to_string(golden("acceptance"))
        .expect("stored")
        .replace("\"switch_port\": \"Eth1/2\"", "\"switch_port\": null")
        .replace("acacacac", "efefefef");
    fs::write(shelf.path().join("unnamed.json"), unnamed).expect("written");
    assert_eq!(
        refused(shelf.path(), &["merge", "pb-1", "unnamed.json"]),
        "pipebench: pb-20261121-184127-efefef: n2 has no switch port: name it in the host file (n07 switchport=Eth1/7)"
    );
}

#[test]
fn a_retest_needs_faults_hosts_and_places_that_are_known() {
    let shelf = shelf(&[("pb-1", "acceptance"), ("pb-2", "slow-receiver")]);
    assert_eq!(
        refused(shelf.path(), &["retest", "pb-1"]),
        "pipebench: pb-20261121-184127-acacac found no fault (PASS): there is nothing to retest"
    );
    assert_eq!(
        refused(shelf.path(), &["retest", "pb-2"]),
        "pipebench: the command of pb-20261121-184228-b0b0b0: cannot read cluster.hosts: no such file or directory (start retest in the folder where that run was started)"
    );
    fs::write(shelf.path().join("cluster.hosts"), "n1\nn2\nn9\nn4\n").expect("written");
    assert_eq!(
        refused(shelf.path(), &["retest", "pb-2"]),
        "pipebench: the command of pb-20261121-184228-b0b0b0 now names other hosts (n1,n2,n9,n4; then n1,n2,n3,n4)"
    );
    fs::write(shelf.path().join("cluster.hosts"), "n1\nn2\nn3\nn4\n").expect("written");
    assert_eq!(
        refused(shelf.path(), &["retest", "pb-2", "--moved", "n7=Eth1/8"]),
        "pipebench: --moved \"n7=Eth1/8\": no host n7 in pb-20261121-184228-b0b0b0"
    );
    assert_eq!(
        refused(shelf.path(), &["retest", "pb-2", "--moved", "n3"]),
        "pipebench: --moved \"n3\" is not HOST=PORT (n07=Eth1/8)"
    );
    assert_eq!(
        refused(shelf.path(), &["retest", "pb-2", "--moved", "n3=PORT"]),
        "pipebench: --moved n3=PORT: write the new switch port for PORT"
    );
    let plan = said(shelf.path(), &["retest", "pb-2", "--dry-run"], 0);
    assert!(plan.contains("nodes      3: n[1-3]"), "{plan}");
    assert!(plan.contains("tests      4, one after the other"), "{plan}");
}

/// What another user wrote into a shared folder started his programs.
#[test]
fn a_record_that_anybody_may_have_written_starts_no_program_by_a_retest() {
    let shelf = shelf(&[("pb-2", "slow-receiver")]);
    let path = shelf.path().join("pb-2/record.json");
    let text = fs::read_to_string(&path).expect("a record");
    let started = shelf.path().join("started");
    let mut record = pipebench::internals::report::json::read(&text).expect("a record");
    let shell = format!("touch {} #", started.display());
    record.command = ["--hosts", "n1,n2,n3,n4", "--rsh", &shell]
        .map(str::to_owned)
        .to_vec();
    let keep_as_anybodys = |record: &pipebench::internals::record::Record| {
        let text = pipebench::internals::report::json::write(record).expect("a record");
        fs::write(&path, text).expect("written");
        let anybody: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&path, anybody).expect("one's own file");
    };
    keep_as_anybodys(&record);
    let said = refused(shelf.path(), &["retest", "pb-2"]);
    assert!(
        said.contains("another user may have written") && said.contains("its command has --rsh"),
        "{said}"
    );
    // Nor does it read or write files of hosts.
    record.command = ["--hosts", "n1,n2,n3,n4"].map(str::to_owned).to_vec();
    record.plan.tests_mut()[0].sink = pipebench::internals::plan::Sink::File("/tmp/%n".to_owned());
    keep_as_anybodys(&record);
    let said = refused(shelf.path(), &["retest", "pb-2"]);
    assert!(
        said.contains("another user may have written") && said.contains("has files of tests"),
        "{said}"
    );
    assert!(!started.exists());
}
