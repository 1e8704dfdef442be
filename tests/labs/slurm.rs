//! Tests a run in a job of a real Slurm: a controller on n0, a slurmd on every other host, an ordinary user, and nodes that no SSH reaches.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::lab::{Finished, Lab, LabOptions, Running, wait_until};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const SCRIPT: &str = include_str!("../../examples/slurm.sh");
const HOSTS: usize = 4;
const DEADLINE: Duration = Duration::from_secs(120);
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
        let cluster = Self {
            lab,
            _daemons: daemons,
        };
        wait_until("all nodes of the cluster are idle", DEADLINE, || {
            let state = cluster.user(0, &["sinfo", "--noheader", "--format=%D %t"]);
            state.stdout.trim() == "4 idle"
        });
        // Where the script looks for the executable: on the first node of the job, where the script runs.
        for host in 0..=1 {
            let words = ["install", "-D", PIPEBENCH, "/tmp/home/bin/pipebench"];
            if host == 0 {
                cluster.lab.run(host, &words, DEADLINE).expect_success();
            } else {
                let bin = cluster.lab.path(host, "/tmp/home/bin");
                fs::create_dir_all(&bin).expect("a new folder");
                fs::copy(PIPEBENCH, bin.join("pipebench")).expect("copied");
            }
            let words = ["chown", "-R", "nobody", "/tmp/home"];
            cluster.lab.run(host, &words, DEADLINE).expect_success();
        }
        cluster
    }

    /// Runs a command as an ordinary user whose home is not shared.
    fn user(&self, host: usize, argv: &[&str]) -> Finished {
        let before = [
            "setpriv",
            "--reuid=nobody",
            "--regid=nogroup",
            "--clear-groups",
            "env",
            "--chdir=/tmp",
            "HOME=/tmp/home",
            "USER=nobody",
            "SLURM_CONF=/run/slurm/slurm.conf",
        ];
        self.lab.run(host, &[&before[..], argv].concat(), DEADLINE)
    }
}

#[test]
fn the_example_runs_in_a_job_as_an_ordinary_user_without_ssh() {
    let cluster = Cluster::raise();
    let script = SCRIPT
        .replace("--nodes=16", "--nodes=4")
        .replace("--time 60s", "--time 2s");
    fs::write(cluster.lab.path(0, "/tmp/job.sh"), script).expect("written");
    let words = ["sbatch", "--wait", "--output=/tmp/job.out", "/tmp/job.sh"];
    let finished = cluster.user(0, &words);
    let output = fs::read_to_string(cluster.lab.path(1, "/tmp/job.out")).unwrap_or_default();
    assert_eq!(finished.code(), Some(0), "{finished}\n{output}");
    let folder = cluster.lab.path(1, "/tmp/results");
    let records: Vec<_> = fs::read_dir(folder)
        .expect("a folder of runs")
        .map(|run| fs::read_to_string(run.expect("a run").path().join("record.json")))
        .map(|text| json::read(&text.expect("a record")).expect("a record"))
        .collect();
    assert_eq!(records.len(), 2, "{output}");
    for record in records {
        assert!(record.tests().iter().all(|test| test.complete), "{output}");
        assert_eq!(record.hosts.len(), HOSTS, "{output}");
    }
    for host in cluster.lab.test_hosts() {
        cluster
            .lab
            .expect_no_survivors(host, "pb-", Duration::from_secs(10));
    }
}
