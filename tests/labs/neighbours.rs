//! Tests foreign traffic on the ports of a run: `check` reports it beforehand, no port gets the blame, and a test is repeated
//! once the traffic is gone.

use std::time::Duration;

use crate::lab::{Lab, LabOptions, Running};
use crate::tries::{self, should};
use pipebench::internals::record::{Record, VerdictWord};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(120);
const WORDS: [&str; 4] = ["--hosts", "n1,n2,n3", "--link-speed", "200M"];

/// Raises three hosts with ports of 200 Mbit/s, and a fourth host outside the run.
fn raise() -> Lab {
    let lab = Lab::raise(LabOptions {
        hosts: 4,
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    for host in lab.test_hosts() {
        lab.shape_egress(host, 200);
        lab.shape_ingress(host, 200);
    }
    lab
}

/// Makes the fourth host send 40 Mbit/s to the first one for `seconds`.
fn sends(lab: &Lab, udp: bool, seconds: u32) -> (Running, Running) {
    let kind = if udp { "DGRAM" } else { "STREAM" };
    let sink = format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_{kind})\ns.bind(('0.0.0.0', 9999))\n\
         {}\nprint('up', flush=True)\n{}\nwhile True: c.recv(1 << 16)",
        if udp { "c = s" } else { "s.listen()" },
        if udp { "" } else { "c, _ = s.accept()" },
    );
    let sink = lab.spawn(1, &["python3", "-c", &sink]);
    sink.wait_for_line("up", DEADLINE);
    let source = format!(
        "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_{kind})\ns.connect(('10.77.0.1', 9999))\n\
         print('up', flush=True)\nfirst = time.monotonic()\nsent = 0\nwhile sent < {seconds} * 5_000_000:\n  \
         sent += s.send(bytes(1400))\n  time.sleep(max(0, first + sent / 5_000_000 - time.monotonic()))"
    );
    let source = lab.spawn(4, &["python3", "-c", &source]);
    source.wait_for_line("up", DEADLINE);
    (sink, source)
}

fn rotate(lab: &Lab) -> (String, Record) {
    let mut all = vec![PIPEBENCH, "--json", "/tmp/record.json"];
    all.extend(WORDS);
    all.extend(["--pattern", "rotate", "--time", "2s"]);
    let finished = lab.run(0, &all, DEADLINE);
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json")).expect("a record");
    (finished.to_string(), json::read(&text).expect("a record"))
}

#[test]
fn a_neighbours_traffic_is_told_before_and_fails_nobody() {
    let lab = raise();
    for udp in [true, false] {
        tries::of_three(|| {
            let traffic = sends(&lab, udp, 600);
            let mut check = vec![PIPEBENCH, "check"];
            check.extend(WORDS);
            let checked = lab.run(0, &check, DEADLINE);
            let busy = checked.stdout.lines().find_map(|line| {
                let figure = line.strip_prefix("busy")?.trim();
                let figure = figure.strip_prefix("n1 eth0 received ")?;
                figure.split(' ').next()?.parse::<f64>().ok()
            });
            should!(
                busy.is_some_and(|mbit| (35.0..45.0).contains(&mbit)),
                "{checked}"
            );
            let (said, record) = rotate(&lab);
            drop(traffic);
            assert_ne!(record.verdict.word, VerdictWord::Fail, "udp {udp}: {said}");
            should!(
                record.verdict.word == VerdictWord::Undecided,
                "udp {udp}: {said}"
            );
            let reason = &record.verdict.reason;
            should!(
                reason.starts_with("n1 receive: ") && reason.contains("other traffic took "),
                "udp {udp}: {said}"
            );
            Ok(())
        });
    }
    let (said, record) = rotate(&lab);
    assert_eq!(record.verdict.word, VerdictWord::Pass, "{said}");
}

/// The traffic ends during the first test. The run repeats that test and judges the repeat instead.
#[test]
fn traffic_that_ends_during_a_run_is_no_reason_to_judge_less() {
    let lab = raise();
    tries::of_three(|| {
        let traffic = sends(&lab, true, 6);
        let (said, record) = rotate(&lab);
        drop(traffic);
        should!(record.tests().len() > 2, "{said}");
        should!(record.verdict.word == VerdictWord::Pass, "{said}");
        Ok(())
    });
}
