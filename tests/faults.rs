//! Fault tests on one machine: every kind of process killed at every stage, stopped processes, and strangers at the ports.
//! Each test checks the first line, the exit code, the partial record, the cleanup, and the time to end.
//! `docs/dev/faults.md` has the table of these tests.

mod whole;

use std::io::Write;
use std::net::TcpStream;

use nix::sys::signal::Signal;
use whole::{
    EPOCH_WORD, OWNER_WORD, Process, Run, SOON, STOP_WORD, below, expect_gone, expect_removed,
    send, wait_until, word_of,
};

/// Stage of a run at which a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Hello,
    Fork,
    Go,
    Window,
    Drain,
    Collect,
}

/// Starts a run of two nodes and three phases; returns it held at this stage, or once it has reached the stage.
fn run_at(stage: Stage, words: &[&str]) -> Run {
    let mut all = vec!["--hosts", "local:2", "--phases", "3", "--quiet"];
    // Every role must have its own process.
    all.extend(["--workers", "peer"]);
    all.extend(words);
    let (hold, bound): (&str, &[&str]) = match stage {
        Stage::Hello => ("hello", &["--time", "30s"]),
        Stage::Fork => ("fork", &["--time", "30s"]),
        Stage::Go => ("go", &["--time", "30s"]),
        Stage::Window => (
            "go",
            &["--time", "30s", "--warmup", "50ms", "--rate", "50M"],
        ),
        // A block takes a second at that rate, and the run has two boundaries.
        Stage::Drain => (
            "go",
            &[
                "--time",
                "100ms",
                "--warmup",
                "50ms",
                "--rate",
                "2.1M",
                "--block-size",
                "256K",
            ],
        ),
        Stage::Collect => ("collect", &["--buffers", "3"]),
    };
    all.extend(bound);
    all.extend(["--hold", hold]);
    let mut run = Run::start(&all);
    run.wait_for(&format!("held at {hold}"));
    let (word, least) = match stage {
        Stage::Window => (EPOCH_WORD, 1),
        Stage::Drain => (STOP_WORD, 1),
        _ => return run,
    };
    let segments = run.segments();
    assert_eq!(segments.len(), 2, "{segments:?}");
    run.release();
    wait_until(&format!("{stage:?}"), SOON, || {
        segments
            .iter()
            .all(|segment| word_of(segment, word).is_some_and(|value| value >= least))
    });
    run
}

/// The process of that name on the first node. Slot 1 there belongs to the links from and to the other node.
/// Those links are busy to the end; links within a node drain at once.
fn pick(run: &Run, name: &str) -> Process {
    // The node has reported that its phases exist; the phases fork their children a moment later.
    let mut found = None;
    wait_until(&format!("{name} is born"), SOON, || {
        found = find(run, name);
        found.is_some()
    });
    found.expect("it was born")
}

fn find(run: &Run, name: &str) -> Option<Process> {
    let first = run.segments().into_iter().find_map(|segment| {
        let is_first = segment.to_string_lossy().ends_with("-0");
        is_first.then(|| word_of(&segment, OWNER_WORD))?
    });
    let tree = match first.and_then(|pid| i32::try_from(pid).ok()) {
        Some(pid) if name != "pb-node" => below(pid),
        _ => run.tree(),
    };
    tree.into_iter().find(|process| process.name == name)
}

/// The kinds of processes of a node, and the words of the first line for each.
const VICTIMS: [(&str, &str); 4] = [
    ("pb-node", "node status process"),
    ("pb-phase-1", "local1: phase 1:"),
    ("pb-send-1.1", "local1: phase 1 sender local1->local2:"),
    // Until the links stand, the receiver's link is unknown.
    ("pb-recv-2.1", "local1: phase 2 receiver"),
];

fn kill_at(stage: Stage) {
    let alone = matches!(stage, Stage::Hello | Stage::Collect);
    for (victim, words) in VICTIMS.iter().take(if alone { 1 } else { 4 }) {
        let what = format!("{victim} killed at {stage:?}");
        let run = run_at(stage, &[]);
        let victim = pick(&run, victim);
        let (tree, segments) = (run.tree(), run.segments());
        send(victim.pid, Signal::SIGKILL);
        let ended = run.end(&what, SOON);
        ended.expect(&what, 20, &[words, "killed by "]);
        let record = ended.record.expect("a record");
        assert_eq!(record.exit_code, 20, "{what}");
        // At the hello, the nodes have received no test yet. At collect, all nodes have reported, so the test can be complete.
        let tests = usize::from(stage != Stage::Hello);
        assert_eq!(record.tests().len(), tests, "{what}");
        let complete = record.tests().iter().any(|test| test.complete);
        assert!(!complete || stage == Stage::Collect, "{what}");
        expect_gone(&what, &tree);
        expect_removed(&what, &segments);
    }
    let what = format!("the launching side killed at {stage:?}");
    let run = run_at(stage, &[]);
    let (tree, segments) = (run.tree(), run.segments());
    send(run.pid(), Signal::SIGKILL);
    expect_gone(&what, &tree);
    expect_removed(&what, &segments);
    assert_eq!(run.end(&what, SOON).code, None, "{what}");
}

#[test]
fn whoever_is_killed_at_hello_is_named() {
    kill_at(Stage::Hello);
}

#[test]
fn whoever_is_killed_at_fork_is_named() {
    kill_at(Stage::Fork);
}

#[test]
fn whoever_is_killed_at_go_is_named() {
    kill_at(Stage::Go);
}

#[test]
fn whoever_is_killed_in_the_window_is_named() {
    kill_at(Stage::Window);
}

#[test]
fn whoever_is_killed_in_the_drain_is_named() {
    kill_at(Stage::Drain);
}

#[test]
fn whoever_is_killed_at_collect_is_named() {
    kill_at(Stage::Collect);
}

/// The parent of a stopped process sees the stop at once, before the silence deadline.
#[test]
fn whoever_is_stopped_is_named_and_nothing_stays() {
    for (victim, words) in &VICTIMS[1..] {
        let what = format!("{victim} stopped");
        let run = run_at(Stage::Window, &[]);
        let (tree, segments) = (run.tree(), run.segments());
        send(pick(&run, victim).pid, Signal::SIGSTOP);
        let ended = run.end(&what, SOON);
        ended.expect(&what, 20, &[words, "stopped by signal 19"]);
        assert!(
            ended
                .record
                .is_some_and(|record| !record.tests()[0].complete)
        );
        expect_gone(&what, &tree);
        expect_removed(&what, &segments);
    }
}

/// A stopped node cannot answer: the launching side loses it, and its own phases end it.
#[test]
fn a_stopped_node_status_process_is_lost_by_silence() {
    let what = "pb-node stopped";
    let run = run_at(Stage::Window, &["--deadline", "silence=4s"]);
    let (tree, segments) = (run.tree(), run.segments());
    send(pick(&run, "pb-node").pid, Signal::SIGSTOP);
    let ended = run.end(what, SOON);
    ended.expect(what, 20, &["pipebench: local", "lost: silent for 4 s"]);
    expect_gone(what, &tree);
    expect_removed(what, &segments);
}

/// Opens `each` connections to each of two ports, sends `words` on them (possibly none), and returns the connections.
fn flood(ports: [u16; 2], each: usize, words: &[u8]) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for port in ports {
        for _ in 0..each {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
            // A write to a connection that the peer has already closed fails; the peer has counted that one.
            stream.write_all(words).ok();
            open.push(stream);
        }
    }
    open
}

/// Ten thousand connections that are no links arrive while a run is held between listening and connecting. They send
/// nothing or nonsense and stay open. The senders still connect.
#[test]
fn ten_thousand_strangers_are_counted_and_do_not_keep_a_run_from_its_links() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("raised");
    const STRANGERS: usize = 10_000;
    assert!(most > 1_000 + STRANGERS as u64, "descriptors: {most}");
    for words in [&b""[..], b"GET / HTTP/1.0\r\n\r\n"] {
        let what = format!("strangers that say {words:?}");
        let mut run = Run::start(&[
            "--hosts",
            "local:2",
            "--phases",
            "2",
            "--buffers",
            "20",
            "--port-range",
            "23460-23461",
            "--hold",
            "fork",
        ]);
        run.wait_for("held at fork");
        let open = flood([23460, 23461], STRANGERS / 2, words);
        run.release();
        let ended = run.end(&what, SOON);
        ended.expect(&what, 0, &[]);
        let record = ended.record.expect("a record");
        let test = &record.tests()[0];
        let counted: u64 = test.nodes.iter().flatten().map(|node| node.strangers).sum();
        // The listener closes without counting the strangers that it was still reading when the links stood.
        assert!(counted > STRANGERS as u64 / 2, "{what}: {counted} counted");
        drop(open);
    }
}

/// Silent and nonsense connections reach the ports of ranks with few descriptors. The ranks continue to measure and count them.
#[test]
fn strangers_at_the_ports_of_ranks_are_counted_and_end_nothing() {
    const EACH: usize = 400;
    for words in [&b""[..], b"GET / HTTP/1.0\r\n\r\n"] {
        let what = format!("ranks, and strangers that say {words:?}");
        let mut command = std::process::Command::new("prlimit");
        command.args(["--nofile=100:100", whole::PIPEBENCH]);
        let test = "linktest --hosts local:2 --mode tcp -n 20 -s 1000 --num-slowest 0 --min-runtime 6 --no-sion-file --quiet \
                    --port-range 23470-23471";
        let run = Run::start_by(command, &test.split_whitespace().collect::<Vec<_>>());
        wait_until("two ranks measure", SOON, || {
            let ranks = run.tree().into_iter();
            let busy =
                ranks.filter(|one| one.name.starts_with("pb-rank-") && cpu_ticks(one.pid) > 10);
            busy.count() == 2
        });
        let open = flood([23470, 23471], EACH, words);
        let ended = run.end(&what, SOON);
        ended.expect(&what, 0, &[]);
        let record = ended.record.expect("a record");
        let ranks = record.outcome.ranks();
        // The ranks closed most strangers to accept others, because they lack descriptors for all.
        let counted = ranks.iter().map(|rank| rank.strangers);
        assert!(counted.sum::<u64>() > EACH as u64, "{what}: {ranks:?}");
        drop(open);
    }
}

/// A long link test whose ranks have begun to measure.
fn ranks_at_work() -> Run {
    let words =
        "linktest --hosts local:2 --ranks-per-node 2 -n 100000000 -s 100000 --no-sion-file --quiet";
    let run = Run::start(&words.split(' ').collect::<Vec<_>>());
    wait_until("four ranks are at work", SOON, || {
        let ranks = run.tree().into_iter();
        let busy = ranks.filter(|one| one.name.starts_with("pb-rank-") && cpu_ticks(one.pid) > 10);
        busy.count() == 4
    });
    run
}

/// CPU time of a process in clock ticks. A process that waits for its work uses almost none.
fn cpu_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat
        .rsplit_once(") ")
        .map_or("", |(_, rest)| rest)
        .split(' ');
    // User and system time are the 14th and 15th field; the third one is the first after the name.
    fields
        .skip(11)
        .take(2)
        .filter_map(|one| one.parse::<u64>().ok())
        .sum()
}

#[test]
fn a_rank_that_is_killed_or_stopped_ends_the_job_with_its_name() {
    for (signal, said) in [
        (Signal::SIGKILL, "killed by signal 9"),
        (Signal::SIGSTOP, "stopped by signal 19"),
    ] {
        for victim in ["pb-rank-0", "pb-rank-3"] {
            let what = format!("{victim} {said}");
            let run = ranks_at_work();
            let tree = run.tree();
            let chosen = tree.iter().find(|process| process.name == victim);
            send(chosen.expect("it was born").pid, signal);
            let ended = run.end(&what, SOON);
            let rank = victim.trim_start_matches("pb-").replace("rank-", "rank ");
            ended.expect(&what, 20, &[&format!("{rank}: {said}")]);
            let record = ended.record.expect("a record");
            let linktest = record.outcome.linktest().expect("a link test");
            assert!(!linktest.complete, "{what}");
            expect_gone(&what, &tree);
        }
    }
}

/// The record keeps the rounds measured before a rank died, and is marked incomplete.
#[test]
fn a_rank_that_is_killed_in_a_plan_of_latencies_costs_only_what_was_not_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let fabric = folder.path().join("f.toml");
    let fabric = fabric.to_string_lossy();
    let star = "latency generate leaf-spine --leaves 1 --spines 1 --hosts-per-switch 4 -o";
    let made = std::process::Command::new(whole::PIPEBENCH)
        .args(star.split_whitespace().chain([&*fabric]))
        .output();
    assert!(made.expect("it runs").status.success());
    let words = format!(
        "latency run {fabric} --hosts local:4 --map order --pings 20000 --wait sleep --quiet --output {}",
        folder.path().display()
    );
    // The CPU time of the three rounds is unknown. A kill that comes too early or too late corrects the next try.
    let mut ticks = 60;
    for _ in 0..8 {
        let run = Run::start(&words.split(' ').collect::<Vec<_>>());
        let victim = || run.tree().into_iter().find(|one| one.name == "pb-rank-3");
        let mut born = None;
        wait_until("a rank is at work or has ended", SOON, || {
            let found = victim().map(|one| one.pid);
            let ended = born.is_some() && found.is_none();
            born = found.or(born);
            ended || found.is_some_and(|pid| cpu_ticks(pid) > ticks)
        });
        let tree = run.tree();
        if let Some(one) = victim() {
            send(one.pid, Signal::SIGKILL);
        }
        let ended = run.end("killed", SOON);
        let record = ended.record.as_ref().expect("a record");
        let measured = record.outcome.latency().expect("latencies");
        match measured.pairs.len() {
            0 => ticks *= 2,
            pairs if pairs < measured.planned.pairs => {
                ended.expect("killed", 20, &["rank 3: killed by signal 9"]);
                assert!(!measured.complete && measured.cables.is_empty());
                expect_gone("killed", &tree);
                return;
            }
            _ => ticks /= 2,
        }
    }
    panic!("pairs are kept of all rounds or of none");
}

/// The record keeps the lines that all ranks had measured, and marks the table incomplete.
#[test]
fn a_rank_that_is_killed_in_a_table_of_patterns_costs_only_the_lines_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let lengths = folder.path().join("lengths");
    std::fs::write(&lengths, "8\n".repeat(5_000)).expect("written");
    let words = format!(
        "imb --hosts local:2 --ranks-per-node 2 Allreduce -npmin 4 -iter 200 -msglen {} --quiet",
        lengths.display()
    );
    let mut run = Run::start(&words.split(' ').collect::<Vec<_>>());
    let victim = |run: &Run| run.tree().into_iter().find(|one| one.name == "pb-rank-2");
    // A line takes less than a hundredth of that, and on a busy machine a second of CPU time takes longer than a test may wait.
    run.wait_until("it has measured for a quarter of a second", |run| {
        victim(run).is_some_and(|one| cpu_ticks(one.pid) > 25)
    });
    let tree = run.tree();
    send(victim(&run).expect("it is alive").pid, Signal::SIGKILL);
    let ended = run.end("killed", SOON);
    ended.expect("killed", 20, &["rank 2: killed by signal 9"]);
    let record = ended.record.expect("a record");
    let lines = record.outcome.imb().expect("patterns").tables[0]
        .lines
        .len();
    assert!(lines > 0 && lines < 5_000, "{lines}");
    assert!(!record.outcome.imb().expect("patterns").complete);
    expect_gone("killed", &tree);
}

#[test]
fn a_link_test_whose_node_or_launching_side_is_killed_leaves_no_rank_behind() {
    let run = ranks_at_work();
    let tree = run.tree();
    let node = tree.iter().find(|process| process.name == "pb-node");
    send(node.expect("a node").pid, Signal::SIGKILL);
    let ended = run.end("node killed", SOON);
    ended.expect("node killed", 20, &["node status process killed by "]);
    expect_gone("node killed", &tree);
    let run = ranks_at_work();
    let tree = run.tree();
    send(run.pid(), Signal::SIGKILL);
    expect_gone("launching side killed", &tree);
    let run = ranks_at_work();
    let tree = run.tree();
    send(run.pid(), Signal::SIGINT);
    let ended = run.end("asked to end", SOON);
    ended.expect("asked to end", 130, &["ended by SIGINT"]);
    expect_gone("asked to end", &tree);
}

/// Runs a node, and says of the host 127.0.0.2 that its part of the first test is not complete.
const SAYS_INCOMPLETE: &str = r#"
import struct, subprocess, sys
node = subprocess.Popen(["/bin/sh", "-s"], stdout=subprocess.PIPE)
out = sys.stdout.buffer
def read(count):
    data = node.stdout.read(count)
    if len(data) < count:
        sys.exit(node.wait())
    return data
honest = sys.argv[1] != "127.0.0.2"
line = b""
while not line.endswith(b"\x01pipebench-node-1\x02\n"):
    line += read(1)
    out.write(line[-1:])
    out.flush()
while True:
    head = read(8)
    data = read(struct.unpack("<I", head[4:])[0])
    if honest < 1 and data.startswith(b'{"finished":{"complete":true'):
        data = data.replace(b"true", b"false", 1)
        honest = 1
    out.write(head[:4] + struct.pack("<I", len(data)) + data)
    out.flush()
"#;

/// The run ended as an internal error (70), and no host was named, if a later test was complete.
#[test]
fn a_node_whose_part_is_incomplete_without_a_reason_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("node.py");
    std::fs::write(&script, SAYS_INCOMPLETE).expect("written");
    let shell = format!("python3 {} %h", script.display());
    let cache = folder.path().join("cache").display().to_string();
    let words = ["--phases", "2", "--buffers", "3", "--rsh", &shell];
    let words = [&words[..], &["--remote-dir", &cache]].concat();
    for (hosts, pattern) in [("127.0.0.[1-2]", "mesh"), ("127.0.0.[1-3]", "rotate")] {
        let words = [&words[..], &["--hosts", hosts, "--pattern", pattern]].concat();
        let ended = Run::start(&words).end(pattern, SOON);
        let first = "127.0.0.2: its run is not complete, and it gave no reason";
        ended.expect(pattern, 20, &[first]);
        let record = ended.record.expect("a record");
        assert_eq!(record.exit_code, 20);
        assert!(!record.tests()[0].complete);
        assert_eq!(record.tests().len() > 1, pattern == "rotate");
    }
}
