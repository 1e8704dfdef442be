//! Tests `retest`: a run finds a fault, a cable is moved, and the retest reports if the fault followed the host or stayed with the switch port.

use std::cell::Cell;
use std::time::Duration;

use crate::lab::{Finished, Lab, LabOptions};
use crate::tries::{self, should};
use pipebench::internals::record::Record;
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(120);

fn run(lab: &Lab, words: &[&str]) -> Finished {
    let mut all = vec![PIPEBENCH];
    all.extend(words);
    lab.run(0, &all, DEADLINE)
}

/// The record of the only run in a folder of the launching host.
fn record(lab: &Lab, folder: &str) -> (String, Record) {
    let entries = std::fs::read_dir(lab.path(0, folder)).expect("a folder");
    let mut runs: Vec<_> = entries.map(|entry| entry.expect("a run").path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let run = runs.remove(0);
    let text = std::fs::read_to_string(run.join("record.json")).expect("a record");
    let name = run
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    (name, json::read(&text).expect("a record"))
}

#[test]
fn a_fault_that_follows_the_host_is_told_from_one_that_stays_with_the_port() {
    let lab = Lab::raise(LabOptions {
        hosts: 3,
        mbit: Some(100),
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    let hosts = (1..=3).map(|host| format!("n{host} switchport=Eth1/{host}\n"));
    std::fs::write(lab.path(0, "/tmp/hosts"), hosts.collect::<String>()).expect("a host file");
    let number = Cell::new(0);
    tries::of_three(|| {
        number.set(number.get() + 1);
        let [first, second, third] =
            ["first", "second", "third"].map(|name| format!("/tmp/{name}-{}", number.get()));
        lab.shape_ingress(2, 60);
        lab.shape_ingress(3, 100);
        let words = [
            "--hostfile",
            "/tmp/hosts",
            "--link-speed",
            "100M",
            "--pattern",
            "rotate",
            "--time",
            "1s",
            "--output",
            &first,
        ];
        let begun = run(&lab, &words);
        should!(begun.code() == Some(1), "{begun}");
        let (name, measured) = record(&lab, &first);
        // The run prints the estimated time of the second looks before they begin.
        let told = "retesting suspects in isolation: 4 tests, about ";
        let told = begun.stderr.split_once(told);
        let seconds = told.and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
        let looks = measured.tests().iter().skip(2);
        should!(
            looks.count() == 4 && (8..=24).contains(&seconds.unwrap_or(0)),
            "{begun}"
        );
        should!(
            begun.stdout.contains(&format!(
                "`pipebench retest {first}/{name} --moved n2=PORT`"
            )),
            "{begun}"
        );
        // The cable of n2 moves to another port and n2 stays slow: the fault is in the NIC or the cable.
        let follows = run(
            &lab,
            &[
                "retest",
                &name,
                "--in",
                &first,
                "--moved",
                "n2=Eth1/8",
                "--output",
                &second,
                "--quiet",
            ],
        );
        should!(follows.code() == Some(1), "{follows}");
        should!(
        follows.stdout.contains("the fault followed the host: n2 receive FAIL at Eth1/2 and at Eth1/8: NIC or cable of n2\n"),
        "{follows}"
    );
        let (_, again) = record(&lab, &second);
        let plan = again.plan.acceptance().expect("tests");
        assert_eq!(plan.repeats.as_deref(), Some(name.as_str()));
        // n2 and n3 swap ports. n3 is slow at n2's old port and n2 is fast at n3's: the fault is in the switch port.
        lab.shape_ingress(2, 100);
        lab.shape_ingress(3, 60);
        let moved = "n2=Eth1/3,n3=Eth1/2";
        let words = [
            "retest", &name, "--in", &first, "--moved", moved, "--output", &third, "--quiet",
        ];
        let stays = run(&lab, &words);
        should!(stays.code() == Some(1), "{stays}");
        let sentence = "the fault stayed with the switch port: Eth1/2 FAIL with n3 too, while n2 is healthy at Eth1/3\n";
        should!(stays.stdout.contains(sentence), "{stays}");
        Ok(())
    });
    for host in lab.test_hosts() {
        lab.expect_no_survivors(host, "pb-", Duration::from_secs(10));
    }
}
