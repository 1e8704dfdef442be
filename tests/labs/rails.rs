//! Tests several data interfaces per host, interface counters against payload, and paths that drop large packets.

use std::time::Duration;

use crate::lab::{Finished, Lab, LabOptions};
use crate::tries::{self, should};
use pipebench::internals::record::{Record, VerdictWord, WireKind};
use pipebench::internals::report::figures::{Direction, Figures};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(90);

fn raise(hosts: usize, mtu: u32) -> Lab {
    Lab::raise(LabOptions {
        hosts,
        mtu,
        mbit: Some(100),
        congestion: Some("reno"),
        ..LabOptions::default()
    })
}

/// Raises hosts with two ports of 100 Mbit/s each; the second port of the second host receives only `less_mbit` Mbit/s.
fn two_rails(hosts: usize, less_mbit: u32) -> Lab {
    let lab = raise(hosts, 1500);
    lab.add_rail(false);
    lab.shape_second_ingress(2, less_mbit);
    lab
}

fn run(lab: &Lab, words: &[&str]) -> (Finished, Record) {
    let mut all = vec![PIPEBENCH, "--json", "/tmp/record.json"];
    all.extend(words);
    let finished = lab.run(0, &all, DEADLINE);
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json")).expect("a record");
    (finished, json::read(&text).expect("a record"))
}

fn sh(lab: &Lab, host: usize, script: &str) {
    lab.run(host, &["sh", "-ec", script], DEADLINE)
        .expect_success();
}

#[test]
fn two_rails_have_links_ports_and_rows_of_their_own() {
    let lab = two_rails(3, 15);
    let words = [
        "--hosts",
        "n1,n2,n3",
        "--interface",
        "eth0,eth1",
        "--time",
        "4s",
        "--warmup",
        "2s",
    ];
    let (finished, record) = run(&lab, &words);
    let finished = finished.expect_success();
    let test = &record.tests()[0];
    assert_eq!(test.links.len(), 3 * 3 * 2);
    assert_eq!(test.conservation.agreeing, test.links.len());
    assert_eq!(test.wires, [], "{finished}");
    assert!(
        finished.stdout.contains("interface counters agree"),
        "{finished}"
    );
    let figures = Figures::of(&record, test);
    let labels: Vec<&str> = figures
        .ports
        .iter()
        .map(|port| port.label.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "n1 eth0", "n1 eth1", "n2 eth0", "n2 eth1", "n3 eth0", "n3 eth1"
        ]
    );
    let (weakest, direction, _) = figures.weakest().expect("ports");
    assert_eq!(
        (weakest.label.as_str(), direction),
        ("n2 eth1", Direction::Receive)
    );
    for row in ["n1 eth0 ", "n2 eth1 ", "n3 eth1 "] {
        assert!(
            finished.stdout.lines().any(|line| line.starts_with(row)),
            "{finished}"
        );
    }
    // Each interface counts the payload of its rail and little more.
    for (node, measured) in test.nodes.iter().enumerate() {
        let measured = measured.as_ref().expect("reported");
        for (rail, name) in ["eth0", "eth1"].into_iter().enumerate() {
            let mine = test.links.iter().filter(|link| {
                link.crosses_switch && link.lane.to == node && link.lane.stream == rail
            });
            let payload: u64 = mine.map(|link| link.received_bytes).sum();
            let counters = measured.interfaces.iter().find(|(other, _)| other == name);
            let counted = counters.expect("counted").1.received_bytes;
            assert!(
                counted >= payload && counted < payload * 12 / 10,
                "{name}: {counted} {payload}"
            );
        }
    }
}

/// A second look at two hosts loads all of their rails; still the slow port gets the blame, and no other.
#[test]
fn a_slow_port_of_a_second_rail_is_blamed() {
    tries::of_three(|| {
        let lab = two_rails(4, 50);
        let words = [
            "--hosts",
            "n1,n2,n3,n4",
            "--interface",
            "eth0,eth1",
            "--link-speed",
            "100M",
            "--time",
            "4s",
            "--warmup",
            "1s",
        ];
        let (finished, record) = run(&lab, &words);
        should!(record.verdict.word == VerdictWord::Fail, "{finished}");
        should!(
            record.verdict.reason.starts_with("n2 eth1 receive: "),
            "{finished}"
        );
        assert_eq!(record.exit_code, 1, "{finished}");
        should!(record.sheet.faults.len() == 1, "{finished}");
        Ok(())
    });
}

#[test]
fn two_rails_in_one_network_are_told_as_wrong_route_and_arp_flux() {
    let lab = raise(2, 1500);
    lab.add_rail(true);
    // Otherwise both interfaces would answer ARP for both addresses, and the first answer would be random.
    sh(&lab, 2, "ip link set eth1 arp off");
    let data = "n1 data=10.77.0.1,10.77.0.101\nn2 data=10.77.0.2,10.77.0.102\n";
    std::fs::write(lab.path(0, "/root/hosts"), data).expect("written");
    let words = ["--hostfile", "/root/hosts", "--buffers", "200"];
    let (finished, record) = run(&lab, &words);
    let finished = finished.expect_success();
    let kinds: Vec<&WireKind> = record.tests()[0]
        .wires
        .iter()
        .map(|one| &one.kind)
        .collect();
    let by = Some("eth0".to_owned());
    assert!(
        kinds.contains(&&WireKind::WrongRoute { by: by.clone() }),
        "{kinds:?}\n{finished}"
    );
    assert!(
        kinds.contains(&&WireKind::ArpFlux { by }),
        "{kinds:?}\n{finished}"
    );
    let starts = |start: &str| finished.stdout.lines().any(|line| line.starts_with(start));
    assert!(starts("wrong route n1 eth1 (10.77.0.101): "), "{finished}");
    assert!(starts("ARP flux    n2 eth1 (10.77.0.102): "), "{finished}");
}

#[test]
fn members_below_a_data_interface_are_counted_apart() {
    let lab = raise(2, 1500);
    lab.add_rail(false);
    sh(
        &lab,
        1,
        "ip link add data type bridge forward_delay 0; ip addr del 10.77.0.1/24 dev eth0
         ip link set eth0 master data; ip link set eth1 master data
         ip addr add 10.77.0.1/24 dev data; ip link set data up",
    );
    // Both switches form one network now, in which the second interface would answer for the first.
    sh(&lab, 2, "ip link set eth1 down");
    let words = ["--hosts", "n1,n2", "--buffers", "200"];
    let (finished, record) = run(&lab, &words);
    let finished = finished.expect_success();
    let test = &record.tests()[0];
    assert_eq!(test.wires, [], "{finished}");
    let interfaces = &test.nodes[0].as_ref().expect("reported").interfaces;
    let sent = |name: &str| {
        let found = interfaces.iter().find(|(other, _)| other == name);
        found.expect("counted").1.sent_bytes
    };
    let payload = test
        .links
        .iter()
        .find(|link| link.lane.from == 0 && link.lane.to == 1);
    let payload = payload.expect("a link").sent_bytes;
    assert!(sent("data") > payload && sent("eth0") > payload && sent("eth1") < payload / 100);
    assert!(
        finished.stdout.contains(
            "members     n1 data: sent eth0 100 %, eth1 0 %; received eth0 100 %, eth1 0 %"
        ),
        "{finished}"
    );
}

#[test]
fn foreign_traffic_is_told_from_one_per_cent_on() {
    let lab = raise(2, 1500);
    for host in lab.test_hosts() {
        lab.shape_ingress(host, 200);
    }
    let sink = "import socket\ns = socket.create_server(('0.0.0.0', 9999))\nprint('up', flush=True)\nc, _ = s.accept()\nwhile c.recv(1 << 20): pass";
    let server = lab.spawn(2, &["python3", "-c", sink]);
    server.wait_for_line("up", DEADLINE);
    let source = "import socket\nc = socket.create_connection(('10.77.0.2', 9999))\nwhile True: c.sendall(bytes(1 << 16))";
    let client = lab.spawn(1, &["python3", "-c", source]);
    let (finished, record) = run(&lab, &["--hosts", "n1,n2", "--time", "3s"]);
    let finished = finished.expect_success();
    drop((client, server));
    let wires = &record.tests()[0].wires;
    let of = |node: &str| {
        wires
            .iter()
            .filter(|one| one.node == node)
            .collect::<Vec<_>>()
    };
    assert!(
        matches!(of("n1")[..], [one] if matches!(one.kind, WireKind::ForeignSent { .. })),
        "{wires:?}"
    );
    assert!(
        matches!(of("n2")[..], [one] if matches!(one.kind, WireKind::ForeignReceived { .. })),
        "{wires:?}"
    );
    assert!(
        finished
            .stdout
            .contains("% of the bytes it received were other traffic"),
        "{finished}"
    );
}

#[test]
fn a_path_that_swallows_large_packets_is_named_with_what_passes() {
    let lab = raise(3, 9000);
    lab.set_switch_mtu(2, 1500);
    // The launching host must reach all hosts.
    sh(&lab, 0, "ip link set eth0 mtu 1500");
    let words = ["--hosts", "n1,n2,n3", "--buffers", "20"];
    let (finished, record) = run(&lab, &words);
    assert_eq!(finished.code(), Some(10), "{finished}");
    // Packets from and to n2 must not be larger; n1 and n3 have no conflict. The message names the host that detects it first.
    let lines: Vec<&str> = finished
        .stderr
        .lines()
        .filter(|line| line.contains("passes"))
        .collect();
    assert!(!lines.is_empty(), "{finished}");
    for line in lines {
        assert!(
            line.contains("->n2: ") || line.contains(" n2->"),
            "{finished}"
        );
        let words = "passes 1500, not 9000 (the path drops larger packets: check the MTU of its switches and tunnels; \
                     --mss 1460 avoids such packets)";
        assert!(line.ends_with(words), "{finished}");
    }
    assert_eq!(record.verdict.word.to_string(), "INVALID");
    // The cure in the message works.
    let (finished, _) = run(&lab, &[&words[..], &["--mss", "1460"]].concat());
    finished.expect_success();
}

/// The search finds the exact MTU, not the nearest of a list of common sizes.
#[test]
fn the_mtu_of_a_path_that_swallows_packets_is_found_to_the_byte() {
    let lab = raise(2, 1500);
    lab.set_switch_mtu(2, 1003);
    sh(&lab, 0, "ip link set eth0 mtu 1003");
    let (finished, _) = run(&lab, &["--hosts", "n1,n2", "--buffers", "20"]);
    assert_eq!(finished.code(), Some(10), "{finished}");
    assert!(
        finished.stderr.contains("passes 1003, not 1500 ("),
        "{finished}"
    );
}

#[test]
fn a_path_that_is_known_to_be_narrower_is_told() {
    let lab = raise(2, 1500);
    sh(
        &lab,
        1,
        "ip route change 10.77.0.0/24 dev eth0 src 10.77.0.1 mtu 1400",
    );
    let (finished, record) = run(&lab, &["--hosts", "n1,n2", "--buffers", "20"]);
    let finished = finished.expect_success();
    assert!(
        finished
            .stdout
            .contains("note: path MTU: n1->n2 passes 1400, not 1500\n"),
        "{finished}"
    );
    let link = record.tests()[0]
        .links
        .iter()
        .find(|link| link.lane.from == 0 && link.lane.to == 1);
    let (_, last) = link.and_then(|link| link.tcp).expect("an account");
    assert_eq!((last.path_mtu_bytes, last.mss_bytes), (1400, 1348));
}

/// Another machine answers for a host's address, or two hosts of a run share an address: the run reports both before a link connects.
#[test]
fn an_address_of_two_machines_is_named_and_not_a_refused_connection() {
    let lab = raise(4, 1500);
    lab.add_rail(false);
    let words = ["--hosts", "n1,n2,n3", "--data-network", "10.78.0.0/24"];
    let short = [&words[..], &["--phases", "2", "--time", "1s"]].concat();
    let before = run(&lab, &short);
    assert_eq!(before.0.code(), Some(0), "{}", before.0);
    // The fourth host is outside the run and is the only host that answers.
    sh(&lab, 4, "ip addr add 10.78.0.2/24 dev eth1");
    sh(&lab, 2, "ip link set eth1 arp off");
    for host in [1, 3] {
        sh(&lab, host, "ip neigh flush dev eth1");
    }
    let said = "two machines have data address 10.78.0.2: n2 has it on eth1 (";
    let (ran, record) = run(&lab, &short);
    assert_eq!(ran.code(), Some(12), "{ran}");
    assert!(ran.stderr.contains(said), "{ran}");
    assert!(
        ran.stderr
            .contains("gets its answer from another machine ("),
        "{ran}"
    );
    assert!(!ran.stderr.contains("refused"), "{ran}");
    assert_eq!(record.troubles[0].node, "n2", "{:?}", record.troubles);
    let check = [&[PIPEBENCH, "check"], &words[..]].concat();
    let checked = lab.run(0, &check, DEADLINE);
    assert_ne!(checked.code(), Some(0), "{checked}");
    let line = format!("missing     n2: {said}");
    assert!(checked.stdout.contains(&line), "{checked}");
    // Another host of the run owns the same address.
    sh(&lab, 2, "ip link set eth1 arp on");
    sh(
        &lab,
        3,
        "ip addr del 10.78.0.3/24 dev eth1; ip addr add 10.78.0.2/24 dev eth1",
    );
    let said = "n3: data address 10.78.0.2 also belongs to n2: give one of them another address";
    let (ran, _) = run(&lab, &short);
    assert!(ran.stderr.contains(said), "{ran}");
    let checked = lab.run(0, &check, DEADLINE);
    assert!(checked.stdout.contains(said), "{checked}");
}
