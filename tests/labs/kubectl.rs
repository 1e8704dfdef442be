//! Tests hosts that are reached by `kubectl exec`, with a stand-in that takes kubectl's words and no others.

use std::fs;
use std::time::Duration;

use crate::lab::{Lab, LabOptions};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const KUBECTL: &str = include_str!("kubectl.sh");
const DEADLINE: Duration = Duration::from_secs(90);

/// A lab whose launching host has the stand-in as `/tmp/kubectl`.
fn raise() -> Lab {
    let lab = Lab::raise(LabOptions::default());
    fs::write(lab.path(0, "/tmp/kubectl"), KUBECTL).expect("written");
    lab.run(0, &["chmod", "755", "/tmp/kubectl"], DEADLINE)
        .expect_success();
    lab
}

#[test]
fn pods_run_over_kubectl_exec_with_and_without_namespace_and_container() {
    let lab = raise();
    for (command, namespace, container) in [
        ("/tmp/kubectl exec -i %h --", "default", "first"),
        (
            "/tmp/kubectl exec --stdin -n bench %h -c main --",
            "bench",
            "main",
        ),
        (
            "/tmp/kubectl --namespace=bench exec %h -i --container=main --",
            "bench",
            "main",
        ),
    ] {
        let words = [
            PIPEBENCH, "--hosts", "n[1-3]", "--rsh", command, "--phases", "2",
        ];
        let words = [
            &words[..],
            &["--buffers", "20", "--json", "/tmp/record.json"],
        ]
        .concat();
        lab.run(0, &words, DEADLINE).expect_success();
        let text = fs::read_to_string(lab.path(0, "/tmp/record.json")).expect("a record");
        let record = json::read(&text).expect("a record");
        assert!(record.hosts.iter().all(|host| host.transport == "rsh"));
        let test = &record.tests()[0];
        assert!(test.complete && test.links.len() == 9, "{command}");
        assert!(test.links.iter().all(|link| link.blocks == 20), "{command}");

        let pods = lab.path(0, "/tmp/pods");
        let reached = fs::read_to_string(&pods).expect("the stand-in's notes");
        fs::remove_file(&pods).expect("removed");
        let mut reached: Vec<&str> = reached.lines().collect();
        reached.sort_unstable();
        let pod = |host: usize| format!("{namespace} n{host} {container}");
        assert_eq!(reached, [pod(1), pod(2), pod(3)]);
        for host in lab.test_hosts() {
            lab.expect_no_survivors(host, "pb-", Duration::from_secs(10));
        }
    }
}

/// This read "the host's shell ended with status 0 before it answered", without a cure.
#[test]
fn kubectl_exec_that_passes_no_input_on_is_named_with_its_option() {
    let lab = raise();
    for (command, error) in [
        (
            "/tmp/kubectl exec %h --",
            "ended with status 0 before it answered (does the command of --rsh pass standard input on? kubectl exec needs -i)",
        ),
        (
            "/tmp/kubectl exec -it %h --",
            "ended with status 1 before it answered: error: a terminal changes the bytes that pass",
        ),
    ] {
        let words = [PIPEBENCH, "--hosts", "n[1-2]", "--rsh", command];
        let finished = lab.run(0, &words, DEADLINE);
        assert_eq!(finished.code(), Some(10), "{finished}");
        let first = finished
            .stderr
            .lines()
            .find(|line| line.starts_with("pipebench: "));
        let first = first.unwrap_or_else(|| panic!("no error: {finished}"));
        assert!(
            first.starts_with("pipebench: n[1-2]: ") && first.ends_with(error),
            "{finished}"
        );
    }
}
