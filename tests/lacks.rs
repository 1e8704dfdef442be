//! Tests resources that a host lacks: pipebench reports them before the run starts, with numbers summed over the host's nodes.
//! The tests set real kernel limits for these runs alone. If a kernel lacks such a limit, the test says so.

mod whole;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use whole::{Ended, PIPEBENCH, Run, SOON, wait_until};

/// Runs the program through a wrapper command: `before` starts it.
fn run_behind(before: &[&str], words: &[&str]) -> Ended {
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(PIPEBENCH);
    Run::start_by(command, &[words, &["--quiet"]].concat()).end(&format!("{before:?}"), SOON)
}

const TWO_NODES: [&str; 6] = ["--hosts", "local:2", "--phases", "2", "--buffers", "2"];

#[test]
fn a_port_range_that_is_too_short_is_refused_before_anything_listens() {
    let words = ["--hosts", "local:2", "--phases", "3", "--port-range"];
    let ended = run_behind(&["env"], &[&words[..], &["23400-23402"]].concat());
    ended.expect(
        "three ports",
        12,
        &["local[1-2]: 2 nodes need 4 ports on this host, --port-range 23400-23402 leaves 3 (widen it)"],
    );
}

/// The number of descriptors by the formula suffices, one less is refused, and the formula is close to the real use.
#[test]
fn as_many_descriptors_as_the_formula_says_are_enough_and_one_less_is_refused() {
    let words = ["--hosts", "local", "--phases", "2", "--streams", "32"];
    let needed = 16 + 1 + 2 * 32;
    let run = |limit: usize, more: &[&str]| {
        let limit = format!("--nofile={limit}:{limit}");
        run_behind(&["prlimit", &limit], &[&words[..], more].concat())
    };
    let buffers = ["--buffers", "2"];
    run(needed, &buffers).expect("enough", 0, &[]);
    run(needed - 1, &buffers).expect(
        "one less",
        12,
        &["1 node needs 81 descriptors in one process on this host, ulimit -n (80) leaves 80 (raise it"],
    );
    let mut held = Run::start(&[&words[..], &["--time", "1s", "--hold", "fork"]].concat());
    held.wait_for("held at fork");
    let node = held.tree().into_iter().find(|one| one.name == "pb-node");
    let status = format!("/proc/{}/status", node.expect("a node").pid);
    let status = fs::read_to_string(status).expect("a process");
    // The kernel's descriptor table grows with the number open at once and never shrinks.
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
    let size: usize = size.expect("a size").trim().parse().expect("a number");
    assert!(size >= needed, "{size}");
}

/// Symptom: the launching side ran out of descriptors while it reached its hosts, and each of them was named as a failure.
#[test]
fn too_few_descriptors_for_all_hosts_are_said_before_any_host_is_reached() {
    let run = |limits: &str| {
        let words = ["--hosts", "h[1-100]", "--rsh", "false"];
        run_behind(&["prlimit", &format!("--nofile={limits}")], &words)
    };
    let need =
        "100 hosts need 656 descriptors and 204 threads and processes, the limit of descriptors";
    let few = format!("{need} cannot be raised above 400: at most 36 hosts");
    run("300:400").expect("a low hard limit", 12, &[&few]);
    let raised = run("300:4000");
    let line = format!("pipebench: {need} is 300: raised to 856");
    assert!(raised.errors.contains(&line), "{}", raised.errors);
    // No host has a shell.
    assert_eq!(raised.code, Some(10), "{}", raised.errors);
}

/// Symptom: a run that awaited more nodes than it may have descriptors took no more of them, and waited until its deadline.
#[test]
fn too_few_descriptors_for_awaited_nodes_are_said_before_any_joins() {
    let ended = run_behind(&["prlimit", "--nofile=300:400"], &["--await", "100"]);
    let line = "cannot be raised above 400: at most 36 hosts";
    ended.expect("a low hard limit", 12, &[line]);
}

/// The memory of a process without the buffers stays within the allowance of the formula.
#[test]
fn a_process_takes_no_more_memory_than_the_allowance() {
    let words = ["--hosts", "local:2", "--phases", "3", "--time", "1s"];
    let mut run = Run::start(&[&words[..], &["--hold", "go"]].concat());
    run.wait_for("held at go");
    for process in run.tree() {
        let read = |file: &str| {
            fs::read_to_string(format!("/proc/{}/{file}", process.pid)).expect("a process")
        };
        let of = |text: &str, name: &str| -> usize {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
            kib.expect("a number") * 1024
        };
        let (rollup, status) = (read("smaps_rollup"), read("status"));
        let own = of(&rollup, "Private_Dirty:").saturating_sub(of(&status, "RssShmem:"));
        let taken = own + of(&status, "VmPTE:");
        assert!(
            taken <= pipebench::internals::plan::size::PROCESS_BYTES,
            "{process:?} takes {taken}"
        );
    }
}

/// The process limit applies to every user except root, so another user runs this.
#[test]
fn a_users_limit_of_processes_counts_what_the_user_has_and_all_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("pipebench");
    fs::copy(PIPEBENCH, &copy).expect("a copy");
    for path in [folder.path(), &copy] {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, all).expect("its own");
    }
    let run = |limit: u64| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "54321", "--regid", "54321", "--clear-groups"])
            .args(["prlimit", &format!("--nproc={limit}:{limit}")])
            .arg(&copy);
        Run::start_by(command, &[&TWO_NODES[..], &["--quiet"]].concat()).end("limited", SOON)
    };
    let refused = run(14);
    refused.expect(
        "14 processes",
        12,
        &[
            "2 nodes need 12 processes on this host, ulimit -u (14) leaves ",
            " (raise it, or use fewer",
        ],
    );
    // Processes that the nodes and the launching side have already, plus those that the run still needs.
    run(14 + 12).expect("14 and 12 processes", 0, &[]);
}

/// A control group (version 1) below this process's group; dropping the value removes the group.
struct Group(PathBuf);

impl Group {
    /// Creates the group; `None` if the hierarchy is missing or not writable.
    fn make(controller: &str) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").expect("a process");
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers
                .split(',')
                .any(|one| one == controller)
                .then_some(path)
        });
        let made = path.and_then(|path| {
            let folder = Path::new("/sys/fs/cgroup").join(controller);
            let folder = folder.join(path.trim_start_matches('/'));
            let folder = folder.join(format!("pipebench-test-{}", std::process::id()));
            fs::create_dir(&folder).ok().map(|()| Self(folder))
        });
        if made.is_none() {
            eprintln!("SKIPPED: no {controller} controller of version 1 to make a group in");
        }
        made
    }

    fn set(&self, name: &str, value: &str) {
        fs::write(self.0.join(name), value).expect("a limit");
    }

    /// Runs the program in the group.
    fn run(&self, words: &[&str]) -> Ended {
        let join = format!(
            "echo $$ >{}/cgroup.procs && exec \"$0\" \"$@\"",
            self.0.display()
        );
        run_behind(&["sh", "-c", &join], words)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait_until("the group is empty", SOON, || {
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

#[test]
fn a_control_groups_limit_of_processes_is_named_with_its_group() {
    let Some(group) = Group::make("pids") else {
        return;
    };
    group.set("pids.max", "16");
    let name = format!("control group {}", group.0.display());
    let name = name.replace("/sys/fs/cgroup/pids", "");
    group.run(&TWO_NODES).expect(
        "16 processes",
        12,
        &[
            "2 nodes need 12 processes on this host, pids.max (16) of ",
            &name,
            " leaves ",
        ],
    );
    group.set("pids.max", "40");
    group.run(&TWO_NODES).expect("40 processes", 0, &[]);
}

#[test]
fn a_control_groups_limit_of_memory_is_named_with_its_group() {
    let Some(group) = Group::make("memory") else {
        return;
    };
    group.set("memory.limit_in_bytes", "100M");
    let more = ["--block-size", "1M", "--streams", "8", "--verify", "full"];
    group.run(&[&TWO_NODES[..], &more].concat()).expect(
        "100 MiB",
        12,
        &["of memory on this host, memory.limit_in_bytes of control group /"],
    );
}

/// Blocks of the default size shrink before memory is refused, and a line reports it.
#[test]
fn a_control_groups_limit_of_memory_makes_blocks_smaller() {
    let Some(group) = Group::make("memory") else {
        return;
    };
    group.set("memory.limit_in_bytes", "100M");
    // Whole blocks are needed where payload is verified.
    let more = ["--streams", "32", "--workers", "shared", "--verify", "full"];
    let ended = group.run(&[&TWO_NODES[..], &more].concat());
    ended.expect("100 MiB", 0, &[]);
    let record = ended.record.expect("a record");
    // The final size depends on the memory that the group holds already, such as the executable.
    let kib = record.plan.tests()[0].block_bytes >> 10;
    assert!([16, 32, 64, 128].contains(&kib), "{kib}");
    let named = |option: &&(String, String)| option.0 == "block-size";
    let said = record.options.iter().find(named).map(|option| &option.1);
    assert_eq!(said, Some(&format!("{kib}KiB")));
    let note =
        format!("blocks of {kib} KiB instead of 256 KiB, to keep the buffers of 2 nodes on ");
    let notices = &record.notices;
    assert!(
        notices.iter().any(|one| one.starts_with(&note)),
        "{notices:?}"
    );
}

/// Since Linux 6.14 a pid namespace has its own limit; before that, the limit would be the whole machine's.
#[test]
fn too_few_process_ids_are_refused() {
    let release = nix::sys::utsname::uname().expect("a kernel");
    let release = release.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|word| word.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(14)) {
        eprintln!("SKIPPED: kernel {release} has one pid_max for all");
        return;
    }
    let spaces = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let limit = [
        "sh",
        "-c",
        "echo 310 >/proc/sys/kernel/pid_max && \"$0\" \"$@\"; exit $?",
    ];
    run_behind(&[&spaces[..], &limit].concat(), &TWO_NODES).expect(
        "310 ids",
        12,
        &["2 nodes need 12 processes on this host, kernel.pid_max (310) leaves "],
    );
}

const SMALL_SHM: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs -o size=64k tmpfs /dev/shm && exec \"$0\" \"$@\"",
];

#[test]
fn shared_memory_that_is_too_small_is_refused() {
    run_behind(&SMALL_SHM, &[&TWO_NODES[..], &["--streams", "32"]].concat()).expect(
        "a small /dev/shm",
        12,
        &["2 nodes need 136 KiB of shared memory on this host, /dev/shm leaves 64 KiB (enlarge"],
    );
}

/// A segment page that the kernel cannot provide would raise a signal in the middle of a run.
#[test]
fn shared_memory_that_fills_after_the_check_is_an_error_and_no_signal() {
    let mut command = Command::new(SMALL_SHM[0]);
    command.args(&SMALL_SHM[1..]).arg(PIPEBENCH);
    let mut run = Run::start_by(command, &[&TWO_NODES[..], &["--hold", "hello"]].concat());
    run.wait_for("held at hello");
    let folder = PathBuf::from(format!("/proc/{}/root/dev/shm", run.pid()));
    fs::write(folder.join("other"), vec![1; 60 << 10]).expect("room for that");
    run.release();
    let ended = run.end("a full /dev/shm", SOON);
    ended.expect(
        "a full /dev/shm",
        12,
        &[
            "cannot make the status segment pipebench-",
            ": no space left on device",
        ],
    );
}

/// Without random numbers a stranger could guess the secret of the links.
#[test]
fn without_random_numbers_of_the_kernel_no_run_begins_and_one_line_says_so() {
    let no_random = "mount --bind /dev/null /dev/urandom && exec \"$0\" \"$@\"";
    let ended = run_behind(&["unshare", "--mount", "sh", "-c", no_random], &TWO_NODES);
    ended.expect(
        "no random numbers",
        12,
        &["cannot read random numbers from the kernel: "],
    );
    assert_eq!(ended.errors.lines().count(), 1, "{}", ended.errors);
    assert!(ended.record.is_none());
}
