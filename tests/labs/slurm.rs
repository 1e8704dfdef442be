//! Tests runs in jobs of a real Slurm: a controller on n0, a slurmd on every other host, an ordinary user whose home all hosts share, and nodes
//! that no SSH reaches.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::lab::{Finished, Lab, LabOptions, Running, wait_until};
use pipebench::internals::record::Record;
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const SCRIPT: &str = include_str!("../../examples/slurm.sh");
const HOSTS: usize = 4;
const DEADLINE: Duration = Duration::from_secs(120);
/// Options of a short run, and of one that lasts until something ends it.
const SHORT: &str = "--hosts auto --phases 2 --time 1s --rate 100M";
const LONG: &str = "--hosts auto --phases 2 --time 90s --rate 100M";
const CONFIGURATION: &str = "\
ClusterName=lab
SlurmctldHost=n0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmdSpoolDir=/run/slurm/slurmd
StateSaveLocation=/run/slurm/state
SlurmctldLogFile=/run/slurm/slurmctld.log
SlurmdLogFile=/run/slurm/slurmd.log
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
NodeName=n[1-4] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
";

/// A lab with a Slurm on it. Its daemons end with it.
struct Cluster {
    lab: Lab,
    _daemons: Vec<Running>,
    /// The user's home, which all hosts share: the hosts of a lab cover other folders than this one.
    home: tempfile::TempDir,
}

impl Cluster {
    fn raise() -> Self {
        let lab = Lab::raise(LabOptions {
            hosts: HOSTS,
            ..LabOptions::default()
        });
        let mut daemons = Vec::new();
        for host in 0..=HOSTS {
            for folder in [
                "/run/munge",
                "/run/slurm",
                "/run/slurm/state",
                "/run/slurm/slurmd",
            ] {
                fs::create_dir(lab.path(host, folder)).expect("a new folder");
            }
            fs::write(lab.path(host, "/run/slurm/slurm.conf"), CONFIGURATION).expect("written");
            fs::write(
                lab.path(host, "/run/slurm/cgroup.conf"),
                "CgroupPlugin=cgroup/v1\n",
            )
            .expect("written");
            let key = lab.path(host, "/run/munge/key");
            fs::write(&key, [7; 1024]).expect("written");
            fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).expect("changed");
            daemons.push(lab.spawn(
                host,
                &[
                    "munged",
                    "--foreground",
                    "--force",
                    "--key-file=/run/munge/key",
                    "--socket=/run/munge/socket",
                    "--pid-file=/run/munge/pid",
                    "--seed-file=/run/munge/seed",
                    "--log-file=/run/munge/log",
                ],
            ));
            wait_until("munged answers", DEADLINE, || {
                lab.path(host, "/run/munge/socket").exists()
            });
            let daemon = if host == 0 { "slurmctld" } else { "slurmd" };
            daemons.push(lab.spawn(host, &[daemon, "-D", "-f", "/run/slurm/slurm.conf"]));
        }
        let home = tempfile::tempdir_in("/var").expect("a folder");
        let bin = home.path().join("bin");
        fs::create_dir(&bin).expect("a new folder");
        fs::copy(PIPEBENCH, bin.join("pipebench")).expect("copied");
        let cluster = Self {
            lab,
            _daemons: daemons,
            home,
        };
        let words = ["chown", "-R", "nobody", &cluster.in_home("")];
        cluster.lab.run(0, &words, DEADLINE).expect_success();
        wait_until("all nodes of the cluster are idle", DEADLINE, || {
            cluster.is_idle()
        });
        cluster
    }

    /// True if no job has a node.
    fn is_idle(&self) -> bool {
        let state = self.user(&["sinfo", "--noheader", "--format=%D %t"]);
        state.stdout.trim() == "4 idle"
    }

    /// A file in the home folder, by the path that all hosts know.
    fn in_home(&self, name: &str) -> String {
        self.home.path().join(name).to_string_lossy().into_owned()
    }

    /// Starts a command on n0 as an ordinary user.
    fn start(&self, argv: &[&str]) -> Running {
        let home = format!("HOME={}", self.in_home(""));
        let folder = format!("--chdir={}", self.in_home(""));
        let before = [
            "setpriv",
            "--reuid=nobody",
            "--regid=nogroup",
            "--clear-groups",
            "env",
            &folder,
            &home,
            "USER=nobody",
            "SLURM_CONF=/run/slurm/slurm.conf",
        ];
        self.lab.spawn(0, &[&before[..], argv].concat())
    }

    /// Runs a command on n0 as an ordinary user.
    fn user(&self, argv: &[&str]) -> Finished {
        self.start(argv).finish(DEADLINE)
    }

    /// Starts a job of these words of pipebench, and waits until its nodes run on all hosts.
    fn submit(&self, words: &str) -> Running {
        let command = format!("--wrap=exec ~/bin/pipebench {words}");
        let options = ["sbatch", "--wait", "--nodes=4", "--exclusive"];
        let output = format!("--output={}", self.in_home("job.out"));
        let job = self.start(&[&options[..], &[&output, &command]].concat());
        wait_until("nodes run on all hosts", DEADLINE, || {
            let mut hosts = self.lab.test_hosts();
            hosts.all(|host| !self.lab.survivors(host, "pb-phase").is_empty())
        });
        job
    }

    #[track_caller]
    fn expect_nothing_left(&self) {
        for host in self.lab.test_hosts() {
            for name in ["pb-", "pipebench"] {
                let within = Duration::from_secs(15);
                self.lab.expect_no_survivors(host, name, within);
            }
        }
        wait_until("all nodes are idle again", DEADLINE, || self.is_idle());
        let files = fs::read_dir(self.home.path().join(".cache/pipebench"));
        let left: Vec<PathBuf> = files
            .into_iter()
            .flatten()
            .map(|file| file.expect("a file").path())
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn record(file: &Path) -> Record {
    let text = fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    json::read(&text).expect("a record")
}

/// Transports of the sessions to the nodes of a run.
fn transports(record: &Record) -> Vec<&str> {
    let hosts = record.hosts.iter();
    hosts.map(|host| host.transport.as_str()).collect()
}

#[test]
fn the_example_runs_in_a_job_as_an_ordinary_user_without_ssh() {
    let cluster = Cluster::raise();
    let script = SCRIPT
        .replace("--nodes=16", "--nodes=4")
        .replace("--time 60s", "--time 2s");
    fs::write(cluster.in_home("job.sh"), script).expect("written");
    let words = ["sbatch", "--wait", "--output=job.out", "job.sh"];
    let finished = cluster.user(&words);
    let output = fs::read_to_string(cluster.in_home("job.out")).unwrap_or_default();
    assert_eq!(finished.code(), Some(0), "{finished}\n{output}");
    let runs: Vec<_> = fs::read_dir(cluster.in_home("results"))
        .expect("a folder of runs")
        .map(|run| record(&run.expect("a run").path().join("record.json")))
        .collect();
    assert_eq!(runs.len(), 2, "{output}");
    for record in runs {
        assert!(record.tests().iter().all(|test| test.complete), "{output}");
        assert_eq!(transports(&record), ["join"; HOSTS], "{output}");
    }
    cluster.expect_nothing_left();
}

/// A step for each host, whose srun passes on whole lines only, copies the executable to hosts without a shared home.
#[test]
fn a_step_for_each_host_carries_the_executable() {
    let cluster = Cluster::raise();
    let rsh = "srun --nodes=1 --ntasks=1 --overlap --cpu-bind=none --export=ALL,HOME=/tmp -w %h";
    let file = cluster.in_home("record.json");
    let own = cluster.in_home("bin/pipebench");
    let words = ["salloc", "--nodes=4", "--exclusive", "--quiet", &own];
    let options = ["--rsh", rsh, "--json", &file, "--remote-dir", "/tmp/copy"];
    let short: Vec<&str> = SHORT.split(' ').collect();
    let argv = [&words[..], &short, &options].concat();
    cluster.user(&argv).expect_success();
    assert_eq!(transports(&record(Path::new(&file))), ["rsh"; HOSTS]);
    cluster.expect_nothing_left();
}

/// Symptoms: one srun for each host; four launchers in a step of four tasks; a node whose task was killed stayed, or had no name.
#[test]
fn one_srun_starts_all_nodes_and_nothing_stays_however_a_job_ends() {
    let cluster = Cluster::raise();
    let own = cluster.in_home("bin/pipebench");
    let short: Vec<&str> = SHORT.split(' ').collect();

    // In an allocation, on a host that is none of the job's.
    let file = cluster.in_home("salloc.json");
    let words = ["salloc", "--nodes=4", "--exclusive", "--quiet", &own];
    let argv = [&words[..], &short, &["--json", &file]].concat();
    cluster.user(&argv).expect_success();
    assert_eq!(transports(&record(Path::new(&file))), ["join"; HOSTS]);
    cluster.expect_nothing_left();

    // As a step: the first task conducts, and its own node is a child.
    let file = cluster.in_home("step.json");
    let words = ["srun", "--nodes=4", "--ntasks-per-node=1", "--exclusive"];
    let argv = [&words[..], &[&own], &short, &["--json", &file]].concat();
    cluster.user(&argv).expect_success();
    let step = record(Path::new(&file));
    assert_eq!(transports(&step), ["local", "join", "join", "join"]);
    cluster.expect_nothing_left();

    // Two jobs of an array at the same time, each with its own hosts.
    let command =
        format!("--wrap=exec ~/bin/pipebench {SHORT} --json array-$SLURM_ARRAY_TASK_ID.json");
    let words = [
        "sbatch",
        "--wait",
        "--array=1-2",
        "--nodes=2",
        "--exclusive",
    ];
    let argv = [&words[..], &["--output=array-%a.out", &command]].concat();
    cluster.user(&argv).expect_success();
    for job in 1..=2 {
        let file = cluster.in_home(&format!("array-{job}.json"));
        assert_eq!(transports(&record(Path::new(&file))), ["join"; 2]);
    }
    cluster.expect_nothing_left();

    let job = cluster.submit(LONG);
    let words = ["scancel", "--user=nobody"];
    cluster.user(&words).expect_success();
    assert_ne!(job.finish(DEADLINE).code(), Some(0));
    cluster.expect_nothing_left();

    let job = cluster.submit(LONG);
    let tasks = cluster.lab.survivors(3, "pipebench join ");
    let task = tasks.first().expect("a task on n3");
    kill(task.pid, Signal::SIGKILL).expect("killed");
    let finished = job.finish(DEADLINE);
    let output = fs::read_to_string(cluster.in_home("job.out")).unwrap_or_default();
    assert_eq!(finished.code(), Some(20), "{finished}\n{output}");
    assert!(output.contains("pipebench: n3: lost"), "{output}");
    cluster.expect_nothing_left();
}
