//! Tests patterns between hosts whose ports have a known rate: the effect of a stalled link on its siblings, and head-of-line blocking.

use std::time::Duration;

use crate::lab::{Finished, Lab, LabOptions};
use crate::tries::{self, should};
use pipebench::internals::record::{Record, VerdictWord};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(90);

/// Raises hosts whose ports pass 100 Mbit/s each way.
fn raise(hosts: usize) -> Lab {
    Lab::raise(LabOptions {
        hosts,
        mbit: Some(100),
        congestion: Some("reno"),
        ..LabOptions::default()
    })
}

fn run(lab: &Lab, words: &[&str]) -> (Finished, Record) {
    let mut all = vec![
        PIPEBENCH,
        "--json",
        "/tmp/record.json",
        "--quiet",
        "--time",
        "3s",
    ];
    all.extend(words);
    let finished = lab.run(0, &all, DEADLINE);
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json")).expect("a record");
    (finished, json::read(&text).expect("a record"))
}

/// Throughput from node to node in the first test, in Mbit/s.
fn rate(record: &Record, from: usize, to: usize) -> f64 {
    let test = &record.tests()[0];
    let own = test
        .links
        .iter()
        .filter(|link| (link.lane.from, link.lane.to) == (from, to));
    own.map(|link| test.rate_of(link) * 1000.0).sum()
}

/// One of three receivers takes almost nothing: traffic to the other two fills the sender's port.
#[test]
fn a_link_that_stalls_never_slows_its_siblings() {
    let lab = raise(4);
    lab.slow_pair(1, 3, 100, 1);
    for workers in ["peer", "shared"] {
        let words = [
            "--hosts",
            "n1,n2,n3,n4",
            "--pattern",
            "outcast:3",
            // The data queued in the slow receiver's socket must arrive before the run ends.
            "--sndbuf",
            "128K",
            "--workers",
            workers,
        ];
        tries::of_three(|| {
            let (finished, record) = run(&lab, &words);
            let finished = finished.expect_success();
            let rates = [1, 2, 3].map(|to| rate(&record, 0, to));
            should!(rates[1] < 1.5, "{rates:?} {finished}");
            // TCP decides the shares of two connections in three seconds; pipebench must ensure that together they fill the port.
            should!(rates[0] > 15.0 && rates[2] > 15.0, "{rates:?} {finished}");
            should!(rates[0] + rates[2] > 80.0, "{rates:?} {finished}");
            Ok(())
        });
    }
}

#[test]
fn the_victim_beside_a_congested_port_keeps_its_half() {
    let lab = raise(4);
    let words = [
        "--hosts",
        "n1,n2,n3,n4",
        "--pattern",
        "hol",
        "--link-speed",
        "100M",
    ];
    tries::of_three(|| {
        let (finished, record) = run(&lab, &words);
        let victim = rate(&record, 0, 2);
        should!((42.0..50.0).contains(&victim), "{victim} {finished}");
        let congested = rate(&record, 0, 3) + rate(&record, 1, 3);
        should!(congested > 85.0, "{congested} {finished}");
        should!(record.verdict.word == VerdictWord::Pass, "{finished}");
        Ok(())
    });
}

/// The pattern needs half of a port's rate, so the rate must be known.
#[test]
fn head_of_line_blocking_needs_a_speed() {
    let lab = raise(4);
    let (finished, _) = run(&lab, &["--hosts", "n1,n2,n3,n4", "--pattern", "hol"]);
    assert_eq!(finished.code(), Some(2), "{finished}");
    let line = finished.stderr.lines().next().unwrap_or_default();
    assert!(line.contains("give --link-speed"), "{finished}");
}

/// A port that negotiated less than required fails before a byte flows. The lab's cables report 10 Gbit/s and no
/// hardware, so here the MTU is the value that differs from the requirement.
#[test]
fn a_port_that_is_not_as_ordered_fails_before_a_byte_flows() {
    let lab = raise(3);
    let before = lab.interface_bytes(2);
    let words = [
        "--hosts",
        "n1,n2,n3",
        "--link-speed",
        "100M",
        "--mtu",
        "9000",
    ];
    let (finished, record) = run(&lab, &words);
    assert_eq!(finished.code(), Some(1), "{finished}");
    assert!(
        finished.stdout.starts_with("FAIL")
            && finished
                .stdout
                .contains("n1 eth0 has MTU 1500, 9000 specified; and 2 more"),
        "{finished}"
    );
    assert!(record.tests().is_empty());
    let after = lab.interface_bytes(2);
    // The executable was copied there; no test data flowed.
    assert!(after.1 - before.1 < 3_000_000, "{before:?} {after:?}");
}

#[test]
fn an_incast_is_judged_by_the_port_that_should_be_full() {
    let lab = raise(4);
    let words = [
        "--hosts",
        "n1,n2,n3,n4",
        "--pattern",
        "incast:3",
        "--link-speed",
        "100M",
    ];
    tries::of_three(|| {
        let (finished, record) = run(&lab, &words);
        should!(record.verdict.word == VerdictWord::Pass, "{finished}");
        let sheet = &record.sheet;
        assert!(
            sheet.ports[0]
                .receive
                .is_some_and(|one| one.share.is_some()),
            "{sheet:?}"
        );
        assert!(
            sheet.ports[1].send.is_some_and(|one| one.share.is_none()),
            "{sheet:?}"
        );
        assert!(sheet.ports[0].send.is_none(), "{sheet:?}");
        Ok(())
    });
}
