//! Tests commands on runs between hosts: a machine outside the run lists, watches and ends them, and messages name busy
//! hosts by their labels.

use std::time::Duration;

use crate::lab::{Finished, Lab, LabOptions, Running, wait_until};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(90);

fn raise() -> Lab {
    Lab::raise(LabOptions {
        congestion: Some("reno"),
        ..LabOptions::default()
    })
}

fn ask(lab: &Lab, words: &[&str]) -> Finished {
    lab.run(0, &[&[PIPEBENCH], words].concat(), DEADLINE)
}

/// Puts the executable on a host where every user can run it. Only n0 has it at first.
fn carry(lab: &Lab, host: usize) {
    let carried = lab.path(host, CARRIED);
    std::fs::copy(PIPEBENCH, &carried).expect("copied");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&carried, all).expect("a mode");
}

const CARRIED: &str = "/tmp/pipebench";

/// Starts a run from n0 over three hosts.
fn start(lab: &Lab) -> Running {
    let words = [
        PIPEBENCH, "--hosts", "n1,n2,n3", "--phases", "2", "--time", "60s", "--rate", "40M",
    ];
    let running = lab.spawn(0, &words);
    running.wait_for_line("   1 s of ", DEADLINE);
    running
}

fn expect_clean(lab: &Lab) {
    for host in lab.test_hosts() {
        lab.expect_no_survivors(host, "pb-", Duration::from_secs(15));
    }
}

#[test]
fn a_run_on_three_hosts_is_listed_watched_and_ended_by_somebody_else() {
    let lab = raise();
    let idle = ask(&lab, &["status", "n[1-3]"]).expect_success();
    assert_eq!(idle.stdout, "no runs on n[1-3]\n", "{idle}");
    let running = start(&lab);

    let seen = ask(&lab, &["status", "n[1-3]"]).expect_success();
    let lines: Vec<&str> = seen.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{seen}");
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let run = words(lines[1])[1].clone();
    for (line, host) in lines[1..].iter().zip(["n1", "n2", "n3"]) {
        let row = words(line);
        assert_eq!((row[0].as_str(), &row[1]), (host, &run), "{seen}");
        assert_eq!(row[2], "root@n0", "{seen}");
        assert_eq!(row.last().map(String::as_str), Some("running"), "{seen}");
        // The row shows two links of 40 Mbit/s each way.
        let rate: f64 = row[row.len() - 4].parse().expect("a rate in");
        assert!(rate > 0.0, "{seen}");
    }

    carry(&lab, 2);
    carry(&lab, 3);
    // `watch` on one of the hosts shows that host's part and names the hosts of the rest.
    let part = lab.run(2, &[CARRIED, "watch", &run, "--count", "1"], DEADLINE);
    let part = part.expect_success();
    let elsewhere = format!(
        "1 of 3 nodes are watched, n[1,3] not (name the missing hosts: pipebench watch {run} HOSTS)"
    );
    assert!(part.stdout.contains(&elsewhere), "{part}");
    let whole = ask(&lab, &["watch", &run[..4], "n[1-3]", "--count", "2"]).expect_success();
    let last = whole.stdout.rsplit("\n\n").next().unwrap_or_default();
    assert!(
        last.starts_with(&format!("run {run} by root@n0, ")),
        "{whole}"
    );
    for part in [
        "\nn1 ",
        "\nn2 ",
        "\nn3 ",
        "\nn1->n3 phase 0->1 ",
        "\nslowest links ",
    ] {
        assert!(last.contains(part), "{part}: {whole}");
    }
    assert!(!last.contains("nodes are watched"), "{whole}");

    // A host other than the launching one ends the run, named by its first digits.
    let ended = lab.run(3, &[CARRIED, "status", "--end", &run[..4]], DEADLINE);
    let ended = ended.expect_success();
    assert_eq!(
        ended.stdout,
        format!("ended run {run} on local\n"),
        "{ended}"
    );
    let finished = running.finish(DEADLINE);
    assert_eq!(finished.code(), Some(20), "{finished}");
    let mut errors = finished
        .stderr
        .lines()
        .filter(|line| line.starts_with("pipebench:"));
    let first = errors.next().unwrap_or_default();
    assert_eq!(
        first, "pipebench: n3: node status process: ended by 'pipebench status --end'",
        "{finished}"
    );
    expect_clean(&lab);
    let idle = ask(&lab, &["status", "n[1-3]"]).expect_success();
    assert_eq!(idle.stdout, "no runs on n[1-3]\n", "{idle}");
}

#[test]
fn a_busy_host_is_named_and_hosts_that_are_not_there_are_told_apart() {
    let lab = raise();
    carry(&lab, 2);
    let words = [
        CARRIED, "--hosts", "local:2", "--phases", "2", "--time", "60s", "--rate", "40M",
    ];
    let running = lab.spawn(2, &words);
    running.wait_for_line("   1 s of 61 s", DEADLINE);
    let busy = ask(&lab, &["--hosts", "n1,n2,n3", "--time", "1s"]);
    assert_eq!(busy.code(), Some(12), "{busy}");
    let mut errors = busy
        .stderr
        .lines()
        .filter(|line| line.starts_with("pipebench:"));
    let first = errors.next().unwrap_or_default();
    assert!(first.starts_with("pipebench: n2: busy: run "), "{busy}");
    assert!(first.contains(" by root@n2 since "), "{busy}");
    assert_eq!(errors.next(), None, "{busy}");

    // The run continues untouched, and the other hosts are free.
    lab.link_down(3);
    let seen = ask(&lab, &["status", "n[1-3]", "--deadline", "connect=8s"]);
    assert_eq!(seen.code(), Some(10), "{seen}");
    let lines: Vec<&str> = seen.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{seen}");
    assert!(
        lines[1].starts_with("n2 ") && lines[1].ends_with("running"),
        "{seen}"
    );
    assert_eq!(lines[2], "no runs on n1", "{seen}");
    let errors: Vec<&str> = seen.stderr.lines().collect();
    assert_eq!(errors.len(), 1, "{seen}");
    assert!(
        errors[0].starts_with("pipebench: n3: cannot connect"),
        "{seen}"
    );

    let run = lines[1]
        .split_whitespace()
        .nth(1)
        .expect("a token")
        .to_owned();
    let ended = ask(&lab, &["status", "n[1-2]", "--end", &run]).expect_success();
    assert_eq!(ended.stdout, format!("ended run {run} on n2\n"), "{ended}");
    assert_eq!(running.finish(DEADLINE).code(), Some(20));
    let free = ask(&lab, &["--hosts", "n1,n2", "--buffers", "5"]);
    free.expect_success();
    wait_until("every host is clean", Duration::from_secs(20), || {
        lab.test_hosts()
            .all(|host| lab.survivors(host, "pb-").is_empty())
    });
}

/// Another user's run keeps the host busy for every user. Others can list that run but not end it.
#[test]
fn a_run_of_another_user_is_listed_and_cannot_be_ended() {
    let lab = raise();
    carry(&lab, 1);
    let running = start(&lab);
    let as_nobody = |words: &[&str]| {
        let mut all = vec![
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "env",
        ];
        all.extend(["HOME=/tmp", "USER=nobody", CARRIED]);
        all.extend(words);
        lab.run(1, &all, DEADLINE)
    };
    let seen = as_nobody(&["status"]);
    let row = seen.stdout.lines().nth(1).unwrap_or_default().to_owned();
    assert!(
        row.starts_with("local  ") && row.ends_with("another user's"),
        "{seen}"
    );
    assert!(row.contains(" root "), "{seen}");
    let run = row.split_whitespace().nth(1).expect("a token").to_owned();
    let refused = as_nobody(&["status", "--end", &run]);
    assert_eq!(refused.code(), Some(12), "{refused}");
    assert_eq!(
        refused.stderr,
        format!("pipebench: local: cannot end run {run}: not permitted\n"),
        "{refused}"
    );
    let refused = as_nobody(&["watch", &run, "--count", "1"]);
    assert_eq!(refused.code(), Some(12), "{refused}");
    // The process that holds the host answers every user.
    let busy = as_nobody(&["--hosts", "local", "--time", "1s", "--quiet"]);
    assert_eq!(busy.code(), Some(12), "{busy}");
    assert!(
        busy.stderr.contains(&format!(
            "busy: user root holds this host and says: run {run} by root@n0 since "
        )),
        "{busy}"
    );
    let ended = lab.run(1, &[CARRIED, "status", "--end", &run], DEADLINE);
    ended.expect_success();
    assert_eq!(running.finish(DEADLINE).code(), Some(20));
    expect_clean(&lab);
}
