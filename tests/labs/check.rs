//! Tests `pipebench check` between hosts of the lab: differing settings, an MTU other than the required one, an unreachable host,
//! a cable that flaps, and offloads that are off.

use std::time::{Duration, Instant};

use crate::lab::{Finished, Lab, LabOptions};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(90);

fn check(lab: &Lab, words: &[&str]) -> Finished {
    let mut all = vec![PIPEBENCH, "check", "--quiet"];
    all.extend(words);
    lab.run(0, &all, DEADLINE)
}

#[test]
fn a_preflight_names_what_stands_in_the_way() {
    let lab = Lab::raise(LabOptions {
        hosts: 4,
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    let ready = check(&lab, &["--hosts", "n[1-4]"]);
    assert_eq!(ready.code(), Some(0), "{ready}");
    assert!(
        ready.stdout.starts_with(
            "READY  4 hosts, 12 links between them: all connected, and each passed a full packet"
        ),
        "{ready}"
    );
    assert!(
        ready.stdout.contains("counters    no errors at 4 ports"),
        "{ready}"
    );
    assert!(ready.stdout.contains("; driver veth; MTU 1500"), "{ready}");
    // The lab's cables have no driver that counts these.
    let unseen = ready
        .stdout
        .lines()
        .find(|line| line.starts_with("unavailable "));
    let unseen = unseen.unwrap_or_else(|| panic!("{ready}"));
    assert!(
        unseen.contains("uncorrectable FEC blocks (n[1-4]), pause frames sent (n[1-4]), pause frames received (n[1-4])"),
        "{ready}"
    );
    // The check judges no required rate or loss: only a run can. The lab's cables are far faster than this.
    let began = Instant::now();
    let ordered = [
        "--link-speed",
        "100M",
        "--min-rate",
        "90M",
        "--fabric",
        "non-blocking",
    ];
    let words = [&["--hosts", "n[1-4]"], &ordered[..]].concat();
    let ready = check(&lab, &words);
    assert_eq!(ready.code(), Some(0), "{ready}");
    assert!(ready.stdout.starts_with("READY  4 hosts"), "{ready}");
    assert!(!ready.stderr.contains("retesting suspects"), "{ready}");
    assert!(began.elapsed() < Duration::from_secs(20), "{ready}");
    // One host has another default congestion control.
    lab.run(
        2,
        &["sysctl", "-qw", "net.ipv4.tcp_congestion_control=bbr"],
        DEADLINE,
    );
    let differs = check(&lab, &["--hosts", "n[1-4]"]);
    assert!(
        differs.stdout.contains(", but hosts differ in one thing\n"),
        "{differs}"
    );
    assert!(
        differs
            .stdout
            .contains("differs     congestion control: n[1,3-4] reno"),
        "{differs}"
    );
    assert!(differs.stdout.contains("; n2 bbr <- odd"), "{differs}");
    // The MTU is not the required one.
    let ordered = check(&lab, &["--hosts", "n[1-4]", "--mtu", "9000"]);
    assert_eq!(ordered.code(), Some(1), "{ordered}");
    assert!(
        ordered.stdout.starts_with("FAIL  4 ports not as specified"),
        "{ordered}"
    );
    assert!(
        ordered
            .stdout
            .contains("FAIL        n1 eth0 has MTU 1500, 9000 specified"),
        "{ordered}"
    );
    // One host is unreachable.
    lab.link_down(3);
    let missing = check(&lab, &["--hosts", "n[1-4]", "--deadline", "connect=8s"]);
    assert_eq!(missing.code(), Some(10), "{missing}");
    assert!(
        missing.stdout.starts_with("NOT READY  3 of 4 hosts"),
        "{missing}"
    );
    assert!(missing.stdout.contains("missing     n3: "), "{missing}");
    lab.link_up(3);
    // The check reports the cable that flaps and no other.
    for _ in 0..8 {
        lab.link_down(2);
        lab.link_up(2);
    }
    let flaps = check(&lab, &["--hosts", "n[1-4]"]);
    let told = flaps.stdout.lines().find(|line| line.starts_with("flaps"));
    let told = told.unwrap_or_else(|| panic!("{flaps}"));
    assert!(
        told.contains("n2 eth0: its link went up or down"),
        "{flaps}"
    );
    assert_eq!(flaps.stdout.matches("flaps").count(), 1, "{flaps}");
    for host in lab.test_hosts() {
        lab.expect_no_survivors(host, "pb-", Duration::from_secs(10));
    }
}

/// What `ethtool -K` does to an offload: the number of the command, and its name there.
const TURN_OFF: &str = "
import array, fcntl, socket, struct
for command in 0x1f, 0x24, 0x2c:  # tso, gso, gro
    words = array.array('I', [command, 0])
    request = struct.pack('16sP16x', b'eth0', words.buffer_info()[0])
    fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, request)
";

/// Virtual cables have GRO off from the start, and neither rings nor coalescing: that is no warning.
#[test]
fn offloads_that_are_off_are_named_with_the_command_that_mends_them() {
    let lab = Lab::raise(LabOptions {
        hosts: 3,
        ..LabOptions::default()
    });
    let lines = |finished: &Finished, name: &str| -> Vec<String> {
        let lines = finished.stdout.lines();
        let own = lines.filter_map(|line| line.strip_prefix(name));
        own.map(|line| line.trim().to_owned()).collect()
    };
    let sound = check(&lab, &["--hosts", "n[1-3]"]);
    assert_eq!(sound.code(), Some(0), "{sound}");
    assert_eq!(lines(&sound, "costs "), [""; 0], "{sound}");
    let cards = lines(&sound, "card ");
    assert_eq!(cards.len(), 1, "{sound}");
    assert!(
        cards[0].starts_with("n[1-3] eth0: on tx tso gso; "),
        "{sound}"
    );
    assert!(cards[0].contains("largest packet sent 64 KiB"), "{sound}");
    assert!(!cards[0].contains("rings"), "{sound}");
    lab.run(2, &["python3", "-c", TURN_OFF], DEADLINE)
        .expect_success();
    let costly = check(&lab, &["--hosts", "n[1-3]"]);
    assert_eq!(costly.code(), Some(0), "{costly}");
    let line = "n2 eth0: TSO and GSO are off (as root: ethtool -K eth0 tso on gso on)";
    assert_eq!(lines(&costly, "costs "), [line], "{costly}");
    assert_eq!(lines(&costly, "card ").len(), 2, "{costly}");
}
