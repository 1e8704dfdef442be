//! The whole program between hosts with their own namespaces and real sshd: the executable on none of them, one
//! of them without OpenSSL's libraries, started from a host that is not part of the run.

mod lab;

use std::time::Duration;

use lab::{Finished, Lab, LabOptions, wait_until};
use pipebench::record::{HeldBy, Record};
use pipebench::report::figures::Figures;
use pipebench::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(90);

fn raise() -> Lab {
    Lab::raise(LabOptions {
        without_openssl: Some(2),
        congestion: Some("reno"),
        ..LabOptions::default()
    })
}

/// Runs pipebench on the launching host; the record is written there and read back from outside.
fn run(lab: &Lab, words: &[&str]) -> (Finished, Option<Record>) {
    let mut all = vec![PIPEBENCH, "--json", "/tmp/record.json"];
    all.extend(words);
    let finished = lab.run(0, &all, DEADLINE);
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json")).ok();
    (
        finished,
        text.map(|text| json::read(&text).expect("a record")),
    )
}

/// No process, no name in shared memory and no file but the cache of the executable.
fn expect_clean(lab: &Lab) {
    for host in lab.test_hosts() {
        lab.expect_no_survivors(host, "pipebench", Duration::from_secs(10));
        lab.expect_no_survivors(host, "pb-", Duration::from_secs(10));
        let left: Vec<String> = lab
            .leftovers(host)
            .into_iter()
            .filter(|name| !name.contains(".cache"))
            .collect();
        assert!(left.is_empty(), "n{host}: {left:?}");
    }
}

fn expect_sound(record: &Record, nodes: usize, phases: usize) {
    assert_eq!(record.exit_code, 0, "{:?}", record.troubles);
    let test = &record.tests[0];
    assert!(test.complete);
    let links = nodes * nodes * (phases - 1);
    assert_eq!(test.links.len(), links);
    assert_eq!(
        test.conservation.agreeing, links,
        "{:?}",
        test.conservation.faults
    );
    for link in &test.links {
        assert_eq!(link.sent_bytes, link.received_bytes);
        assert!(link.received_bytes > 0, "{:?}", link.lane);
        assert_eq!(link.crosses_switch, link.lane.from != link.lane.to);
    }
}

#[test]
fn three_hosts_and_three_phases_over_the_built_in_ssh() {
    let lab = raise();
    let (finished, record) = run(
        &lab,
        &[
            "--hosts", "n1,n2,n3", "--phases", "3", "--time", "3s", "--rate", "100M",
        ],
    );
    let finished = finished.expect_success();
    assert!(
        finished.stdout.starts_with("options pipebench="),
        "{finished}"
    );
    assert!(
        finished
            .stdout
            .contains("NOT JUDGED  3 hosts, 3 ports, both directions at once"),
        "{finished}"
    );
    assert!(
        finished.stdout.contains("12 of 12 links sent = received")
            || finished.stdout.contains("18 of 18")
    );
    let record = record.expect("a record");
    expect_sound(&record, 3, 3);
    assert!(
        record.hosts.iter().all(|host| host.transport == "ssh2"),
        "{:?}",
        record.notices
    );
    assert!(
        record
            .hosts
            .iter()
            .all(|host| host.interface.as_deref() == Some("eth0"))
    );
    expect_clean(&lab);

    // The second time the executable is there: nothing is copied, and the run is as sound.
    let (finished, record) = run(
        &lab,
        &[
            "--hosts",
            "n[1-3]",
            "--phases",
            "2",
            "--buffers",
            "20",
            "--rsh",
            "ssh",
        ],
    );
    finished.expect_success();
    let record = record.expect("a record");
    expect_sound(&record, 3, 2);
    assert!(record.hosts.iter().all(|host| host.transport == "rsh"));
    assert!(record.tests[0].links.iter().all(|link| link.blocks == 20));
    expect_clean(&lab);
}

#[test]
fn a_port_shaped_to_200_mbit_is_filled_and_its_links_are_the_limiting_ones() {
    let lab = raise();
    lab.shape_ingress(2, 200);
    let (finished, record) = run(
        &lab,
        &[
            "--hosts", "n1,n2,n3", "--phases", "3", "--time", "8s", "--warmup", "2s",
        ],
    );
    let finished = finished.expect_success();
    let record = record.expect("a record");
    expect_sound(&record, 3, 3);
    let test = &record.tests[0];
    let figures = Figures::of(&record, test);
    // 1448 bytes of payload in a frame that the bucket counts as 1514 bytes.
    let left_for_payload = 0.2 * 1448.0 / 1514.0;
    let received = figures.ports[1].receive_gbit_per_s;
    let ratio = received / left_for_payload;
    assert!(
        (0.97..=1.03).contains(&ratio),
        "{received} Gbit/s, {ratio}\n{finished}"
    );
    for link in test.links.iter().filter(|link| link.crosses_switch) {
        let limiting = link.held_by == HeldBy::Limiting;
        assert_eq!(limiting, link.lane.to == 1, "{link:?}\n{finished}");
    }
    let (_, direction, _) = figures.weakest().expect("ports");
    assert_eq!(
        figures.weakest().map(|(port, _, _)| port.label.as_str()),
        Some("n2"),
        "{direction}"
    );
    expect_clean(&lab);
}

#[test]
fn the_launching_host_may_be_in_the_list_and_data_may_run_elsewhere() {
    let lab = raise();
    let (finished, record) = run(
        &lab,
        &[
            "--hosts",
            "ctl,n1,n3",
            "--phases",
            "2",
            "--time",
            "1s",
            "--data-network",
            "10.77.0.0/24",
            "--rate",
            "100M",
        ],
    );
    let by_name = lab.run(0, &["hostname"], DEADLINE).stdout.trim().to_owned();
    if by_name == "ctl" {
        finished.expect_success();
        let record = record.expect("a record");
        assert_eq!(record.hosts[0].transport, "local");
    } else {
        let hosts = format!("{by_name},n1,n3");
        let (finished, record) = run(
            &lab,
            &[
                "--hosts",
                &hosts,
                "--phases",
                "2",
                "--time",
                "1s",
                "--interface",
                "eth0",
                "--rate",
                "100M",
            ],
        );
        finished.expect_success();
        let record = record.expect("a record");
        assert_eq!(record.hosts[0].transport, "local");
        expect_sound(&record, 3, 2);
    }
    expect_clean(&lab);
}

#[test]
fn a_host_that_is_not_there_is_one_line_and_exit_code_10() {
    let lab = raise();
    let started = std::time::Instant::now();
    let (finished, _) = run(&lab, &["--hosts", "n1,n9,n3", "--phases", "2"]);
    assert_eq!(finished.code(), Some(10), "{finished}");
    let first = finished.stderr.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("pipebench: n9: cannot resolve"),
        "{finished}"
    );
    lab.link_down(3);
    let (finished, _) = run(&lab, &["--hosts", "n1,n3", "--deadline", "connect=3s"]);
    assert_eq!(finished.code(), Some(10), "{finished}");
    let first = finished.stderr.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("pipebench: n3: cannot connect: "),
        "{finished}"
    );
    assert!(started.elapsed() < DEADLINE);
    expect_clean(&lab);
}

#[test]
fn a_filtered_data_port_is_named_as_a_pair() {
    let lab = raise();
    lab.block(1, 3);
    let (finished, _) = run(
        &lab,
        &[
            "--hosts",
            "n1,n2,n3",
            "--phases",
            "2",
            "--time",
            "1s",
            "--deadline",
            "connect=3s",
        ],
    );
    assert_eq!(finished.code(), Some(10), "{finished}");
    let first = finished.stderr.lines().next().unwrap_or_default();
    assert!(
        first.contains("n1->n3") || first.contains("n3->n1"),
        "{finished}"
    );
    assert!(first.contains("timed out"), "{finished}");
    expect_clean(&lab);
}

#[test]
fn a_host_that_dies_during_the_run_is_named_and_what_was_measured_is_kept() {
    let lab = raise();
    let words = [
        PIPEBENCH,
        "--hosts",
        "n1,n2,n3",
        "--phases",
        "2",
        "--time",
        "60s",
        "--rate",
        "50M",
        "--json",
        "/tmp/record.json",
    ];
    let running = lab.spawn(0, &words);
    running.wait_for_line("   2 s  switch", DEADLINE);
    lab.kill_host(2);
    let finished = running.finish(DEADLINE);
    assert_eq!(finished.code(), Some(20), "{finished}");
    let errors: Vec<&str> = finished
        .stderr
        .lines()
        .filter(|line| line.starts_with("pipebench:"))
        .collect();
    assert!(
        errors
            .first()
            .is_some_and(|line| line.starts_with("pipebench: n2: lost:")),
        "{finished}"
    );
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json")).expect("a partial record");
    let record = json::read(&text).expect("a record");
    assert!(!record.tests[0].complete);
    assert!(
        record.tests[0]
            .links
            .iter()
            .any(|link| link.received_bytes > 0)
    );
    for host in [1, 3] {
        lab.expect_no_survivors(host, "pipebench", Duration::from_secs(15));
    }
}

#[test]
fn a_launcher_that_is_killed_leaves_nothing_behind() {
    let lab = raise();
    let words = [
        PIPEBENCH, "--hosts", "n1,n2,n3", "--phases", "3", "--time", "60s", "--rate", "50M",
    ];
    let running = lab.spawn(0, &words);
    running.wait_for_line("   1 s  switch", DEADLINE);
    assert!(!lab.survivors(1, "pb-").is_empty() || !lab.survivors(1, "pipebench").is_empty());
    running.signal(nix::sys::signal::Signal::SIGKILL);
    wait_until("every node has ended", Duration::from_secs(15), || {
        lab.test_hosts()
            .all(|host| lab.survivors(host, "pipebench").is_empty())
    });
    drop(running);
    expect_clean(&lab);
}
