//! Tests the page in a real browser: on paper, and its figures against the record's. `tests/browser/sheets.mjs` looks at how pages appear.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pipebench::internals::judge::{ask, verdict};
use pipebench::internals::plan::lanes::{self, Lane};
use pipebench::internals::plan::{Pattern, Test};
use pipebench::internals::record::{AcceptanceRecord, Outcome, Record, TestRecord, VerdictWord};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(60);
const RECORDS: [&str; 13] = [
    "one-host",
    "two-hosts",
    "broken-off",
    "acceptance",
    "slow-receiver",
    "linktest",
    "slow-pair",
    "slow-uplink",
    "losses",
    "blocked",
    "host-limited",
    "undecided",
    "not-as-ordered",
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
        .join("record.json")
}

fn record(name: &str) -> Record {
    let text = fs::read_to_string(golden(name)).expect("a stored record");
    json::read(&text).expect("a record")
}

/// Makes the page of a stored record as a user does.
fn make(name: &str, folder: &Path) -> PathBuf {
    let page = folder.join(format!("{name}.html"));
    let made = Command::new(PIPEBENCH)
        .arg("report")
        .arg(golden(name))
        .args(["--format", "html", "--output"])
        .arg(&page)
        .output()
        .expect("pipebench runs");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    page
}

/// Runs the browser to its end; returns its standard output.
fn browse(folder: &Path, words: &[&str], page: &Path) -> String {
    let out = fs::File::create(folder.join("out")).expect("a file");
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let mut browser = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([&profile, "--allow-file-access-from-files"])
        .args(words)
        .arg(format!("file://{}", page.display()))
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::null())
        .spawn()
        .expect("chromium: tests/run installs it");
    let ends = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = browser.try_wait().expect("a child") {
            assert!(status.success(), "chromium {words:?}: {status}");
            return fs::read_to_string(folder.join("out")).expect("what it said");
        }
        if Instant::now() > ends {
            browser.kill().expect("killed");
            browser.wait().expect("reaped");
            panic!("chromium {words:?} did not end within {DEADLINE:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Result of a script that runs on the page in a frame of this width.
fn asked(folder: &Path, page: &Path, width: u32, script: &str) -> String {
    let frame = folder.join("frame.html");
    let name = page.file_name().expect("a name").to_string_lossy();
    let text = format!(
        "<!doctype html><body><iframe id=f src=\"{name}\" style=\"width:{width}px;height:900px;border:0\"></iframe><script>\
         document.getElementById('f').onload = () => {{ const d = document.getElementById('f').contentDocument; \
         const e = document.createElement('output'); e.textContent = 'ANSWER ' + (({script})(d)) + ' END'; document.body.append(e); }}\
         </script></body>"
    );
    fs::write(&frame, text).expect("a file");
    let shown = browse(
        folder,
        &["--virtual-time-budget=5000", "--dump-dom"],
        &frame,
    );
    let answer = shown
        .split_once("<output>ANSWER ")
        .and_then(|(_, rest)| rest.split_once(" END"));
    let (answer, _) = answer.unwrap_or_else(|| panic!("no answer: {shown}"));
    answer
        .replace("&gt;", ">")
        .replace("&lt;", "<")
        .replace("&amp;", "&")
}

#[test]
fn no_page_loads_anything() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in RECORDS {
        let page = make(name, folder.path());
        let text = fs::read_to_string(&page).expect("a page");
        for foreign in ["http://", "https://", "src=", "<script", "@import", "url("] {
            assert!(!text.contains(foreign), "{name}: {foreign}");
        }
    }
}

/// Record of a synthetic run of `hosts` hosts: every permutation, and a host that receives only 45 % of its rate.
fn large(hosts: usize, slow: usize) -> Record {
    let mut record = record("acceptance");
    record.plan.nodes = (0..hosts)
        .map(|node| {
            let mut one = record.plan.nodes[0].clone();
            one.label = format!("n{:03}", node + 1);
            one.host.clone_from(&one.label);
            one.switch_port = None;
            one
        })
        .collect();
    let model = record.hosts[0].clone();
    record.hosts = (0..hosts)
        .map(|node| {
            let mut one = model.clone();
            one.node.clone_from(&record.plan.nodes[node].label);
            one.host_index = node;
            one
        })
        .collect();
    let (test, model) = (record.plan.tests()[0].clone(), record.tests()[0].clone());
    let measured = |number: usize, planned: &Test| {
        let link = |lane: Lane| {
            let mut one = model.links[0].clone();
            let percent = if lane.to == slow { 45 } else { 100 };
            one.interval_bytes = one.interval_ns * percent * 115 / 1_000_000;
            (one.lane, one.tcp) = (lane, None);
            one
        };
        let links = lanes::of_boundary(planned, hosts, 0);
        TestRecord {
            test: number,
            nodes: vec![model.nodes[0].clone(); hosts],
            links: links.into_iter().map(link).collect(),
            seconds: Vec::new(),
            worst_links: Vec::new(),
            clocks: Vec::new(),
            ..model.clone()
        }
    };
    record.plan.acceptance_mut().expect("an acceptance").tests = (1..hosts)
        .map(|by| Test {
            pattern: Pattern::Shift(by),
            streams: 1,
            ..test.clone()
        })
        .collect();
    let planned = record.plan.tests().iter().enumerate();
    let tests = planned.map(|(number, one)| measured(number, one)).collect();
    record.outcome = Outcome::Acceptance(AcceptanceRecord { tests });
    // The loop adds every second look that the judge asks for.
    loop {
        let said = verdict::judge(&record.plan, &record.hosts, record.measured());
        if said.open.is_empty() {
            (record.sheet, record.verdict) = (said.sheet, said.verdict);
            return record;
        }
        assert!(record.tests().len() < hosts + 20, "looks without end");
        let base = record.plan.tests()[0].clone();
        for request in &said.open {
            let look = ask::test_for(&record.plan, &record.hosts, &base, request);
            let seen = measured(record.tests().len(), &look);
            let known = record.outcome.acceptance_mut().expect("an acceptance");
            known.tests.push(seen);
            let plan = record.plan.acceptance_mut().expect("an acceptance");
            plan.tests.push(look);
        }
    }
}

#[test]
fn a_page_of_256_hosts_can_be_read_and_sent() {
    let (hosts, slow) = (256, 199);
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("large.html");
    let record = large(hosts, slow);
    assert_eq!(
        record.verdict.word,
        VerdictWord::Fail,
        "{:?}",
        record.verdict
    );
    let text = pipebench::internals::report::page::write(&record, None, &[]);
    assert!(text.len() < 2_000_000, "{} bytes", text.len());
    fs::write(&page, text).expect("a file");
    for width in [360, 1280] {
        let wide = "d => d.documentElement.scrollWidth";
        let wide: u32 = asked(folder.path(), &page, width, wide)
            .parse()
            .expect("a number");
        assert!(wide <= width, "{wide} at {width}");
    }
    // All cells of the slow host's column have the lowest class, and no others. A screen shows each cell wider than two pixels.
    let script = "d => { const svg = d.querySelector('svg.heat'), all = {}; \
                  for (const p of svg.querySelectorAll('path')) for (const m of p.getAttribute('d').matchAll(/M(\\d+) (\\d+)h(\\d+)/g)) \
                  for (let c = +m[1]; c < +m[1] + +m[3]; c++) all[m[2] + ',' + c] = p.getAttribute('class'); \
                  const low = Object.keys(all).filter(k => all[k] === 'c0'); \
                  return [Object.keys(all).length, low.length, [...new Set(low.map(k => k.split(',')[1]))].join(' '), \
                  svg.querySelectorAll('text.name').length, svg.getBoundingClientRect().width > 2 * 256].join('|'); }";
    let found = asked(folder.path(), &page, 1280, script);
    let expected = format!("{}|{}|{slow}|64|true", hosts * (hosts - 1), hosts - 1);
    assert_eq!(found, expected);
    let worst = "d => [...d.querySelectorAll('#worst tbody tr')].map(r => r.cells[0].textContent + ' ' + r.cells[1].textContent).join('|')";
    let worst = asked(folder.path(), &page, 1280, worst);
    assert!(worst.starts_with("n200 receive|"), "{worst}");
}

/// Rate in a title of the map, in bits per second, and the rest of the title.
fn rate_of(text: &str) -> (f64, &str) {
    let (rate, rest) = text.split_once(' ').expect("a rate");
    let (unit, rest) = rest.split_once(',').expect("a unit");
    let factor = match unit {
        "Gbit/s" => 1e9,
        "Mbit/s" => 1e6,
        other => panic!("{other}"),
    };
    (rate.parse::<f64>().expect("a number") * factor, rest)
}

#[test]
fn a_page_shows_the_figures_of_its_record() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["acceptance", "slow-receiver"] {
        let record = record(name);
        let page = make(name, folder.path());
        let texts = "d => [d.querySelector('header .word').textContent, d.querySelectorAll('svg.heat rect[class^=c]').length, \
                     d.querySelectorAll('#worst tbody tr').length, d.querySelectorAll('#tests tbody tr').length, \
                     d.querySelectorAll('article.fault').length, d.querySelectorAll('.signatures .line').length].join('|')";
        let ports = record.sheet.ports.len();
        let expected = format!(
            "{}|{}|{}|{}|{}|{}",
            record.verdict.word,
            ports * (ports - 1),
            (2 * ports).min(10),
            record.tests().len(),
            record.sheet.faults.len(),
            // Only an acceptance is for signature.
            if name == "acceptance" { 3 } else { 0 }
        );
        assert_eq!(asked(folder.path(), &page, 1280, texts), expected, "{name}");
        let rows = "d => [...d.querySelectorAll('#worst tbody tr')].map(r => [...r.cells].slice(0, 5).map(c => c.textContent).join(',')).join('|')";
        let shown = asked(folder.path(), &page, 1280, rows);
        for row in shown.split('|') {
            let cells: Vec<&str> = row.split(',').collect();
            let port = record
                .sheet
                .ports
                .iter()
                .find(|port| port.label == cells[0])
                .expect("a port");
            let one = if cells[1] == "send" {
                port.send
            } else {
                port.receive
            }
            .expect("a direction");
            let rate: f64 = cells[2].parse().expect("a rate");
            assert!(
                (rate * 1e6 - one.rate_bits_per_s).abs() < 5.1e3,
                "{row}: {one:?}"
            );
            // Shares are rounded down.
            let share = (one.share.expect("judged") * 1000.0).floor() / 10.0;
            let share = format!("{share:.1} %");
            assert_eq!(cells[4], share, "{row}");
        }
        // The cells of the map show link rates.
        let titles =
            "d => [...d.querySelectorAll('svg.heat title')].map(t => t.textContent).join('|')";
        for title in asked(folder.path(), &page, 1280, titles).split('|') {
            let (pair, rest) = title.split_once(": ").expect("a pair");
            let (from, to) = pair.split_once(" to ").expect("a pair");
            let (rate, rest) = rate_of(rest);
            let test = rest
                .rsplit_once("(test ")
                .expect("a test")
                .1
                .trim_end_matches(')');
            let test: usize = test.parse().expect("a number");
            let node = |label: &str| {
                record
                    .plan
                    .nodes
                    .iter()
                    .position(|node| node.label == label)
                    .expect("a node")
            };
            let (from, to) = (node(from), node(to));
            let measured = &record.tests()[test - 1];
            let links = measured
                .links
                .iter()
                .filter(|link| (link.lane.from, link.lane.to) == (from, to));
            let sum: f64 = links.map(|link| measured.rate_of(link)).sum();
            assert!((rate - sum * 1e9).abs() < 5.1e4, "{title}: {sum}");
        }
    }
}

#[test]
fn a_page_of_a_link_test_shows_every_link_and_the_slowest_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = record("linktest");
    let job = record.outcome.linktest().expect("results of this kind");
    let page = make("linktest", folder.path());
    let titles = "d => [...d.querySelectorAll('svg.heat title')].map(t => t.textContent).join('|')";
    let titles = asked(folder.path(), &page, 1280, titles);
    assert_eq!(titles.split('|').count(), job.rounds[0].times.len());
    for title in titles.split('|') {
        let (pair, rest) = title.split_once(": ").expect("a pair");
        let (from, to) = pair.split_once(" to n").expect("a pair");
        let rank = |name: &str| {
            name.trim_start_matches('n')
                .parse::<usize>()
                .expect("a host")
                - 1
        };
        let (from, to) = (rank(from), rank(to));
        let (rate, rest) = rate_of(rest);
        let mut times = job.rounds[0].times.iter();
        let time = times
            .find(|time| (time.from, time.to) == (from, to))
            .expect("a link");
        let expected = 8.0 * (8 << 20) as f64 / time.seconds;
        assert!((rate - expected).abs() < 5.1e4, "{title}: {expected}");
        assert!(
            rest.ends_with(&format!("(step {})", time.step + 1)),
            "{title}"
        );
    }
    let rows = "d => [...d.querySelectorAll('#slowest tbody tr')].map(r => r.cells[0].textContent + '>' + r.cells[1].textContent).join('|')";
    let rows = asked(folder.path(), &page, 1280, rows);
    let rows: Vec<&str> = rows.split('|').collect();
    assert_eq!(rows.len(), 10);
    // The port into n2 is slow: it is an end of the six slowest links and of no others.
    let slow = |row: &&str| row.contains("(n2)");
    assert!(
        rows[..6].iter().all(slow) && !rows[6..].iter().any(slow),
        "{rows:?}"
    );
}

#[test]
fn a_page_of_latencies_shows_every_cable_and_the_slow_one_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = record("latency");
    let latency = record.outcome.latency().expect("results of this kind");
    let page = make("latency", folder.path());
    let titles =
        "d => [...d.querySelectorAll('#cables svg.heat title')].map(t => t.textContent).join('|')";
    let titles = asked(folder.path(), &page, 1280, titles);
    let titles: Vec<&str> = titles.split('|').collect();
    assert_eq!(titles.len(), latency.cables.len());
    for (title, cable) in titles.iter().zip(&latency.cables) {
        let us = cable.value_s.expect("known") * 1e6;
        let (name, rest) = title.split_once(": ").expect("a name");
        let (shown, _) = rest.split_once(" us one way").expect("a value");
        let shown: f64 = shown.parse().expect("a number");
        assert_eq!(name, cable.name);
        assert!((shown / us - 1.0).abs() < 0.01, "{title}: {us}");
    }
    let rows = "d => [...d.querySelectorAll('#slowest tbody tr')].map(r => r.cells[0].textContent + '>' + r.cells[6].textContent).join('|')";
    let rows = asked(folder.path(), &page, 1280, rows);
    assert!(rows.starts_with("n2-s1>slow, confirmed|"), "{rows}");
    assert_eq!(rows.matches("slow").count(), 1, "{rows}");
}

#[test]
fn on_paper_a_page_is_a4_and_short() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in [
        "acceptance",
        "slow-receiver",
        "linktest",
        "latency",
        "patterns",
    ] {
        let page = make(name, folder.path());
        let paper = folder.path().join("page.pdf");
        let print = format!("--print-to-pdf={}", paper.display());
        browse(folder.path(), &["--no-pdf-header-footer", &print], &page);
        let bytes = fs::read(&paper).expect("a document");
        let text = String::from_utf8_lossy(&bytes);
        let boxes: Vec<&str> = text
            .split("/MediaBox")
            .skip(1)
            .map(|rest| rest.split(']').next().unwrap_or_default())
            .collect();
        assert!((1..=8).contains(&boxes.len()), "{name}: {boxes:?}");
        for one in boxes {
            let sizes: Vec<f64> = one
                .trim_start_matches([' ', '['])
                .split(' ')
                .map(|part| part.parse().expect("a size"))
                .collect();
            // 210 mm by 297 mm in points.
            assert!(
                (sizes[2] - 595.3).abs() < 1.0 && (sizes[3] - 841.9).abs() < 1.0,
                "{name}: {one}"
            );
        }
    }
}

#[test]
fn a_page_is_printed_to_a_pdf_and_nothing_stays_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = format!(
        "{}/tests/golden/acceptance/record.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let ask = |path: &str| {
        Command::new(env!("CARGO_BIN_EXE_pipebench"))
            .current_dir(folder.path())
            .args(["report", &record, "--pdf", "sheet.pdf"])
            .env("TMPDIR", folder.path())
            .env("PATH", path)
            .output()
            .expect("it starts")
    };
    let none = ask("/nowhere");
    assert_eq!(none.status.code(), Some(12));
    let error = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(
        error.starts_with("pipebench: --pdf needs Chromium, which is not installed"),
        "{error}"
    );
    let printed = ask(&std::env::var("PATH").expect("a path"));
    assert!(printed.status.success(), "{printed:?}");
    let sheet = fs::read(folder.path().join("sheet.pdf")).expect("a sheet");
    assert!(sheet.starts_with(b"%PDF-"));
    let files = fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(files.count(), 1);
}
