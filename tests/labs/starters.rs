//! Tests commands that sites have for starting a program on many hosts, over real sshd: they start nodes that join.

use std::fs;
use std::time::Duration;

use crate::lab::{Lab, LabOptions};
use pipebench::internals::report::json;

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn clush_pdsh_and_mpiexec_start_nodes_that_join() {
    let lab = Lab::raise(LabOptions {
        hosts: 3,
        ..LabOptions::default()
    });
    // All hosts see this folder, as they see a home that they share.
    let shared = tempfile::tempdir_in("/var").expect("a folder");
    let at = |name: &str| shared.path().join(name).to_string_lossy().into_owned();
    let own = at("pipebench");
    fs::copy(env!("CARGO_BIN_EXE_pipebench"), &own).expect("copied");
    let (token, result) = (at("token"), at("run.json"));
    let by_file = ["--token-file", &token];
    for (starter, token) in [
        ("clush -w %H", &[][..]),
        ("pdsh -R ssh -w %H", &by_file[..]),
        ("mpiexec.hydra -hosts %H -n %N", &by_file[..]),
    ] {
        let words = [&own, "--hosts", "n[1-3]", "--starter", starter];
        let short = "--phases 2 --time 1s --rate 100M --json".split(' ');
        let short: Vec<&str> = short.chain([result.as_str()]).collect();
        let finished = lab.run(0, &[&words[..], token, &short].concat(), DEADLINE);
        assert_eq!(finished.code(), Some(0), "{starter}: {finished}");
        let text = fs::read_to_string(&result).expect("a record");
        let record = json::read(&text).expect("a record");
        let came: Vec<(&str, &str)> = record
            .hosts
            .iter()
            .map(|host| (host.node.as_str(), host.transport.as_str()))
            .collect();
        let joined = ["n1", "n2", "n3"].map(|name| (name, "join"));
        assert_eq!(came, joined, "{starter}");
        assert!(
            !shared.path().join("token").exists(),
            "{starter}: the token file is left"
        );
        for host in lab.test_hosts() {
            lab.expect_no_survivors(host, "pb-", DEADLINE);
            lab.expect_no_survivors(host, "pipebench", DEADLINE);
        }
    }
}
