//! Tests of `--keep-going`: a host that is unreachable, cannot create its processes or is lost costs only its own rows.

use std::time::{Duration, Instant};

use crate::lab::{self, Finished, Lab, LabOptions, Running};
use nix::sys::signal::Signal;
use pipebench::internals::record::{Record, TroubleKind, VerdictWord};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(90);

fn raise(hosts: usize) -> Lab {
    Lab::raise(LabOptions {
        hosts,
        mbit: Some(100),
        congestion: Some("reno"),
        ..LabOptions::default()
    })
}

fn start(lab: &Lab, words: &[&str]) -> Running {
    let mut all = vec![PIPEBENCH, "--keep-going", "--json", "/tmp/record.json"];
    all.extend(words);
    lab.spawn(0, &all)
}

fn end(lab: &Lab, running: Running) -> (Finished, Record) {
    let finished = running.finish(DEADLINE);
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json")).expect("a record");
    (finished, json::read(&text).expect("a record"))
}

fn expect_clean(lab: &Lab, hosts: &[usize]) {
    for host in hosts {
        lab.expect_no_survivors(*host, "pb-", Duration::from_secs(10));
        let left = lab.leftovers(*host);
        assert!(
            left.iter().all(|name| name.contains(".cache")),
            "n{host}: {left:?}"
        );
    }
}

/// Expects that no link lost data and that every link between remaining hosts carried bytes in the window.
fn expect_the_others_ran(record: &Record, finished: &Finished) {
    assert_eq!(record.exit_code, 0, "{finished}");
    let test = &record.tests()[0];
    assert!(test.complete, "{finished}");
    let conservation = &test.conservation;
    assert_eq!(conservation.faults, Vec::<String>::new(), "{finished}");
    assert_eq!(
        conservation.agreeing + conservation.unchecked,
        conservation.links
    );
    let lost = |node: usize| {
        let label = &record.plan.nodes[node].label;
        record.missing.iter().any(|missing| missing.node == *label)
    };
    for link in &test.links {
        if !lost(link.lane.from) && !lost(link.lane.to) {
            assert!(link.interval_bytes > 0, "{:?}\n{finished}", link.lane);
        }
    }
}

#[test]
fn a_host_that_cannot_be_reached_costs_its_row() {
    let lab = raise(3);
    let words = [
        "--hosts",
        "n1,n2,nowhere,n3",
        "--phases",
        "3",
        "--time",
        "2s",
    ];
    let (finished, record) = end(&lab, start(&lab, &words));
    expect_the_others_ran(&record, &finished);
    let finished = finished.expect_success();
    assert_eq!(record.plan.nodes.len(), 3);
    assert_eq!(record.missing.len(), 1);
    assert_eq!(
        (record.missing[0].node.as_str(), record.missing[0].at_ns),
        ("nowhere", None)
    );
    assert!(
        finished
            .stdout
            .contains("3 of 4 nodes accounted for: nowhere took no part (cannot resolve"),
        "{finished}"
    );
    assert!(
        finished.stdout.contains("NOT JUDGED  3 hosts, 3 ports"),
        "{finished}"
    );
    expect_clean(&lab, &[1, 2, 3]);
}

#[test]
fn a_host_that_cannot_make_its_processes_costs_its_row() {
    let lab = raise(3);
    let taken = "import socket, time\nfor p in (5201, 5202): s = socket.create_server(('10.77.0.2', p)); globals()[str(p)] = s\nprint('up', flush=True)\ntime.sleep(600)";
    let holder = lab.spawn(2, &["python3", "-c", taken]);
    holder.wait_for_line("up", DEADLINE);
    let words = [
        "--hosts",
        "n1,n2,n3",
        "--time",
        "1s",
        "--port-range",
        "5201-5202",
    ];
    let (finished, record) = end(&lab, start(&lab, &words));
    expect_the_others_ran(&record, &finished);
    assert_eq!(record.missing[0].kind, TroubleKind::Resource, "{finished}");
    assert!(
        finished
            .stdout
            .contains("2 of 3 nodes accounted for: n2 took no part (cannot listen"),
        "{finished}"
    );
    expect_clean(&lab, &[1, 3]);
    // If too few hosts remain, the run fails as without `--keep-going`.
    let words = [
        "--hosts",
        "n1,n2",
        "--time",
        "1s",
        "--port-range",
        "5201-5202",
    ];
    let (finished, _) = end(&lab, start(&lab, &words));
    assert_eq!(finished.code(), Some(12), "{finished}");
}

/// These tests cover every kind of workers and data path: a relay in one process loses one end or the other, and a shared
/// worker must continue with all other links.
#[test]
fn a_host_without_power_costs_its_row_with_a_process_for_a_peer() {
    lose_power_in_the_window(&["--workers", "peer"]);
}

#[test]
fn a_host_without_power_costs_its_row_with_a_process_for_a_slot() {
    lose_power_in_the_window(&["--workers", "slot"]);
}

#[test]
fn a_host_without_power_costs_its_row_with_shared_workers() {
    lose_power_in_the_window(&["--workers", "shared"]);
}

#[test]
fn a_host_without_power_costs_its_row_without_copies() {
    lose_power_in_the_window(&["--datapath", "zerocopy"]);
}

#[test]
fn a_host_without_power_costs_its_row_with_shared_workers_and_without_copies() {
    lose_power_in_the_window(&["--datapath", "zerocopy", "--workers", "shared"]);
}

fn lose_power_in_the_window(way: &[&str]) {
    let lab = raise(4);
    let words = [
        "--hosts",
        "n[1-4]",
        "--phases",
        "3",
        "--time",
        "10s",
        "--deadline",
        "silence=4s",
    ];
    let running = start(&lab, &[&words[..], way].concat());
    running.wait_for_line("   1 s", DEADLINE);
    let begun = Instant::now();
    running.wait_for_line("   3 s", DEADLINE);
    lab.kill_host(3);
    // Upper bound counted from the start of the run: it adds a second and the delay of the progress line.
    let killed_within_s = begun.elapsed().as_secs() + 2;
    let (finished, record) = end(&lab, running);
    expect_the_others_ran(&record, &finished);
    let lost = &record.missing[0];
    assert_eq!(
        (lost.node.as_str(), lost.kind),
        ("n3", TroubleKind::Lost),
        "{finished}"
    );
    let at_s = lost.at_ns.expect("it took part") / 1_000_000_000;
    assert!(
        at_s >= 2 && at_s <= killed_within_s,
        "{at_s} {killed_within_s}"
    );
    assert_eq!(record.tests()[0].conservation.unchecked, 2 * 7);
    assert!(
        finished
            .stdout
            .contains("3 of 4 nodes accounted for: n3 lost at "),
        "{finished}"
    );
    assert!(
        finished
            .stdout
            .lines()
            .any(|line| line.starts_with("n3    lost at ")),
        "{finished}"
    );
    expect_clean(&lab, &[1, 2, 4]);
}

#[test]
fn a_process_that_is_killed_costs_its_host_and_no_other() {
    let lab = raise(3);
    let running = start(
        &lab,
        &["--hosts", "n[1-3]", "--phases", "3", "--time", "10s"],
    );
    running.wait_for_line("   2 s", DEADLINE);
    let process = lab
        .processes(2)
        .into_iter()
        .find(|process| process.name == "pb-recv-1.0")
        .expect("a receiver");
    nix::sys::signal::kill(process.pid, nix::sys::signal::Signal::SIGKILL).expect("killed");
    let (finished, record) = end(&lab, running);
    expect_the_others_ran(&record, &finished);
    let lost = &record.missing[0];
    assert_eq!(
        (lost.node.as_str(), lost.kind),
        ("n2", TroubleKind::Killed),
        "{finished}"
    );
    assert_eq!(lost.what, "phase 1 receiver n1->n2: killed by signal 9");
    expect_clean(&lab, &[1, 2, 3]);
}

/// The host is lost in the second of several tests. That test gives no verdict, the others run without the host, and no port is blamed.
#[test]
fn a_host_that_is_lost_in_one_test_takes_no_part_in_those_behind_it() {
    let lab = raise(4);
    let words = [
        "--hosts",
        "n[1-4]",
        "--pattern",
        "rotate",
        "--link-speed",
        "100M",
        "--time",
        "8s",
        "--deadline",
        "silence=5s",
    ];
    let running = start(&lab, &words);
    running.wait_for_line("test 2 of 3, shift:2", DEADLINE);
    lab::wait_until("a second of the second test", DEADLINE, || {
        running.output().1.matches("   1 s").count() >= 2
    });
    lab.kill_host(3);
    let (finished, record) = end(&lab, running);
    let lost = &record.missing[0];
    assert_eq!((lost.node.as_str(), lost.test), ("n3", 1), "{finished}");
    assert!(lost.at_ns.is_some(), "{finished}");
    assert!(record.tests().len() >= 3, "{finished}");
    let behind = &record.tests()[2];
    assert!(behind.complete && behind.nodes[2].is_none(), "{finished}");
    let touched = behind
        .links
        .iter()
        .any(|link| link.lane.from == 2 || link.lane.to == 2);
    assert!(!touched && !behind.links.is_empty(), "{finished}");
    // A stalled machine can leave the verdict open; no port fails.
    let fair = [
        VerdictWord::Pass,
        VerdictWord::Undecided,
        VerdictWord::HostLimited,
    ];
    assert!(fair.contains(&record.verdict.word), "{finished}");
    assert!(record.sheet.faults.is_empty(), "{finished}");
    let send = |port: usize| record.sheet.ports[port].send.map(|one| one.test);
    assert!((0..4).all(|port| send(port) != Some(1)), "{finished}");
    assert!(
        finished
            .stdout
            .contains("3 of 4 nodes accounted for: n3 lost at "),
        "{finished}"
    );
    expect_clean(&lab, &[1, 2, 4]);
}

/// Processes of hosts and their sessions stay alive between tests: a signal from outside must end them too.
#[test]
fn a_signal_in_a_later_test_ends_the_run_and_leaves_nothing() {
    let lab = raise(3);
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let words = [
            "--hosts",
            "n[1-3]",
            "--pattern",
            "rotate",
            "--link-speed",
            "100M",
            "--time",
            "5s",
        ];
        let running = start(&lab, &words);
        running.wait_for_line("test 2 of 2, shift:2", DEADLINE);
        running.signal(signal);
        let finished = running.finish(DEADLINE);
        if signal == Signal::SIGTERM {
            assert_eq!(finished.code(), Some(143), "{finished}");
        }
        expect_clean(&lab, &[1, 2, 3]);
    }
}
