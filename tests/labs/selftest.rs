//! Tests the lab itself: the properties that the other lab tests rely on.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::lab::{Lab, LabOptions, build_folder, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SHORT: Duration = Duration::from_secs(20);

#[test]
fn every_host_is_reached_by_name_with_known_keys() {
    let lab = Lab::raise(LabOptions::default());
    for host in lab.test_hosts() {
        let name = Lab::name(host);
        for target in [name.clone(), lab.address(host).to_string()] {
            let words = [
                "ssh",
                "-o",
                "StrictHostKeyChecking=yes",
                "-o",
                "BatchMode=yes",
            ];
            let finished = lab.run(0, &[&words[..], &[&target, "hostname"]].concat(), SHORT);
            assert_eq!(finished.expect_success().stdout.trim(), name);
        }
    }
    let known = fs::read_to_string(lab.path(0, "/root/.ssh/known_hosts")).expect("it is there");
    assert!(known.contains("|1|"), "no line is hashed:\n{known}");
    assert!(known.contains("n2,10."), "no line is plain:\n{known}");
    assert!(!known.contains("n1,"), "n1 is not hashed:\n{known}");

    let stranger = lab.run(0, &["ssh", "-o", "BatchMode=yes", "nowhere", "true"], SHORT);
    assert_eq!(stranger.code(), Some(255), "{stranger}");
}

#[test]
fn hosts_share_no_files_names_or_processes() {
    let lab = Lab::raise(LabOptions::default());
    for host in 0..=3 {
        for folder in ["/root", "/tmp", "/var/tmp", "/dev/shm", "/run"] {
            let file = format!("{folder}/of_host");
            let write = format!("test ! -e {file} && hostname > {file}");
            lab.run(host, &["sh", "-c", &write], SHORT).expect_success();
        }
    }
    for host in 0..=3 {
        let name = Lab::name(host);
        let text = fs::read_to_string(lab.path(host, "/tmp/of_host")).expect("written above");
        assert_eq!(text.trim(), name);
        let found = ["/dev/shm", "/run", "/tmp", "/var/tmp"].map(|at| format!("{at}/of_host"));
        assert_eq!(lab.leftovers(host), found);
        assert_eq!(
            lab.run(host, &["sh", "-c", "echo $HOME $PWD; id -un"], SHORT)
                .stdout,
            "/root /root\nroot\n"
        );
        let links = lab
            .run(host, &["ls", "/sys/class/net"], SHORT)
            .expect_success();
        assert!(links.stdout.contains("eth0"), "{links}");
    }

    let sleeper = lab.spawn(1, &["sleep", "1234"]);
    // During exec, the arguments of a process read as empty for a moment.
    let started = || {
        let found = lab.survivors(1, "1234");
        found.len() == 1 && found[0].name == "sleep" && sleeper.pid() == Some(found[0].pid)
    };
    wait_until("the sleeper is seen", SHORT, started);
    assert!(lab.survivors(2, "sleep").is_empty());
    let seen = lab
        .run(2, &["ps", "-e", "-o", "args"], SHORT)
        .expect_success();
    assert!(!seen.stdout.contains("1234"), "{seen}");
    drop(sleeper);
    lab.expect_no_survivors(1, "sleep", SHORT);
}

#[test]
fn a_command_is_signalled_watched_and_ended_at_its_deadline() {
    let lab = Lab::raise(LabOptions {
        hosts: 1,
        ..LabOptions::default()
    });
    let script =
        "trap 'echo heard; exit 7' USR1; echo one; echo two >&2; while :; do sleep 0.05; done";
    let running = lab.spawn(1, &["bash", "-c", script]);
    assert_eq!(running.wait_for_line("on", SHORT), "one");
    assert_eq!(running.wait_for_line("tw", SHORT), "two");
    running.signal(Signal::SIGSTOP);
    let pid = running.pid().expect("it runs");
    let state = || {
        lab.processes(1)
            .into_iter()
            .find(|process| process.pid == pid)
    };
    wait_until("it stops", SHORT, || {
        state().is_some_and(|process| process.state == 'T')
    });
    running.signal(Signal::SIGCONT);
    // Not SIGINT: a shell that waits for a child sometimes loses it.
    running.signal(Signal::SIGUSR1);
    let finished = running.finish(SHORT);
    assert_eq!(finished.code(), Some(7), "{finished}");
    assert_eq!(finished.stdout, "one\nheard\n");

    let running = lab.spawn(1, &["sh", "-c", "kill -9 $$"]);
    assert_eq!(running.finish(SHORT).signal(), Some(9));

    let late = std::panic::AssertUnwindSafe(|| {
        lab.run(
            1,
            &["sh", "-c", "echo last words; sleep 1234; true"],
            Duration::from_secs(5),
        );
    });
    let panic = std::panic::catch_unwind(late).expect_err("the deadline has passed");
    let text = panic.downcast_ref::<String>().expect("a panic with a text");
    assert!(text.contains("last words"), "{text}");
    lab.expect_no_survivors(1, "1234", SHORT);

    // The host's first process reaps orphans.
    lab.run(1, &["sh", "-c", "sleep 0.2 >/dev/null 2>&1 &"], SHORT)
        .expect_success();
    lab.expect_no_survivors(1, "sleep", SHORT);
}

#[test]
fn what_is_built_is_seen_on_the_launching_host_alone() {
    let lab = Lab::raise(LabOptions {
        hosts: 2,
        ..LabOptions::default()
    });
    let folder = build_folder();
    let list = ["ls", &folder.to_string_lossy()];
    let seen = lab.run(0, &list, SHORT).expect_success();
    assert!(seen.stdout.contains("CACHEDIR.TAG"), "{seen}");
    for host in lab.test_hosts() {
        assert_eq!(lab.run(host, &list, SHORT).stdout, "");
        let over_ssh = lab.run(0, &["ssh", &Lab::name(host), "ls", list[1]], SHORT);
        assert_eq!(over_ssh.expect_success().stdout, "");
    }
}

#[test]
fn one_host_has_no_openssl_and_its_sshd_works() {
    let lab = Lab::raise(LabOptions {
        hosts: 2,
        without_openssl: Some(2),
        ..LabOptions::default()
    });
    let find = "ls /lib/*/ /usr/lib/*/ /usr/lib | grep -c -e '^libcrypto[.]so' -e '^libssl[.]so'";
    let usual = lab.run(0, &["ssh", "n1", find], SHORT).expect_success();
    assert_ne!(usual.stdout.trim(), "0");
    let bare = lab.run(0, &["ssh", "n2", find], SHORT);
    assert_eq!(bare.stdout.trim(), "0", "{bare}");
    // ssh itself links against libcrypto and exists on both hosts.
    lab.run(0, &["ssh", "n1", "ssh -V"], SHORT).expect_success();
    let broken = lab.run(0, &["ssh", "n2", "echo $LD_LIBRARY_PATH; ssh -V"], SHORT);
    assert_eq!(broken.code(), Some(127), "{broken}");
    assert_eq!(broken.stdout.trim(), "", "{broken}");
    assert!(broken.stderr.contains("libcrypto.so"), "{broken}");
}

#[test]
fn a_shaped_port_slows_what_passes_it() {
    let lab = Lab::raise(LabOptions {
        hosts: 2,
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    let algorithm = "cat /proc/sys/net/ipv4/tcp_congestion_control";
    assert_eq!(
        lab.run(0, &["ssh", "n1", algorithm], SHORT).stdout.trim(),
        "reno"
    );

    // 8 MiB at 40 Mbit/s take 1.6 s; with bursts subtracted, at least 1.3 s.
    let pull = |host: &str| {
        let from = Instant::now();
        lab.run(
            0,
            &[
                "sh",
                "-c",
                &format!("ssh {host} head -c 8388608 /dev/zero | wc -c"),
            ],
            SHORT,
        )
        .expect_success();
        from.elapsed()
    };
    let slow = Duration::from_millis(1300);
    let (received_before, sent_before) = lab.interface_bytes(1);
    lab.shape_egress(1, 40);
    assert!(pull("n1") > slow);
    let (received, sent) = lab.interface_bytes(1);
    assert!(sent - sent_before > 8 << 20, "{sent}");
    assert!(received - received_before < 1 << 20, "{received}");
    lab.unshape(1);
    lab.shape_ingress(0, 40);
    assert!(pull("n1") > slow);
    assert!(pull("n2") > slow);
}

#[test]
fn a_blocked_pair_is_silent_and_others_are_not() {
    let lab = Lab::raise(LabOptions::default());
    let reach = |host: &str| {
        let argv = [
            "ssh",
            "-o",
            "ConnectTimeout=2",
            "-o",
            "BatchMode=yes",
            host,
            "true",
        ];
        lab.run(0, &argv, SHORT)
    };
    reach("n2").expect_success();
    lab.block(0, 2);
    let blocked = reach("n2");
    assert!(blocked.stderr.contains("timed out"), "{blocked}");
    reach("n1").expect_success();
    lab.unblock(0, 2);
    reach("n2").expect_success();

    lab.block(2, 0);
    let unanswered = reach("n2");
    assert!(unanswered.stderr.contains("timed out"), "{unanswered}");

    lab.link_down(1);
    assert_eq!(reach("n1").code(), Some(255));
    lab.link_up(1);
    wait_until("n1 is back", SHORT, || reach("n1").status.success());
}

#[test]
fn a_killed_host_takes_everything_with_it_in_silence() {
    let lab = Lab::raise(LabOptions::default());
    let alive = ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2"];
    let script = "echo here; exec sleep 1234";
    let session = lab.spawn(0, &[&["ssh"], &alive[..], &["n3", script]].concat());
    session.wait_for_line("here", SHORT);
    let on_host = lab.spawn(3, &["sleep", "4321"]);
    wait_until("both are seen", SHORT, || {
        lab.survivors(3, "sleep").len() == 2
    });

    lab.kill_host(3);
    assert!(lab.processes(3).is_empty());
    assert_eq!(on_host.finish(SHORT).signal(), Some(9));
    let finished = session.finish(SHORT);
    assert!(finished.stderr.contains("not responding"), "{finished}");
    lab.run(0, &["ssh", "n1", "true"], SHORT).expect_success();
}

#[test]
fn two_labs_stand_at_once_and_leave_nothing() {
    let one = Lab::raise(LabOptions::default());
    let two = Lab::raise(LabOptions {
        hosts: 1,
        ..LabOptions::default()
    });
    fs::write(one.path(1, "/tmp/of_lab"), "one").expect("n1 has a /tmp");
    assert!(!two.path(1, "/tmp/of_lab").exists());
    let spaces = network_spaces(&one);
    assert_eq!(spaces.len(), 4);
    assert!(spaces.iter().any(|space| held(space)));
    let links = fs::read_to_string("/proc/net/dev").expect("it is there");
    assert!(
        !links.contains("p1:") && !links.contains("br0:"),
        "outside its namespaces: {links}"
    );

    drop(one);
    two.run(0, &["ssh", "n1", "true"], SHORT).expect_success();
    assert!(!spaces.iter().any(|space| held(space)), "{spaces:?}");
    let others = network_spaces(&two);
    drop(two);
    assert!(!others.iter().any(|space| held(space)), "{others:?}");
    // A lab that another test raises at the same time has a folder for a moment.
    wait_until("no folder is left", SHORT, || my_folders().is_empty());
}

/// This function plays both roles: the test and, if the variable is set, the process to be killed.
#[test]
fn a_killed_test_leaves_nothing() {
    const OWNER: &str = "LAB_SELFTEST_IS_OWNER";
    if std::env::var_os(OWNER).is_some() {
        let lab = Lab::raise(LabOptions {
            hosts: 1,
            ..LabOptions::default()
        });
        let _sleeper = lab.spawn(1, &["sleep", "1234"]);
        let spaces = network_spaces(&lab).join(" ");
        fs::write(std::env::var_os(OWNER).expect("seen above"), spaces + "\n").expect("a file");
        std::thread::sleep(Duration::from_secs(60));
        panic!("nobody killed this process");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let told = folder.path().join("spaces");
    let mut owner = std::process::Command::new(std::env::current_exe().expect("a test has one"))
        .args(["--exact", "selftest::a_killed_test_leaves_nothing"])
        .env(OWNER, &told)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a test starts");
    let text = || fs::read_to_string(&told).unwrap_or_default();
    wait_until("the lab stands", SHORT, || text().ends_with('\n'));
    let pid = i32::try_from(owner.id()).expect("a process id fits");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    owner.wait().expect("it was started here");
    assert_eq!(text().split_whitespace().count(), 2);
    wait_until("nothing of the lab is left", SHORT, || {
        !text().split_whitespace().any(held)
    });
}

/// The network namespaces of a lab's hosts, as the kernel names them.
fn network_spaces(lab: &Lab) -> Vec<String> {
    std::iter::once(0)
        .chain(lab.test_hosts())
        .map(|host| {
            let first = lab.path(host, "/proc/1/ns/net");
            let space = fs::read_link(first).expect("the host stands");
            space.to_string_lossy().into_owned()
        })
        .collect()
}

/// True if any process of the machine is in that network namespace.
fn held(space: &str) -> bool {
    fs::read_dir("/proc")
        .expect("it is there")
        .flatten()
        .any(|entry| {
            fs::read_link(entry.path().join("ns/net")).is_ok_and(|link| link == Path::new(space))
        })
}

fn my_folders() -> Vec<String> {
    let mine = format!("switchlab-{}-", std::process::id());
    fs::read_dir(std::env::temp_dir())
        .expect("it is there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(&mine))
        .collect()
}
