//! The whole program on one machine: the process table of a held run, the descriptors of each process, every
//! process killed in turn, endings, files. Counts, order and exit codes; never speed.

mod tries;
mod whole;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pipebench::internals::record::Record;
use pipebench::internals::report::json;
use tries::should;
use whole::{
    Ended, PIPEBENCH, Process, Run, SOON, alone, below, expect_gone, pause, run, segments,
};

fn descriptors(pid: i32) -> BTreeMap<i32, String> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
    folder
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some((
                number,
                fs::read_link(entry.path()).ok()?.display().to_string(),
            ))
        })
        .collect()
}

fn record_of(words: &[&str]) -> Record {
    let output = run(&[words, &["--json", "-", "--quiet"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    json::read(&text).unwrap_or_else(|error| {
        panic!(
            "{error}: {text} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    })
}

/// Processes of a node as docs/dev/architecture.md has them; --dry-run must say the same.
fn processes_per_node(
    (nodes, phases, streams): (usize, usize, usize),
    path: &str,
    workers: &str,
) -> usize {
    let serving = match (path, workers) {
        ("copy", "peer") => 2 * nodes * streams * (phases - 1),
        ("copy", "slot") | ("zerocopy", "peer") => nodes * streams * phases,
        _ => phases,
    };
    1 + phases + serving
}

#[test]
fn the_process_table_of_a_held_run_is_the_formula() {
    for (nodes, phases) in [(1, 2), (1, 3), (3, 3), (4, 4)] {
        for path in ["copy", "zerocopy"] {
            expect_table(nodes, phases, path, "peer");
        }
        expect_table(nodes, phases, "copy", "slot");
    }
    for path in ["copy", "zerocopy"] {
        expect_table(2, 4, path, "shared");
    }
}

fn expect_table(nodes: usize, phases: usize, path: &str, workers: &str) {
    let (hosts, number) = (format!("local:{nodes}"), phases.to_string());
    let mut words = vec!["--hosts", &hosts, "--phases", &number];
    words.extend(["--datapath", path, "--workers", workers]);
    let all = nodes * processes_per_node((nodes, phases, 1), path, workers);
    let plan = run(&[&words[..], &["--dry-run"]].concat());
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(plan.contains(&format!("{all} in all")), "{all}: {plan}");
    let held = Run::held(&[&words[..], &["--time", "1s"]].concat());
    let tree = held.tree();
    assert_eq!(
        tree.len(),
        all,
        "{nodes} {phases} {path} {workers}: {tree:#?}"
    );
    let count = |start: &str| {
        let named = |process: &&Process| process.name.starts_with(start);
        tree.iter().filter(named).count()
    };
    assert_eq!(count("pb-node"), nodes);
    assert_eq!(count("pb-phase-"), nodes * phases);
    let each = match workers {
        "shared" => nodes,
        _ => nodes * nodes,
    };
    let passing = match (path, workers) {
        ("copy", "peer") => 0,
        _ => phases - 2,
    };
    assert_eq!(count("pb-relay-"), each * passing);
    assert_eq!(count("pb-send-"), each * (phases - 1 - passing));
    assert_eq!(count("pb-recv-"), each * (phases - 1 - passing));
    drop(held);
    expect_gone("after the launching side was killed", &tree);
}

#[test]
fn the_formula_holds_with_several_streams() {
    let words = ["--hosts", "local:2", "--phases", "3", "--streams", "3"];
    let held = Run::held(&[&words[..], &["--time", "1s", "--workers", "peer"]].concat());
    let all = 2 * processes_per_node((2, 3, 3), "copy", "peer");
    assert_eq!(held.tree().len(), all);
}

#[test]
fn every_process_has_its_own_descriptors_and_no_other() {
    for (path, workers) in [("copy", "peer"), ("copy", "slot"), ("zerocopy", "peer")] {
        expect_own_descriptors(path, workers);
    }
}

fn expect_own_descriptors(path: &str, workers: &str) {
    let words = ["--hosts", "local:3", "--phases", "3", "--datapath", path];
    let words = [&words[..], &["--workers", workers]].concat();
    let mut held = Run::held(&[&words[..], &["--time", "300ms"]].concat());
    let tree = held.tree();
    for process in &tree {
        let open = descriptors(process.pid);
        let is = |what: &str| {
            open.values()
                .filter(|target| target.starts_with(what))
                .count()
        };
        let links = process.name.starts_with("pb-send-") || process.name.starts_with("pb-recv-");
        if links {
            assert_eq!(is("/dev/null"), 3, "{process:?} {open:?}");
            assert_eq!(is("socket:"), 1, "{process:?} {open:?}");
            assert_eq!(is("pipe:"), 1, "{process:?} {open:?}");
            assert_eq!(open.len(), 5, "{process:?} {open:?}");
        } else if process.name.starts_with("pb-relay-") {
            assert_eq!(is("socket:"), 2, "{process:?} {open:?}");
            assert_eq!(is("pipe:"), 1, "{process:?} {open:?}");
            assert_eq!(open.len(), 6, "{process:?} {open:?}");
        } else if process.name.starts_with("pb-phase-") {
            assert_eq!(is("/dev/null"), 3, "{process:?} {open:?}");
            assert_eq!(is("pipe:"), 1, "{process:?} {open:?}");
            assert_eq!(is("socket:"), 0, "{process:?} {open:?}");
            assert_eq!(open.len(), 4, "{process:?} {open:?}");
        }
    }
    held.release();
    let Ended { code, errors, .. } = held.end("a held run", SOON);
    assert_eq!(code, Some(0), "{errors}");
    expect_gone("after the end", &tree);
}

#[test]
fn bytes_add_up_over_every_shape_and_transport() {
    let shapes: [&[&str]; 10] = [
        &["--hosts", "local", "--phases", "2"],
        &["--hosts", "local:1", "--phases", "3"],
        &["--hosts", "local:3", "--phases", "3"],
        &["--hosts", "local:2", "--phases", "4", "--streams", "2"],
        &[
            "--hosts",
            "local:3",
            "--phases",
            "3",
            "--coupling",
            "buffer",
        ],
        &[
            "--hosts",
            "local:2",
            "--phases",
            "2",
            "--coupling",
            "buffer",
        ],
        &["--hosts", "local:2", "--phases", "3", "--transport", "tcp"],
        &["--hosts", "local:2", "--phases", "3", "--transport", "unix"],
        &["--hosts", "local:2", "--phases", "2", "-6"],
        &[
            "--hosts",
            "local:2",
            "--phases",
            "3",
            "--block-size",
            "1000",
            "--port-range",
            "22000-22100",
        ],
    ];
    for shape in shapes {
        let record = record_of(&[shape, &["--buffers", "37"]].concat());
        assert_eq!(record.exit_code, 0, "{shape:?}: {:?}", record.troubles);
        let test = &record.tests()[0];
        assert!(
            test.complete && test.conservation.faults.is_empty(),
            "{shape:?}"
        );
        let block = record.plan.tests()[0].block_bytes as u64;
        for link in &test.links {
            assert_eq!(
                (link.blocks, link.received_bytes),
                (37, 37 * block),
                "{shape:?} {:?}",
                link.lane
            );
            assert_eq!(link.sent_bytes, link.received_bytes);
        }
        assert!(
            test.nodes
                .iter()
                .flatten()
                .all(|node| node.ring_to_ring_ns.is_some_and(|ns| ns > 0))
        );
        assert!(test.span_ns.is_some_and(|ns| ns > 0));
    }
}

#[test]
fn a_timed_run_counts_one_window_and_its_waits_fill_it() {
    for coupling in ["block", "buffer"] {
        let words = [
            "--hosts",
            "local:2",
            "--phases",
            "3",
            "--time",
            "1s",
            "--warmup",
            "200ms",
            "--coupling",
            coupling,
        ];
        tries::of_three(|| {
            let record = record_of(&words);
            assert_eq!(record.exit_code, 0, "{:?}", record.troubles);
            let test = &record.tests()[0];
            assert_eq!(test.window_ns, Some(1_000_000_000));
            assert!(test.skew_ns.is_some());
            for link in &test.links {
                let close = |ns: u64, of: u64| (0.97..1.03).contains(&(ns as f64 / of as f64));
                let waits = link.waits;
                should!(
                    (0.9e9..1.3e9).contains(&(link.interval_ns as f64)),
                    "{link:?}"
                );
                should!(
                    close(
                        waits.waiting_for_block_ns + waits.in_write_ns + waits.pacing_ns,
                        link.sender_interval_ns
                    ),
                    "{link:?}"
                );
                should!(
                    close(
                        waits.in_read_ns + waits.waiting_for_slot_ns,
                        link.interval_ns
                    ),
                    "{link:?}"
                );
                assert!(link.interval_bytes < link.received_bytes);
            }
            for node in test.nodes.iter().flatten() {
                assert!(
                    node.cpu.senders_ns > 0 && node.cpu.receivers_ns > 0,
                    "{node:?}"
                );
                assert!(
                    node.busiest_core
                        .is_some_and(|share| (0.0..=1.0).contains(&share))
                );
                // Its processes ran somewhere.
                let serving = node.serving_core.expect("a core that served links");
                assert!(serving.0 <= node.busiest_core.unwrap_or(0.0) && serving.0 > 0.0);
                assert!((0.0..=1.0).contains(&serving.1), "{serving:?}");
            }
            Ok(())
        });
    }
}

#[test]
fn a_rate_limit_holds_on_tcp_and_on_unix_sockets() {
    for transport in ["tcp", "unix"] {
        tries::of_three(|| {
            let record = record_of(&[
                "--hosts",
                "local:2",
                "--phases",
                "2",
                "--time",
                "2s",
                "--warmup",
                "500ms",
                "--rate",
                "80M",
                "--block-size",
                "32K",
                "--transport",
                transport,
            ]);
            for link in record.tests()[0]
                .links
                .iter()
                .filter(|link| !link.lane.is_own())
            {
                let mbit = link.interval_bytes as f64 * 8e3 / link.interval_ns as f64;
                should!((40.0..84.0).contains(&mbit), "{transport}: {mbit} Mbit/s");
            }
            Ok(())
        });
    }
}

#[test]
fn a_same_node_chain_does_not_run_ahead_of_the_others() {
    let record = record_of(&[
        "--hosts", "local:3", "--phases", "2", "--time", "1s", "--rate", "200M",
    ]);
    for lane in record.tests()[0]
        .links
        .iter()
        .filter(|link| link.lane.is_own())
    {
        let others: Vec<u64> = record.tests()[0]
            .links
            .iter()
            .filter(|link| link.lane.from == lane.lane.from && !link.lane.is_own())
            .map(|link| link.blocks)
            .collect();
        let mean = others.iter().sum::<u64>() / others.len() as u64;
        assert!(lane.blocks <= mean + 2, "{} of {others:?}", lane.blocks);
    }
}

/// Kills a process of a 3x3 run, any of them and at any time, each in a run of its own: what fails is named, the exit code says that the run is
/// void, and nothing is left. `PIPEBENCH_KILLS=200 cargo test --test single_host killed_at_any_time` tries as many as one likes.
#[test]
fn a_process_killed_at_any_time_is_named_and_nothing_is_left() {
    /// Warm-up, window, drain and reports of a run of a second.
    const LONGEST_MS: u64 = 1_300;
    let words =
        "--hosts local:3 --phases 3 --time 1s --warmup 100ms --rate 50M --quiet --workers peer";
    let words: Vec<&str> = words.split(' ').collect();
    let count = std::env::var("PIPEBENCH_KILLS").ok();
    let count: u64 = count.map_or(10, |count| count.parse().expect("a number"));
    let mut named = 0;
    for draw in 0..count {
        let mut random = numbers::random::Random::new(draw);
        let mut held = Run::held(&words);
        let mut tree = held.tree();
        assert_eq!(tree.len(), 48);
        tree.sort_by_key(|process| process.pid);
        let victim = tree[random.below(tree.len())].clone();
        let after_ms = random.below(usize::try_from(LONGEST_MS).expect("few")) as u64;
        let what = format!("draw {draw}: {victim:?} after {after_ms} ms");
        // One in five while everything stands still.
        if !draw.is_multiple_of(5) {
            held.release();
            let until = Instant::now() + Duration::from_millis(after_ms);
            while Instant::now() < until {
                pause();
            }
        }
        let killed = kill(Pid::from_raw(victim.pid), Signal::SIGKILL).is_ok();
        let Ended { code, errors, .. } = held.end("a held run", SOON);
        expect_gone(&what, &tree);
        // What had done its part by then may be gone before it is killed.
        if code == Some(0) && !draw.is_multiple_of(5) {
            continue;
        }
        assert!(killed && code == Some(20), "{what}: {code:?}: {errors}");
        let mut lines = errors.lines();
        let first = lines.find(|line| line.starts_with("pipebench:"));
        let first = first.unwrap_or_default();
        let is_named = match victim.name.get(..7) {
            Some("pb-node") => first.contains("node status process"),
            Some("pb-phas") => first.contains(&victim.name.replace("pb-phase-", "phase ")),
            Some("pb-send") => first.contains("sender"),
            _ => first.contains("receiver"),
        };
        assert!(is_named && first.contains("killed by"), "{what}: {errors}");
        named += 1;
    }
    eprintln!("{named} of {count} killed processes ended their run, and were named");
    assert!(named * 5 >= count * 4, "{named} of {count}");
    let until = Instant::now() + Duration::from_secs(5);
    while !segments().is_empty() && Instant::now() < until {
        pause();
    }
    assert_eq!(segments(), Vec::<String>::new());
}

#[test]
fn killed_relays_and_shared_workers_are_named_for_what_they_do() {
    let ways = [
        ("zerocopy", "peer", "pb-relay-1", "phase 1 relay local"),
        ("copy", "slot", "pb-relay-1", "phase 1 relay local"),
        ("copy", "shared", "pb-send-0", "phase 0 senders"),
        ("copy", "shared", "pb-recv-2", "phase 2 receivers"),
        ("copy", "shared", "pb-relay-1", "phase 1 relays"),
        ("zerocopy", "shared", "pb-relay-1", "phase 1 relays"),
    ];
    for (path, workers, name, told) in ways {
        let mut words = vec!["--hosts", "local:2", "--phases", "3", "--time", "30s"];
        words.extend([
            "--rate",
            "50M",
            "--quiet",
            "--datapath",
            path,
            "--workers",
            workers,
        ]);
        let mut held = Run::held(&words);
        let tree = held.tree();
        held.release();
        let victim = tree.iter().find(|process| process.name.starts_with(name));
        let victim = victim
            .unwrap_or_else(|| panic!("{name}: {tree:#?}"))
            .clone();
        kill(Pid::from_raw(victim.pid), Signal::SIGKILL).expect("killed");
        let Ended { code, errors, .. } = held.end("a held run", SOON);
        assert_eq!(code, Some(20), "{victim:?}: {errors}");
        let first = errors.lines().find(|line| line.starts_with("pipebench:"));
        let first = first.unwrap_or_default();
        assert!(first.contains("killed by"), "{victim:?}: {errors}");
        assert!(first.contains(told), "{victim:?}: {errors}");
        expect_gone(&format!("after {victim:?} was killed"), &tree);
    }
}

/// Asked to end, not killed: the phase is named, not the peers that lost it.
#[test]
fn a_phase_that_is_asked_to_end_is_named() {
    for coupling in ["block", "buffer"] {
        let held = Run::held(&[
            "--hosts",
            "local:2",
            "--phases",
            "3",
            "--coupling",
            coupling,
            "--time",
            "20s",
            "--quiet",
        ]);
        let tree = held.tree();
        let phase = tree
            .iter()
            .find(|process| process.name == "pb-phase-2")
            .expect("a phase");
        kill(Pid::from_raw(phase.pid), Signal::SIGTERM).expect("sent");
        let ended = held.end("a phase was asked to end", SOON);
        assert_eq!(ended.code, Some(20), "{}", ended.errors);
        let first = ended.first_line();
        assert!(first.ends_with("phase 2: ended by signal 15"), "{first}");
        expect_gone("after a phase was asked to end", &tree);
    }
}

/// Connections that say nothing must not keep the receivers from the senders.
#[test]
fn silent_connections_do_not_keep_a_run_from_starting() {
    let ports = 23220..23222_u16;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let silent = std::thread::spawn(move || {
        let mut open = Vec::new();
        while !stopped.load(std::sync::atomic::Ordering::SeqCst) && open.len() < 200 {
            let reached = ports
                .clone()
                .filter_map(|port| std::net::TcpStream::connect(("127.0.0.1", port)).ok());
            open.extend(reached);
        }
        while !stopped.load(std::sync::atomic::Ordering::SeqCst) {
            pause();
        }
        open.len()
    });
    let record = record_of(&[
        "--hosts",
        "local:2",
        "--phases",
        "2",
        "--buffers",
        "20",
        "--port-range",
        "23220-23221",
    ]);
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    silent.join().expect("ended");
    assert_eq!(record.exit_code, 0, "{:?}", record.troubles);
}

#[test]
fn a_killed_receiver_is_named_by_the_link_it_serves() {
    let held = Run::held(&[
        "--hosts", "local:3", "--phases", "2", "--time", "20s", "--quiet",
    ]);
    let tree = held.tree();
    let victim = tree.iter().find(|process| process.name == "pb-recv-1.1");
    let victim = victim.expect("a receiver");
    kill(Pid::from_raw(victim.pid), Signal::SIGKILL).expect("killed");
    let ended = held.end("a receiver was killed", SOON);
    let (first, errors) = (ended.first_line(), &ended.errors);
    // Slot 1 is the second node's, whatever lane the process was born for.
    assert!(first.contains("phase 1 receiver local2->local"), "{errors}");
    assert!(first.ends_with("killed by signal 9"), "{errors}");
}

#[test]
fn interrupt_and_termination_end_a_run_at_once_with_a_partial_record() {
    for (signal, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        alone::wait();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("record.json");
        // Who runs the tests under nohup has hangups ignored, and children have that from their parents.
        let mut child = Command::new("env")
            .args([
                "--default-signal=HUP",
                PIPEBENCH,
                "--hosts",
                "local:2",
                "--time",
                "60s",
                "--json",
                &path.display().to_string(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("   1 s") {
            line.clear();
            assert!(
                errors.read_line(&mut line).expect("readable") > 0,
                "ended early"
            );
        }
        let tree = below(i32::try_from(child.id()).expect("a process id"));
        kill(
            Pid::from_raw(i32::try_from(child.id()).expect("a process id")),
            signal,
        )
        .expect("sent");
        let mut rest = String::new();
        errors.read_to_string(&mut rest).expect("readable");
        let status = child.wait().expect("ended");
        assert_eq!(status.code(), Some(code), "{rest}");
        assert!(
            rest.lines()
                .any(|line| line == format!("pipebench: ended by {signal}")),
            "{rest}"
        );
        expect_gone("after the signal", &tree);
        let record = json::read(&fs::read_to_string(&path).expect("a record")).expect("a record");
        assert!(!record.tests()[0].complete);
        assert!(
            record.tests()[0]
                .links
                .iter()
                .any(|link| link.received_bytes > 0)
        );
    }
}

/// Symptom: Ctrl-C did not end a run that was writing its results.
#[test]
fn an_interrupt_ends_a_run_that_writes_its_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("table.csv");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe that nothing reads");
    let path = pipe.display().to_string();
    let words = [
        "--hosts", "local:2", "--time", "1s", "--csv", &path, "--quiet",
    ];
    let mut running = Run::start(&words);
    running.wait_until("it has nodes", |run| !run.tree().is_empty());
    running.wait_until("its nodes have ended", |run| run.tree().is_empty());
    // The first signals can come a moment before the results.
    for _ in 0..20 {
        kill(Pid::from_raw(running.pid()), Signal::SIGINT).expect("sent");
        pause();
    }
    let ended = running.end("writing was interrupted", SOON);
    assert_eq!(ended.code, None, "{}", ended.errors);
}

#[test]
fn results_go_where_they_are_asked_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let parent = folder.path().join("results");
    let csv = folder.path().join("table.csv");
    let words = ["--hosts", "local:2", "--phases", "3", "--buffers", "5"];
    let output = run(&[
        &words[..],
        &[
            "--output",
            &parent.display().to_string(),
            "--csv",
            &csv.display().to_string(),
        ],
    ]
    .concat());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let run_folder = fs::read_dir(&parent)
        .expect("made")
        .next()
        .expect("one")
        .expect("readable")
        .path();
    for name in ["record.json", "table.csv", "summary.txt"] {
        assert!(run_folder.join(name).is_file(), "{name}");
    }
    let table = fs::read_to_string(&csv).expect("written");
    assert_eq!(
        table
            .lines()
            .filter(|line| line.starts_with("link,"))
            .count(),
        8
    );
    assert_eq!(
        table
            .lines()
            .filter(|line| line.starts_with("port,"))
            .count(),
        4
    );

    let output = run(&[&words[..], &["--csv", "-"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with("row,test,node,"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("NOT JUDGED"));

    let full = fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("a full device");
    let mut command = Command::new(PIPEBENCH);
    command
        .args(words)
        .args(["--json", "-"])
        .stdin(Stdio::null())
        .stdout(full);
    let output = command.output().expect("runs");
    assert_eq!(output.status.code(), Some(30));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("pipebench: cannot write to standard output"),
        "{errors}"
    );

    let output = run(&[&words[..], &["--json", "/dev/full"]].concat());
    assert_eq!(output.status.code(), Some(30));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("pipebench: cannot write /dev/full: no space left on device"),
        "{errors}"
    );
}

/// Symptom: CI was green although the run judged nothing.
#[test]
fn a_run_that_judges_nothing_does_not_pass_where_it_must_judge() {
    let words = ["--hosts", "local:2", "--buffers", "5"];
    let asked = [&words[..], &["--fail-unless-judged"]].concat();
    for (words, code) in [(&words[..], 0), (&asked[..], 3)] {
        let output = run(words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains("NOT JUDGED"), "{text}");
    }
    for command in ["check", "imb"] {
        let output = run(&[command, "--hosts", "local:2", "--fail-unless-judged"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(
            errors.contains(": leave out --fail-unless-judged"),
            "{errors}"
        );
    }
}

#[test]
fn a_dry_run_prints_the_plan_and_starts_nothing() {
    let output = run(&["--hosts", "n[1-3]", "--phases", "3", "--dry-run"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    for expected in [
        "16 per node",
        "48 in all",
        "nodes      3: n[1-3]",
        "links      18 in all; each of 3 hosts carries 4 out and 4 in",
        "duration   11 s",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn hosts_auto_takes_the_list_of_the_batch_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nodes");
    fs::write(&file, "a1\na1\nb2\n").expect("written");
    let rows = folder.path().join("rows");
    fs::write(&rows, "a1 2 all.q@a1 UNDEFINED\nb2 1 all.q@b2 <NULL>\n").expect("written");
    let (file, rows) = (file.display().to_string(), rows.display().to_string());
    for (name, value, expected) in [
        ("SLURM_JOB_NODELIST", "n[1-3,7]", "4: n[1-3,7]"),
        ("PBS_NODEFILE", file.as_str(), "2: a1,b2"),
        ("PE_HOSTFILE", rows.as_str(), "2: a1,b2"),
        ("LSB_DJOB_HOSTFILE", file.as_str(), "2: a1,b2"),
        ("LSB_MCPU_HOSTS", "a1 2 b2 1", "2: a1,b2"),
        ("OAR_NODEFILE", file.as_str(), "2: a1,b2"),
    ] {
        let mut command = Command::new(PIPEBENCH);
        command.env_remove("SLURM_JOB_NODELIST").env(name, value);
        let output = command
            .args(["--hosts", "auto", "--dry-run"])
            .output()
            .expect("runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains(&format!("nodes      {expected}")), "{text}");
    }
}

#[test]
fn bad_usage_is_one_line_and_exit_code_2() {
    let cases: [&[&str]; 6] = [
        &[],
        &["--hosts", "local:2", "--phases", "1"],
        &["--hosts", "local:2", "--block-size", "huge"],
        &["--hosts", "n[1-", "--phases", "2"],
        &["--no-such-flag"],
        &["--hosts", "local:2", "--time", "1s", "--buffers", "3"],
    ];
    for words in cases {
        let output = run(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{words:?}: {errors}");
        assert!(errors.starts_with("pipebench: "), "{words:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn what_a_host_cannot_give_is_said_before_the_start() {
    let held: Vec<std::net::TcpListener> = (0..1)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"))
        .collect();
    let port = held[0].local_addr().expect("bound").port();
    let output = run(&[
        "--hosts",
        "local:2",
        "--phases",
        "2",
        "--port-range",
        &format!("{port}-{}", port.saturating_add(1)),
    ]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(12), "{errors}");
    assert!(
        errors.contains("are taken (this host needs 2; widen --port-range)"),
        "{errors}"
    );
    let output = run(&[
        "--hosts",
        "local:2",
        "--phases",
        "2",
        "--block-size",
        "1G",
        "--streams",
        "256",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(12), "{errors}");
    assert!(
        errors.contains("(use a smaller --block-size or fewer --streams)"),
        "{errors}"
    );
    let output = run(&["--hosts", "local:2", "--congestion", "pigeon"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(12), "{errors}");
    assert!(
        errors.contains(
            "congestion control pigeon is not available or not allowed (this host has reno"
        ),
        "{errors}"
    );
}

#[test]
fn strangers_at_a_data_port_are_closed_and_counted_and_do_no_harm() {
    // The run is caught between listening and connecting by strangers that try every port of its range.
    let words = [
        "--hosts",
        "local:2",
        "--phases",
        "2",
        "--buffers",
        "50",
        "--port-range",
        "23210-23211",
        "--json",
        "-",
        "--quiet",
    ];
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let strangers = std::thread::spawn(move || {
        let mut reached = 0;
        while !stopped.load(std::sync::atomic::Ordering::SeqCst) {
            for port in [23210, 23211] {
                if let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) {
                    reached += u32::from(stream.write_all(b"GET / HTTP/1.0\r\n\r\n").is_ok());
                }
            }
        }
        reached
    });
    let output = run(&words);
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let reached = strangers.join().expect("strangers end");
    let record = json::read(&String::from_utf8(output.stdout).expect("text")).expect("a record");
    assert_eq!(record.exit_code, 0, "{:?}", record.troubles);
    assert!(record.tests()[0].conservation.faults.is_empty());
    let counted: u64 = record.tests()[0]
        .nodes
        .iter()
        .flatten()
        .map(|node| node.strangers)
        .sum();
    assert!(counted <= u64::from(reached) + 2, "{counted} of {reached}");
}
