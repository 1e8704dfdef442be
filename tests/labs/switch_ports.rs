//! Tests switch ports that no plan names: hosts hear by LLDP where they are connected, and check, blame, next step and record name the port.

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

/// The places of all nodes, as the record names them.
fn places(record: &Record) -> Vec<String> {
    let nodes = record.plan.nodes.iter();
    nodes.map(|node| node.place().unwrap_or_default()).collect()
}

#[test]
fn a_switch_port_that_no_plan_names_is_named_by_lldp() {
    let lab = Lab::raise(LabOptions {
        hosts: 3,
        mbit: Some(100),
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    let hosts = "n1\nn2 switch=leaf1 switchport=p1\nn3\n";
    std::fs::write(lab.path(0, "/tmp/hosts"), hosts).expect("a host file");
    let check = |words: [&str; 2]| {
        let checked = run(&lab, &["check", "--quiet", words[0], words[1]]);
        assert_eq!(checked.code(), Some(0), "{checked}");
        checked
    };
    // Without a daemon there is no knowledge, and no fault.
    let silent = check(["--hosts", "n[1-3]"]);
    let unknown = "switch ports without LLDP (n[1-3])";
    assert!(silent.stdout.contains(unknown), "{silent}");
    let daemons = lab.announce();
    let heard = check(["--hosts", "n[1-3]"]);
    assert!(!heard.stdout.contains("switch ports"), "{heard}");
    assert!(!heard.stdout.contains("claimed"), "{heard}");
    // The host file names the port of another host.
    let wrong = check(["--hostfile", "/tmp/hosts"]);
    let claim = "claimed     leaf1 p1 by n[1-2]: ";
    assert!(wrong.stdout.contains(claim), "{wrong}");
    lab.shape_ingress(2, 60);
    tries::of_three(|| {
        let words = [
            "--hosts",
            "n[1-3]",
            "--link-speed",
            "100M",
            "--pattern",
            "rotate",
            "--time",
            "1s",
            "--json",
            "/tmp/record.json",
        ];
        let begun = run(&lab, &words);
        let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json")).expect("a record");
        let record = json::read(&text).expect("a record");
        assert_eq!(places(&record), ["leaf1 p1", "leaf1 p2", "leaf1 p3"]);
        should!(begun.code() == Some(1), "{begun}");
        let blame = "n2 receive (switch port leaf1 p2): ";
        should!(begun.stdout.contains(blame), "{begun}");
        let next = "Next: move n2's cable from leaf1 p2 to another port, then run ";
        should!(begun.stdout.contains(next), "{begun}");
        Ok(())
    });
    let made = run(&lab, &["init", "--hosts", "n[1-3]", "/tmp/plan.toml"]);
    assert_eq!(made.code(), Some(0), "{made}");
    let plan = std::fs::read_to_string(lab.path(0, "/tmp/plan.toml")).expect("a plan");
    for host in lab.test_hosts() {
        let table = format!("name = \"n{host}\"\nswitch = \"leaf1\"\nswitchport = \"p{host}\"\n");
        assert!(plan.contains(&table), "{plan}");
    }
    drop(daemons);
    for host in lab.test_hosts() {
        lab.expect_no_survivors(host, "lldpd", Duration::from_secs(10));
        lab.expect_no_survivors(host, "pb-", Duration::from_secs(10));
    }
}
