//! Tests the whole program between hosts with their own namespaces and real sshd. No host has the executable, one
//! lacks OpenSSL's libraries, and the run starts from a host outside the run.

use std::fs;
use std::time::Duration;

use crate::lab::{Finished, Lab, LabOptions, wait_until};
use pipebench::internals::record::{HeldBy, Record, VerdictWord};
use pipebench::internals::report::figures::Figures;
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(90);

fn raise() -> Lab {
    Lab::raise(LabOptions {
        without_openssl: Some(2),
        congestion: Some("reno"),
        ..LabOptions::default()
    })
}

/// Runs pipebench on the launching host, which writes the record there; reads the record back from outside.
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

/// Expects no process, no name in shared memory and no file but the cached executable.
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
    let test = &record.tests()[0];
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
            .all(|host| host.rails[0].interface.as_deref() == Some("eth0"))
    );
    expect_clean(&lab);

    // The second run finds the executable in the cache and copies nothing; it must be as sound.
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
    assert!(record.tests()[0].links.iter().all(|link| link.blocks == 20));
    expect_clean(&lab);
}

/// Checks a shaped port: its links sum to the shaped rate, and exactly they limit. Returns the mismatch, if any.
fn shaped_port_fault(lab: &Lab) -> Option<String> {
    let words = [
        "--hosts", "n1,n2,n3", "--phases", "3", "--time", "8s", "--warmup", "2s",
    ];
    let (finished, record) = run(lab, &words);
    let finished = finished.expect_success();
    let record = record.expect("a record");
    expect_sound(&record, 3, 3);
    let test = &record.tests()[0];
    let figures = Figures::of(&record, test);
    // 1448 bytes of payload in a frame that the bucket counts as 1514 bytes.
    let left_for_payload = 0.2 * 1448.0 / 1514.0;
    let ratio = figures.ports[1].receive_gbit_per_s / left_for_payload;
    if !(0.97..=1.03).contains(&ratio) {
        return Some(format!("{ratio} of what the shaping leaves\n{finished}"));
    }
    let crossing = test.links.iter().filter(|link| link.crosses_switch);
    let wrong: Vec<_> = crossing
        .filter(|link| (link.held_by == HeldBy::Limiting) != (link.lane.to == 1))
        .collect();
    if !wrong.is_empty() {
        return Some(format!("{wrong:?}\n{finished}"));
    }
    // With three phases, a port sends back all that it receives, so the result cannot show the direction.
    let (port, ..) = figures.weakest().expect("ports");
    assert_eq!(port.label, "n2");
    assert!(
        finished.stdout.contains("4 of 12 links limit"),
        "{finished}"
    );
    None
}

#[test]
fn a_port_shaped_to_200_mbit_is_filled_and_its_links_are_the_limiting_ones() {
    // No other port may be a limit.
    let lab = Lab::raise(LabOptions {
        mbit: None,
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    lab.shape_ingress(2, 200);
    // If neighbours of a virtual machine take its cores for a moment, shaper and links starve alike. Such a
    // moment must not last for three runs.
    let mut faults = Vec::new();
    while let Some(fault) = shaped_port_fault(&lab) {
        faults.push(fault);
        assert!(faults.len() < 3, "{}", faults.join("\n"));
    }
    expect_clean(&lab);
}

#[test]
fn the_plain_command_of_the_readme_measures_ten_seconds() {
    let lab = raise();
    let (finished, record) = run(&lab, &["--hosts", "n1,n2,n3", "--phases", "3"]);
    let finished = finished.expect_success();
    let record = record.expect("a record");
    expect_sound(&record, 3, 3);
    let test = &record.tests()[0];
    assert_eq!(test.window_ns, Some(10_000_000_000));
    // The machine determines the skew; pipebench must measure and report it.
    assert!(test.skew_ns.is_some(), "{finished}");
    assert!(finished.stdout.contains("; skew "), "{finished}");
    assert!(test.seconds.len() >= 8);
    expect_clean(&lab);
}

#[test]
fn the_launching_host_may_be_in_the_list_and_needs_no_ssh_to_itself() {
    let lab = raise();
    let own = lab.run(0, &["hostname"], DEADLINE).stdout.trim().to_owned();
    let hosts = format!("{own},n1,n3");
    let words = [
        "--hosts",
        &hosts,
        "--time",
        "1s",
        "--interface",
        "eth0",
        "--rate",
        "100M",
    ];
    let (finished, record) = run(&lab, &words);
    finished.expect_success();
    let record = record.expect("a record");
    let transports: Vec<&str> = record
        .hosts
        .iter()
        .map(|host| host.transport.as_str())
        .collect();
    assert_eq!(transports, ["local", "ssh2", "ssh2"]);
    expect_sound(&record, 3, 2);
    expect_clean(&lab);
}

#[test]
fn data_may_run_over_another_network_than_ssh() {
    let lab = raise();
    for host in lab.test_hosts() {
        let ipv6 = "echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6";
        lab.run(host, &["sh", "-c", ipv6], DEADLINE)
            .expect_success();
        let v4 = format!("10.199.0.{host}/24");
        let v6 = format!("fd77::{host}/64");
        lab.run(host, &["ip", "addr", "add", &v4, "dev", "eth0"], DEADLINE)
            .expect_success();
        lab.run(
            host,
            &["ip", "-6", "addr", "add", &v6, "dev", "eth0", "nodad"],
            DEADLINE,
        )
        .expect_success();
    }
    for (network, start) in [("10.199.0.0/24", "10.199.0."), ("fd77::/64", "fd77::")] {
        let words = [
            "--hosts",
            "n1,n2,n3",
            "--buffers",
            "20",
            "--data-network",
            network,
        ];
        let (finished, record) = run(&lab, &[&words[..], &["--port-range", "5201-5204"]].concat());
        finished.expect_success();
        let record = record.expect("a record");
        expect_sound(&record, 3, 2);
        for host in &record.hosts {
            let address = host.rails[0].address.to_string();
            assert!(address.starts_with(start), "{address}");
        }
    }
    let (finished, _) = run(
        &lab,
        &["--hosts", "n1,n2", "--data-network", "192.0.2.0/24"],
    );
    assert_eq!(finished.code(), Some(12), "{finished}");
    let expected = "pipebench: n1: no address in --data-network 192.0.2.0/24 (it has lo ";
    assert!(finished.stderr.contains(expected), "{finished}");
    expect_clean(&lab);
}

#[test]
fn a_jump_host_makes_the_run_go_on_over_the_openssh_client_with_one_line() {
    let lab = raise();
    let config = "Host n3\n  ProxyJump n1\n";
    std::fs::write(lab.path(0, "/root/.ssh/config"), config).expect("written");
    let words = ["--hosts", "n1,n2,n3", "--buffers", "20"];
    let (finished, record) = run(&lab, &words);
    let finished = finished.expect_success();
    let record = record.expect("a record");
    expect_sound(&record, 3, 2);
    let transports: Vec<&str> = record
        .hosts
        .iter()
        .map(|host| host.transport.as_str())
        .collect();
    assert_eq!(transports, ["ssh2", "ssh2", "openssh"]);
    let lines: Vec<&str> = finished
        .stderr
        .lines()
        .filter(|line| line.contains("OpenSSH client"))
        .collect();
    assert_eq!(lines.len(), 1, "{finished}");
    assert!(
        lines[0].starts_with("n3: ") && lines[0].contains("n1"),
        "{finished}"
    );
    expect_clean(&lab);
}

#[test]
fn another_build_in_the_cache_is_replaced_and_not_started() {
    let lab = raise();
    let words = ["--hosts", "n1,n2", "--buffers", "2"];
    run(&lab, &words).0.expect_success();
    // The copy keeps its name and size, but its content no longer matches its name.
    let folder = lab.path(1, "/root/.cache/pipebench");
    let copy = std::fs::read_dir(&folder)
        .expect("a cache")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.metadata().is_ok_and(|meta| meta.len() > 1_000_000))
        .expect("a copy");
    let mut bytes = std::fs::read(&copy).expect("readable");
    let text = b"pipebench-node ";
    let at = bytes
        .windows(text.len())
        .position(|part| part == text)
        .expect("the name of its build");
    bytes[at] = b'P';
    std::fs::write(&copy, bytes).expect("written");
    run(&lab, &words).0.expect_success();
    let own = std::fs::read(env!("CARGO_BIN_EXE_pipebench-node")).expect("readable");
    assert!(
        std::fs::read(&copy).expect("readable") == own,
        "the copy is whole again"
    );
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
    let (finished, _) = run(&lab, &["--hosts", "n1,n3", "--deadline", "connect=8s"]);
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
            "connect=8s",
            "--folder",
            "/tmp/runs",
        ],
    );
    assert_eq!(finished.code(), Some(10), "{finished}");
    // Which links stand is a result.
    let runs = fs::read_dir(lab.path(0, "/tmp/runs")).expect("a folder of runs");
    assert_eq!(runs.count(), 1);
    let mut lines = finished.stderr.lines();
    let first = lines.find(|line| line.starts_with("pipebench: "));
    let first = first.unwrap_or_default();
    assert!(
        first.contains("n1->n3") || first.contains("n3->n1"),
        "{finished}"
    );
    assert!(first.contains("timed out"), "{finished}");
    assert!(
        first.contains("does a firewall drop it? --port-range"),
        "{finished}"
    );
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
    running.wait_for_line("   2 s of ", DEADLINE);
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
    assert!(!record.tests()[0].complete);
    assert!(
        record.tests()[0]
            .links
            .iter()
            .any(|link| link.received_bytes > 0)
    );
    for host in [1, 3] {
        lab.expect_no_survivors(host, "pipebench", Duration::from_secs(15));
    }
}

/// A host's file system at /mnt, on a disk that writes slowly and has almost no cache.
struct SlowDisk {
    /// Device number of the block device, such as `7:0`.
    number: String,
}

impl SlowDisk {
    const THROTTLE: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

    fn mount(lab: &Lab, host: usize, bytes_per_s: u32) -> Self {
        let script = "truncate -s 200M /tmp/disk && mkfs.ext4 -q /tmp/disk && mount -o loop /tmp/disk /mnt && rm /tmp/disk && lsblk -no MAJ:MIN $(findmnt -no SOURCE /mnt)";
        let mounted = lab.run(host, &["sh", "-c", script], DEADLINE);
        let disk = Self {
            number: mounted.expect_success().stdout.trim().to_owned(),
        };
        disk.set("strict_limit", "1");
        disk.set("max_bytes", "4194304");
        disk.hold(bytes_per_s);
        disk
    }

    fn set(&self, what: &str, value: &str) {
        let path = format!("/sys/class/bdi/{}/{what}", self.number);
        std::fs::write(&path, value).unwrap_or_else(|why| panic!("{path}: {why}"));
    }

    fn hold(&self, bytes_per_s: u32) {
        let line = format!("{} {bytes_per_s}", self.number);
        std::fs::write(Self::THROTTLE, line).expect("the disk can be slowed down");
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.hold(0);
        self.set("max_ratio", "100");
        self.set("strict_limit", "0");
    }
}

#[test]
fn a_slow_disk_at_the_sink_is_named_and_none_of_its_partners() {
    let lab = raise();
    for host in lab.test_hosts() {
        lab.shape_egress(host, 200);
        lab.shape_ingress(host, 200);
    }
    for host in [1, 3] {
        lab.run(host, &["mount", "-t", "tmpfs", "tmpfs", "/mnt"], DEADLINE)
            .expect_success();
    }
    let disk = SlowDisk::mount(&lab, 2, 4_000_000);
    let words = ["--hosts", "n1,n2,n3", "--link-speed", "200M"];
    let sink = ["--time", "4s", "--sink", "/mnt/copy"];
    let (finished, record) = run(&lab, &[&words[..], &sink].concat());
    drop(disk);
    let record = record.expect("a record");
    assert_eq!(record.verdict.word, VerdictWord::HostLimited, "{finished}");
    let reason = &record.verdict.reason;
    assert!(reason.contains("Mbit/s to "), "{finished}");
    assert!(
        !reason.contains("n1") && !reason.contains("n3"),
        "{finished}"
    );
    assert!(record.sheet.faults.is_empty(), "{finished}");
    expect_clean(&lab);
}

#[test]
fn a_disk_that_fills_at_the_sink_is_named_and_keeps_nothing() {
    let lab = raise();
    let small = "mount -t tmpfs -o size=2m tmpfs /mnt";
    lab.run(2, &["sh", "-c", small], DEADLINE).expect_success();
    let words = [
        "--hosts",
        "n1,n2",
        "--buffers",
        "100",
        "--sink",
        "/mnt/copy",
    ];
    // n1 has no small disk at /mnt and writes the blocks it receives into its own tmpfs.
    lab.run(1, &["sh", "-c", "mount -t tmpfs tmpfs /mnt"], DEADLINE)
        .expect_success();
    let (finished, record) = run(&lab, &words);
    assert_eq!(finished.code(), Some(12), "{finished}");
    let first = finished
        .stderr
        .lines()
        .find(|line| line.starts_with("pipebench:"));
    let expected = "pipebench: n2: phase 1: cannot write sink /mnt/copy: no space left on device";
    assert_eq!(first, Some(expected), "{finished}");
    assert!(!record.expect("a record").tests()[0].complete);
    for host in [1, 2] {
        let left = lab.run(host, &["ls", "-A", "/mnt"], DEADLINE).stdout;
        assert_eq!(left, "", "n{host}");
    }
    expect_clean(&lab);
}

/// A stopped process cannot answer: the other processes detect the loss independently, on both sides.
#[test]
fn a_stopped_node_is_lost_by_name_and_nothing_of_it_stays() {
    let lab = raise();
    let words = [
        PIPEBENCH,
        "--hosts",
        "n1,n2,n3",
        "--phases",
        "3",
        "--time",
        "60s",
        "--rate",
        "50M",
        "--deadline",
        "silence=6s",
    ];
    let running = lab.spawn(0, &words);
    running.wait_for_line("   1 s of ", DEADLINE);
    let nodes = lab.survivors(2, "pb-node");
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    let pid = nodes[0].pid;
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("stopped");
    let finished = running.finish(DEADLINE);
    assert_eq!(finished.code(), Some(20), "{finished}");
    let mut errors = finished
        .stderr
        .lines()
        .filter(|line| line.starts_with("pipebench:"));
    let first = errors.next().unwrap_or_default();
    assert!(
        first.starts_with("pipebench: n2: lost: silent for 6 s"),
        "{finished}"
    );
    expect_clean(&lab);
}

#[test]
fn a_launcher_that_is_killed_or_stopped_leaves_nothing_behind() {
    for signal in [
        nix::sys::signal::Signal::SIGKILL,
        nix::sys::signal::Signal::SIGSTOP,
    ] {
        let lab = raise();
        let words = [
            PIPEBENCH, "--hosts", "n1,n2,n3", "--phases", "3", "--time", "60s", "--rate", "50M",
        ];
        let running = lab.spawn(0, &words);
        running.wait_for_line("   1 s of ", DEADLINE);
        assert!(!lab.survivors(1, "pb-").is_empty() || !lab.survivors(1, "pipebench").is_empty());
        running.signal(signal);
        wait_until("every node has ended", Duration::from_secs(25), || {
            lab.test_hosts()
                .all(|host| lab.survivors(host, "pipebench").is_empty())
        });
        if signal == nix::sys::signal::Signal::SIGSTOP {
            running.signal(nix::sys::signal::Signal::SIGCONT);
            let finished = running.finish(DEADLINE);
            let (errors, why) = (&finished.stderr, "the launching side was silent for 10 s");
            let first = errors.lines().find(|line| line.starts_with("pipebench:"));
            assert!(first.is_some_and(|line| line.ends_with(why)), "{finished}");
            assert_eq!(finished.code(), Some(20), "{finished}");
        } else {
            drop(running);
        }
        expect_clean(&lab);
    }
}
