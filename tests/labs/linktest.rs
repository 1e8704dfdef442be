//! Link tests between hosts of the lab: a slow port is an end of each of the worst links and gets the blame, sound ports pass,
//! and the judge ignores messages that are too short.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lab::{Finished, Lab, LabOptions};
use crate::tries::{self, should};
use pipebench::internals::record::{Culprit, Record, VerdictWord};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(180);
const MBIT: u32 = 200;

/// Raises hosts whose ports all have the same rate, `MBIT` Mbit/s each way.
fn raise(hosts: usize) -> Lab {
    let lab = Lab::raise(LabOptions {
        hosts,
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    for host in lab.test_hosts() {
        lab.shape_egress(host, MBIT);
        lab.shape_ingress(host, MBIT);
    }
    lab
}

fn test(lab: &Lab, hosts: &str, words: &str) -> (Finished, Record) {
    let all = format!(
        "{PIPEBENCH} linktest --hosts {hosts} --link-speed {MBIT}M --quiet --no-sion-file --json /tmp/record.json {words}"
    );
    let words: Vec<&str> = all.split_whitespace().collect();
    let finished = lab.run(0, &words, DEADLINE);
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json"))
        .unwrap_or_else(|why| panic!("no record: {why}\n{finished}"));
    let record = json::read(&text).unwrap_or_else(|why| panic!("{why}\n{finished}"));
    (finished, record)
}

#[test]
fn a_slow_port_is_at_an_end_of_exactly_the_worst_links_and_blamed_in_its_direction() {
    let lab = raise(4);
    // Host n2 is rank 1. A 40 ms token bucket fills while the other direction is busy, so messages are eight times as long.
    lab.shape_ingress(2, MBIT / 2);
    for (words, one_way) in [
        ("-n 1 -w 0 -s 8M --num-slowest 6", false),
        ("-n 2 -w 0 -s 8M --unidirectional --num-slowest 3", true),
    ] {
        tries::of_three(|| {
            let (finished, record) = test(&lab, "n[1-4]", words);
            let job = record.outcome.linktest().expect("results of this kind");
            let mut times = job.rounds[0].times.clone();
            times.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
            // Three partners; bounced messages count in both directions.
            let count = if one_way { 3 } else { 6 };
            let worst: BTreeSet<_> = times[..count]
                .iter()
                .map(|time| (time.from, time.to))
                .collect();
            let expected: BTreeSet<_> = [0, 2, 3]
                .into_iter()
                .flat_map(|other| [(other, 1), (1, other)])
                .filter(|(_, to)| !one_way || *to == 1)
                .collect();
            // The scheduler can make another rank look slow, but no other port gets the blame.
            let blamed: Vec<_> = record
                .sheet
                .faults
                .iter()
                .map(|fault| fault.culprit.clone())
                .collect();
            let innocent = blamed.iter().any(|one| *one != Culprit::Receive(1));
            assert!(!innocent, "{words}: {finished}");
            should!(worst == expected, "{worst:?} {words}: {finished}");
            // The serial retest confirms the worst links: none is faster alone.
            for again in job.rounds[0].retests.iter().take(count) {
                assert!(expected.contains(&(again.from, again.to)), "{again:?}");
                should!(again.new_s > 0.85 * again.old_s, "{again:?}\n{finished}");
            }
            should!(
                record.verdict.word == VerdictWord::Fail,
                "{words}: {finished}"
            );
            assert_eq!(finished.code(), Some(1), "{words}: {finished}");
            assert_eq!(blamed, [Culprit::Receive(1)], "{words}: {finished}");
            assert!(
                !job.looks.is_empty(),
                "nothing is a FAIL before it was looked at alone"
            );
            assert!(finished.stdout.contains("n2 receive"), "{finished}");
            Ok(())
        });
    }
}

#[test]
fn sound_ports_pass_and_short_messages_are_not_judged() {
    let lab = raise(4);
    for words in ["-s 8M -n 1 --bidirectional", "-s 8M -n 1 --bisection"] {
        tries::of_three(|| {
            let (finished, record) = test(&lab, "n[1-4]", &format!("{words} -w 0 --num-slowest 1"));
            assert_ne!(
                record.verdict.word,
                VerdictWord::Fail,
                "{words}: {finished}"
            );
            should!(
                record.verdict.word == VerdictWord::Pass,
                "{words}: {finished}"
            );
            assert_eq!(finished.code(), Some(0), "{words}: {finished}");
            Ok(())
        });
    }
    let (finished, record) = test(&lab, "n[1-4]", "-s 64 -n 50 --ranks-per-node 2");
    assert_eq!(record.verdict.word, VerdictWord::NotJudged, "{finished}");
    assert!(
        record.verdict.reason.contains("too few or too short"),
        "{finished}"
    );
    assert_eq!(
        record
            .outcome
            .linktest()
            .expect("results of this kind")
            .ranks
            .len(),
        8
    );
    assert_eq!(
        record
            .outcome
            .linktest()
            .expect("results of this kind")
            .rounds[0]
            .times
            .len(),
        56
    );
    for host in lab.test_hosts() {
        lab.expect_no_survivors(host, "pb-", Duration::from_secs(20));
    }
}

#[test]
fn a_path_that_goes_dead_ends_the_job_whoever_waits_for_whom() {
    let lab = raise(3);
    let words = format!(
        "{PIPEBENCH} linktest --hosts n[1-3] --serial-tests -n 4 -w 0 -s 4M --min-iterations 1000 --no-sion-file --deadline silence=6s"
    );
    let words: Vec<&str> = words.split_whitespace().collect();
    let running = lab.spawn(0, &words);
    running.wait_for_line("Serial Results for step 2", DEADLINE);
    // A barrier message from rank 1 to rank 2 is lost, and both wait for another rank.
    lab.block(2, 3);
    lab.block(3, 2);
    let finished = running.finish(Duration::from_secs(90));
    assert_eq!(finished.code(), Some(20), "{finished}");
    let first = finished
        .stderr
        .lines()
        .find(|line| line.starts_with("pipebench: "));
    let first = first.unwrap_or_else(|| panic!("{finished}"));
    assert!(
        first.contains("rank 1") && first.contains("rank 2"),
        "{finished}"
    );
    for host in lab.test_hosts() {
        lab.expect_no_survivors(host, "pb-", Duration::from_secs(20));
    }
}
