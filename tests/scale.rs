//! The launching side with hosts that do not exist (`fake_node/`): every host is accounted for, sums are those that the hosts invented, and of
//! hosts that fail the right ones are named. `cargo bench --bench scale` shows what a thousand such hosts cost.

mod fake_node;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fake_node::{FakeHosts, Fault, PORT_BYTES_PER_S, moved_bytes};
use pipebench::internals::record::{Missing, Record, VerdictWord};
use pipebench::internals::report::text;
use whole::{Ended, Run};

const WARMUP_NS: u64 = 500_000_000;
const WINDOW_NS: u64 = 2_000_000_000;
/// The last sign of life of a host with a fault is later than this after the start.
const LIVED_NS: u64 = 500_000_000;

fn run(hosts: &FakeHosts, words: &[&str]) -> Ended {
    let own = hosts.words();
    let mut all: Vec<&str> = own.iter().map(String::as_str).collect();
    all.extend(["--phases", "2", "--warmup", "500ms", "--time", "2s"]);
    all.extend(words);
    Run::start(&all).end("a run of hosts that do not exist", Duration::from_secs(60))
}

#[track_caller]
fn record(ended: &Ended) -> &Record {
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    ended.record.as_ref().expect("a record")
}

/// Expects `hosts` hosts whose ports were as full as the hosts invented, each with links to `others` other hosts.
#[track_caller]
fn expect_sums(ended: &Ended, hosts: usize, others: u64) {
    let record = record(ended);
    let test = &record.tests()[0];
    assert_eq!((test.nodes.len(), record.missing.len()), (hosts, 0));
    assert!(test.complete, "{}", ended.errors);
    let link_bytes_per_s = PORT_BYTES_PER_S / others;
    let whole = moved_bytes(link_bytes_per_s, WARMUP_NS + WINDOW_NS);
    let interval = whole - moved_bytes(link_bytes_per_s, WARMUP_NS);
    for link in &test.links {
        let bytes = (link.sent_bytes, link.received_bytes, link.interval_bytes);
        assert_eq!(bytes, (whole, whole, interval), "{:?}", link.lane);
    }
    for node in &test.nodes {
        let node = node.as_ref().expect("a report");
        let sums = (node.sent_bytes, node.received_bytes, node.interval_ns);
        let port = others * interval;
        assert_eq!(sums, (port, port, WINDOW_NS));
    }
    let conservation = &test.conservation;
    assert_eq!(conservation.agreeing, conservation.links);
    assert_eq!(conservation.faults, Vec::<String>::new());
    assert!(test.seconds.iter().all(|second| {
        let ports = second.received_bytes.iter();
        second.received_bytes.len() == hosts && ports.clone().min() == ports.max()
    }));
    assert!(!test.seconds.is_empty() && test.wires.is_empty());
}

#[test]
fn every_host_is_accounted_for_with_its_sums() {
    for (pattern, hosts, partners, links) in [("ring", 12, 1, 12), ("all-to-all", 8, 7, 64)] {
        let fakes = FakeHosts::start(hosts, &[]);
        let ended = run(&fakes, &["--pattern", pattern]);
        expect_sums(&ended, hosts, partners);
        assert_eq!(record(&ended).tests()[0].links.len(), links);
    }
}

/// Symptom: the record of an all-to-all grew with the square of its hosts, and had 474 MB with 512.
#[test]
fn a_test_of_many_links_keeps_sums_of_its_ports_and_64_links() {
    const HOSTS: usize = 91;
    let hosts = FakeHosts::start(HOSTS, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let matrix = folder.path().join("matrix").display().to_string();
    let words = ["--pattern", "all-to-all", "--link-speed", "25G"];
    let words = [&words[..], &["--matrix", matrix.as_str()]].concat();
    let ended = run(&hosts, &words);
    expect_sums(&ended, HOSTS, 90);
    let record = record(&ended);
    let test = &record.tests()[0];
    let sums = test.sums.as_ref().expect("sums");
    assert_eq!((sums.links, test.links.len()), (HOSTS * HOSTS, 64));
    let rate = |bytes: u64| bytes as f64 * 8.0 / (WINDOW_NS as f64 / 1e9);
    for (both, node) in sums.ports.iter().zip(&test.nodes) {
        let node = node.as_ref().expect("a report");
        for (sum, bytes) in both.iter().zip([node.sent_bytes, node.received_bytes]) {
            assert_eq!(sum.links, 90);
            let part = sum.rate_bits_per_s / rate(bytes);
            assert!((part - 1.0).abs() < 1e-9, "{part}");
        }
    }
    let table = std::fs::read_to_string(&matrix).expect("a matrix");
    assert_eq!(table.lines().count(), 1 + HOSTS * HOSTS);
    assert_eq!(
        record.verdict.word,
        VerdictWord::Pass,
        "{:?}",
        record.verdict
    );
    let ports = record.sheet.ports.iter();
    assert!(
        ports
            .clone()
            .all(|port| port.send.is_some() && port.receive.is_some())
    );
    let summary = text::summary(record);
    let all = format!("{0} of {0} links sent = received", HOSTS * HOSTS);
    assert!(summary.contains(&all), "{summary}");
}

#[test]
fn hosts_that_exit_freeze_and_hang_are_named_and_their_neighbours_are_not() {
    let faults = [(3, Fault::Exits), (6, Fault::Freezes), (9, Fault::Hangs)];
    let hosts = FakeHosts::start(12, &faults);
    let deadlines = "connect=4s,silence=3s";
    let words = ["--pattern", "ring", "--keep-going", "--deadline", deadlines];
    let ended = run(&hosts, &words);
    let record = record(&ended);
    let missing: BTreeMap<&str, &Missing> = record
        .missing
        .iter()
        .map(|one| (one.node.as_str(), one))
        .collect();
    let names: Vec<&str> = missing.keys().copied().collect();
    assert_eq!(names, ["h3", "h6", "h9"], "{}", ended.errors);
    for (name, what) in [
        ("h3", "exited with code 3"),
        ("h6", "silent for 3 s"),
        ("h9", "timed out after 4 s: no answer from the host's shell"),
    ] {
        let one = missing[name];
        assert!(one.what.contains(what), "{one:?}");
        let lived = one.at_ns.is_some_and(|at_ns| at_ns > LIVED_NS);
        assert_eq!(lived, name != "h9", "{one:?}");
    }
    assert!(record.sheet.faults.is_empty() && record.troubles.is_empty());
    // Without h9, the ring goes from h8 to h10. Two links lead to hosts that were lost, and two come from them.
    let test = &record.tests()[0];
    assert!(test.complete, "{}", ended.errors);
    let conservation = &test.conservation;
    let links = (conservation.agreeing, conservation.unchecked);
    assert_eq!(links, (7, 4), "{:?}", conservation.faults);
    assert_eq!(test.nodes.iter().flatten().count(), 9);
    let summary = text::summary(record);
    assert!(summary.contains("9 of 12 nodes accounted for"), "{summary}");
}

/// Symptom: when many hosts vanished together, their neighbours were named, or none of them.
#[test]
fn twenty_of_two_hundred_hosts_that_vanish_together_are_named_and_no_others() {
    // Some are neighbours, and some have one sound host between them, which loses both of its partners.
    let frozen = [3, 5, 40, 42, 77, 78, 120, 121, 160, 199];
    let exited = [4, 41, 60, 62, 79, 100, 122, 140, 181, 200];
    let of = |hosts: [u32; 10], fault| hosts.map(|host| (host, fault));
    let faults = [of(frozen, Fault::Freezes), of(exited, Fault::Exits)].concat();
    let hosts = FakeHosts::start(200, &faults);
    let deadline = "silence=3s";
    let words = [
        "--pattern",
        "ring",
        "--keep-going=10%",
        "--deadline",
        deadline,
    ];
    let ended = run(&hosts, &words);
    let record = record(&ended);
    let of_missing = record.missing.iter();
    let named: BTreeMap<&str, &str> = of_missing
        .map(|one| (one.node.as_str(), one.what.as_str()))
        .collect();
    let names: Vec<String> = faults.iter().map(|(host, _)| format!("h{host}")).collect();
    let expected: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(named.keys().copied().collect::<BTreeSet<_>>(), expected);
    for (hosts, what) in [(frozen, "silent for 3 s"), (exited, "exited with code 3")] {
        for host in hosts {
            let said = named[format!("h{host}").as_str()];
            assert!(said.contains(what), "h{host}: {said}");
        }
    }
    assert!(record.sheet.faults.is_empty() && record.troubles.is_empty());
    assert_eq!(record.tests()[0].nodes.iter().flatten().count(), 180);
    let summary = text::summary(record);
    assert!(
        summary.contains("180 of 200 nodes accounted for"),
        "{summary}"
    );
    // No sound port lacks anything: all that have a partner are full.
    let headline = summary.lines().next().unwrap_or_default();
    assert!(!headline.contains(" 0.00"), "{summary}");
}

/// Symptom: above a hundred hosts one of them usually fails, and ended the run.
#[test]
fn one_of_more_than_a_hundred_hosts_may_fail_and_two_may_not() {
    let one = FakeHosts::start(101, &[(7, Fault::Exits)]);
    let ended = run(&one, &["--pattern", "ring"]);
    let missing = &record(&ended).missing;
    assert!(
        matches!(&missing[..], [one] if one.node == "h7"),
        "{missing:?}"
    );
    assert!(
        ended.errors.contains("h7: the run continues without it"),
        "{}",
        ended.errors
    );

    let two = FakeHosts::start(101, &[(7, Fault::Exits), (9, Fault::Exits)]);
    let ended = run(&two, &["--pattern", "ring"]);
    assert_ne!(ended.code, Some(0), "{}", ended.errors);
    let record = ended.record.as_ref().expect("a record");
    let named = |node: &str| {
        let troubles = record.troubles.iter().map(|one| &one.node);
        let mut all = troubles.chain(record.missing.iter().map(|one| &one.node));
        all.any(|known| known == node)
    };
    assert!(named("h7") && named("h9"), "{}", ended.errors);
    let line = "2 of 101 nodes failed, and at most 1 may";
    assert!(ended.errors.contains(line), "{}", ended.errors);
}

/// Symptom: 3 of 50 hosts exited in a ring, and the headline was the port that sent to one of them, with a rate of 0.00.
#[test]
fn a_host_whose_only_partner_exits_is_not_the_weakest_port() {
    let hosts = FakeHosts::start(5, &[(2, Fault::Exits)]);
    let ended = run(&hosts, &["--pattern", "ring", "--keep-going"]);
    let summary = text::summary(record(&ended));
    let headline = summary.lines().next().unwrap_or_default();
    for innocent in ["weakest h1 send", "weakest h3 receive"] {
        assert!(!headline.contains(innocent), "{summary}");
    }
}
