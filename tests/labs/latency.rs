//! Tests latencies of a fabric of two switches: predictions match measurements, a cable with added delay is flagged and located,
//! and a missing host costs its pairs.

use std::time::Duration;

use crate::lab::{Finished, Lab, LabOptions, Running};
use crate::tries::{self, should};
use pipebench::internals::record::{LatencyRecord, PairLatency, Record, VerdictWord};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(120);
/// Delay added to a cable in each direction, in microseconds.
const DELAY_US: u32 = 500;

/// Six hosts on two switches, three each.
fn raise() -> Lab {
    let lab = Lab::raise(LabOptions {
        hosts: 6,
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    lab.split(&[4, 5, 6], 1000);
    let fabric = "version = 1\nname = \"lab\"\nhosts = [\"n1\", \"n2\", \"n3\", \"n4\", \"n5\", \"n6\"]\nswitches = [\"s1\", \"s2\"]\n\
        [[cables]]\nlist = [[\"n1\", \"s1\"], [\"n2\", \"s1\"], [\"n3\", \"s1\"], [\"n4\", \"s2\"], [\"n5\", \"s2\"], [\"n6\", \"s2\"], [\"s1\", \"s2\"]]\n\
        [routes]\nrule = \"symmetric\"\n";
    std::fs::write(lab.path(0, "/tmp/lab.toml"), fabric).expect("written");
    lab
}

/// Runs `pipebench latency` with `words`; stores the record as `name`.
fn latency(lab: &Lab, name: &str, words: &str) -> (Finished, Record) {
    let all = format!(
        "{PIPEBENCH} latency {words} --quiet --wait sleep --output /tmp --json /tmp/{name}.json"
    );
    let words: Vec<&str> = all.split_whitespace().collect();
    let finished = lab.run(0, &words, DEADLINE);
    let text = std::fs::read_to_string(lab.path(0, &format!("/tmp/{name}.json")))
        .unwrap_or_else(|why| panic!("no record: {why}\n{finished}"));
    let record = json::read(&text).unwrap_or_else(|why| panic!("{why}\n{finished}"));
    (finished, record)
}

fn only(record: &Record) -> &LatencyRecord {
    record.outcome.latency().expect("latencies")
}

fn slow(record: &Record) -> Vec<(&str, bool)> {
    let all = only(record).slow.iter();
    all.map(|cable| (cable.name.as_str(), cable.confirmed))
        .collect()
}

#[test]
fn predictions_hold_and_a_cable_that_delays_is_flagged_and_located() {
    let lab = raise();
    let hosts = "--hosts n[1-6] --pings 101";
    let healthy = tries::of_three(|| {
        let (finished, healthy) = latency(&lab, "healthy", &format!("run /tmp/lab.toml {hosts}"));
        let measured = only(&healthy);
        assert!(measured.complete, "{finished}");
        assert_eq!((measured.planned.rank, measured.planned.used), (7, 7));
        assert_eq!(measured.cables.len(), 7);
        assert!(measured.cables.iter().all(|cable| cable.identified));
        assert!(measured.pairs.len() < 15 && measured.pairs.len() + measured.checks.len() == 15);
        should!(slow(&healthy).is_empty(), "{finished}");
        // A machine that stalls during the baseline hides every delay compared with it.
        let is_calm = |error_s: f64| error_s * 1e6 < 60.0;
        let calm = measured
            .cables
            .iter()
            .all(|cable| cable.error_s.is_some_and(is_calm));
        should!(calm, "{finished}");
        assert!(
            finished
                .stdout
                .contains("unplanned pairs: predictions differ by "),
            "{finished}"
        );
        Ok(healthy)
    });
    let against = "--baseline /tmp/healthy.json";
    for host in [2, 5] {
        let wire: Running = lab.delay(host, DELAY_US);
        tries::of_three(|| {
            let words = format!("run /tmp/lab.toml {hosts} {against}");
            let (finished, record) = latency(&lab, "slow", &words);
            let cable = format!("n{host}-s{}", if host < 4 { 1 } else { 2 });
            should!(slow(&record) == [(cable.as_str(), true)], "{finished}");
            assert_eq!(record.verdict.word, VerdictWord::Fail, "{finished}");
            assert_eq!(finished.code(), Some(1), "{finished}");
            let expected = format!("FAIL  cable {cable} takes ");
            assert!(finished.stdout.starts_with(&expected), "{finished}");
            // The delay itself plus the overhead of the process that delays the cable.
            let of = |record: &Record| {
                only(record)
                    .cables
                    .iter()
                    .find(|one| one.name == cable)
                    .and_then(|one| one.value_s)
                    .expect("known")
            };
            let added_us = (of(&record) - of(&healthy)) * 1e6;
            should!((450.0..900.0).contains(&added_us), "{added_us}: {finished}");
            // The report states the error of the predictions. Latencies over the slow cable far exceed the random delay of two processors.
            assert!(finished.stdout.contains("check      "), "{finished}");
            let over = |pair: &&PairLatency| {
                [pair.from, pair.to].contains(&(u32::try_from(host).expect("few") - 1))
            };
            for pair in only(&record).checks.iter().filter(over) {
                let off = pair.predicted_s.expect("predicted") / pair.median_s - 1.0;
                should!(off.abs() < 0.3, "{off} {pair:?}: {finished}");
            }
            {
                let words = format!("locate /tmp/lab.toml {hosts} {against}");
                let (finished, record) = latency(&lab, "located", &words);
                should!(record.verdict.word == VerdictWord::Fail, "{finished}");
                // A few rounds are noisy: other cables can look slow once, but are not confirmed.
                let named = slow(&record)
                    .into_iter()
                    .filter(|(_, confirmed)| *confirmed);
                should!(named.eq([(cable.as_str(), true)]), "{finished}");
            }
            Ok(())
        });
        drop(wire);
        lab.unwire(host);
    }
}

#[test]
fn a_host_that_is_missing_costs_its_pairs() {
    let lab = raise();
    let plan = format!("{PIPEBENCH} latency plan /tmp/lab.toml -o /tmp/plan.toml");
    let words: Vec<&str> = plan.split_whitespace().collect();
    lab.run(0, &words, DEADLINE).expect_success();
    lab.kill_host(3);
    let (finished, record) = latency(
        &lab,
        "five",
        "run /tmp/lab.toml --plan /tmp/plan.toml --hosts n[1-6] --deadline connect=8s",
    );
    let measured = only(&record);
    assert!(measured.complete, "{finished}");
    assert_eq!(measured.absent, ["n3"], "{finished}");
    assert!(measured.planned.left_out > 0, "{finished}");
    assert!(
        measured
            .pairs
            .iter()
            .all(|pair| pair.from != 2 && pair.to != 2)
    );
    // With two hosts left on a switch, its cables are known only together with the trunk: the rank falls by the missing cable.
    assert_eq!(
        (measured.planned.rank, measured.planned.used),
        (6, 6),
        "{finished}"
    );
    assert_eq!(record.missing.len(), 1);
    assert_eq!(record.missing[0].node, "n3");
    assert!(finished.stdout.contains("absent     n3\n"), "{finished}");
}
