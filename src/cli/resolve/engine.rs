//! Chooses what starts the nodes: pipebench itself, one command for all of them, or something outside whose nodes join.

use launcher::hosts::Host;
use launcher::join::Starter;

use super::error::{UsageError, refuse};
use crate::cli::args::{HostWords, Launch};
use crate::cli::process::Surroundings;

/// What starts the nodes that are not on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Engine {
    /// pipebench, over SSH or with the command of `--rsh`.
    #[default]
    Own,
    /// One command, which is this one.
    Starter(String),
    /// A user, a script or a batch system: `--await`.
    Awaited,
    /// The job step that has started this process: its other tasks are the nodes of their hosts.
    Step,
}

/// The starter in a job of Slurm. The step shares the CPUs of the job with the batch script (`--overlap`). The end of
/// one task must not end the others, and variables of the job must not turn standard input away from the tasks.
const SRUN: &str = "srun --nodes=%N --ntasks=%N --ntasks-per-node=1 --overlap --cpu-bind=none --mpi=none --input=all \
    --kill-on-bad-exit=0 --wait=0 --quiet --nodelist=%H";

impl Engine {
    /// What starts the nodes of these hosts. `is_alone` is true if all of them are this machine.
    pub(super) fn of(
        words: &HostWords,
        launch: &Launch,
        is_alone: bool,
        around: Surroundings,
    ) -> Self {
        match &launch.starter {
            Some(command) => Self::Starter(command.clone()),
            None if launch.awaited.is_some() => Self::Awaited,
            None if !takes_job(words, launch) => Self::Own,
            None if around.is_task => Self::Step,
            None if around.in_slurm && around.has_srun && !is_alone => {
                Self::Starter(SRUN.to_owned())
            }
            None => Self::Own,
        }
    }

    /// True if this machine, where a list names it, needs no engine.
    pub(super) fn spares_own_host(&self, launch: &Launch) -> bool {
        match self {
            Self::Own => launch.rsh.is_none(),
            Self::Step => true,
            Self::Starter(_) | Self::Awaited => false,
        }
    }

    /// The command that starts these hosts, if there is one.
    pub(crate) fn starter(
        &self,
        launch: &Launch,
        hosts: &[Host],
    ) -> Result<Option<Starter>, UsageError> {
        let Self::Starter(command) = self else {
            return Ok(None);
        };
        let remote = hosts.iter().filter(|host| !host.local);
        let names: Vec<&str> = remote.map(|host| host.name.as_str()).collect();
        if names.is_empty() {
            return refuse(
                "--starter: all nodes are on this machine, and need none (leave it out)",
            );
        }
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let Some(words) = words else {
            return refuse(format!(
                "--starter {command:?}: not the words of a command (is a quote missing?)"
            ));
        };
        let has = |name: &str| words.iter().any(|word| word.contains(name));
        if has("%h") && !has("%H") {
            return refuse(format!(
                "--starter {command:?}: %H is the hosts and %N their number (%h is of --rsh)"
            ));
        }
        // Tasks on other hosts can have another working folder.
        let token_file = launch.token_file.as_deref().map(std::path::absolute);
        let token_file = token_file
            .transpose()
            .map_err(|error| UsageError::of("--token-file", error))?;
        let (list, count) = (names.join(","), names.len().to_string());
        let filled = |word: String| word.replace("%H", &list).replace("%N", &count);
        Ok(Some(Starter {
            words: words.into_iter().map(filled).collect(),
            token_file,
        }))
    }
}

/// True if these words leave it to the job how nodes are started.
pub(crate) fn takes_job(words: &HostWords, launch: &Launch) -> bool {
    let is_auto = words.list.as_deref() == Some("auto");
    is_auto && launch.rsh.is_none() && !launch.has_ssh()
}

/// Refuses a job step of several tasks in which these words start no run, or which has several tasks on a host.
/// `var` has the variables of this process.
pub(crate) fn check_step(
    words: &HostWords,
    launch: &Launch,
    var: &dyn Fn(&str) -> Option<String>,
) -> Result<(), UsageError> {
    let is_chosen = launch.starter.is_some() || launch.awaited.is_some();
    if !takes_job(words, launch) || is_chosen {
        return refuse(
            "start pipebench once: without srun, or with srun -N1 -n1 (or with --hosts auto alone, once on each host)",
        );
    }
    if var("SLURM_STEP_NUM_NODES") != var("SLURM_STEP_NUM_TASKS") {
        return refuse(
            "this job step has several tasks on a host: start one on each (srun --ntasks-per-node=1)",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args;

    const JOB: Surroundings = Surroundings {
        in_slurm: true,
        has_srun: true,
        is_task: false,
    };

    fn engine(words: &str, is_alone: bool, around: Surroundings) -> Engine {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let plain = args::parsed(&words).unwrap();
        Engine::of(&plain.hosts, &plain.launch, is_alone, around)
    }

    /// Symptom: `--hosts auto` in a job of Slurm went over SSH, host by host.
    #[test]
    fn in_a_job_of_slurm_auto_is_one_srun_unless_the_user_says_how() {
        assert_eq!(
            engine("--hosts auto", false, JOB),
            Engine::Starter(SRUN.to_owned())
        );
        for words in [
            "--hosts n1,n2",
            "--hosts auto --rsh ssh",
            "--hosts auto --user bench",
            "--hosts auto -i key",
        ] {
            assert_eq!(engine(words, false, JOB), Engine::Own, "{words}");
        }
        let own = Engine::Starter("clush -f %N -w %H".to_owned());
        let words = ["--hosts", "auto", "--starter", "clush -f %N -w %H"].map(str::to_owned);
        let plain = args::parsed(&words).unwrap();
        assert_eq!(Engine::of(&plain.hosts, &plain.launch, false, JOB), own);
        assert_eq!(engine("--hosts auto", true, JOB), Engine::Own);
        for around in [
            Surroundings {
                has_srun: false,
                ..JOB
            },
            Surroundings {
                in_slurm: false,
                ..JOB
            },
        ] {
            assert_eq!(engine("--hosts auto", false, around), Engine::Own);
        }
    }

    /// Symptom: the tasks of `srun -N4 pipebench --hosts auto` were four launchers, or none.
    #[test]
    fn the_tasks_of_a_step_are_one_run_where_each_host_has_one() {
        let step = Surroundings {
            is_task: true,
            ..JOB
        };
        assert_eq!(engine("--hosts auto", false, step), Engine::Step);
        let plain = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            args::parsed(&words).unwrap()
        };
        let told = |words: &[&str], tasks: &'static str| {
            let plain = plain(words);
            let var = |name: &str| {
                let value = match name {
                    "SLURM_STEP_NUM_NODES" => "4",
                    "SLURM_STEP_NUM_TASKS" => tasks,
                    _ => return None,
                };
                Some(value.to_owned())
            };
            let checked = check_step(&plain.hosts, &plain.launch, &var);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(told(&["--hosts", "auto"], "4"), Ok(()));
        let error = told(&["--hosts", "auto"], "8").unwrap_err();
        assert!(error.contains("--ntasks-per-node=1"), "{error}");
        for words in [
            &["--hosts", "n1,n2"][..],
            &["--hosts", "auto", "--rsh", "ssh"],
            &["--await", "4"],
        ] {
            let error = told(words, "4").unwrap_err();
            assert!(error.starts_with("start pipebench once"), "{error}");
        }
    }

    #[test]
    fn a_starter_gets_hosts_and_their_number_in_its_words() {
        let host = |name: &str, local| Host {
            name: name.to_owned(),
            local,
            ..Host::default()
        };
        let launch = args::parsed(&[]).unwrap().launch;
        let of = |command: &str, hosts: &[Host]| {
            let starter = Engine::Starter(command.to_owned()).starter(&launch, hosts);
            starter.map_err(|error| error.to_string())
        };
        let hosts = [host("n1", false), host("local", true), host("n2", false)];
        // Symptom: clush looked for a host %h.
        assert_eq!(
            of("clush -w %h", &hosts).unwrap_err(),
            "--starter \"clush -w %h\": %H is the hosts and %N their number (%h is of --rsh)"
        );
        let starter = of("sh -c 'run %N' -w=%H", &hosts).unwrap().unwrap();
        assert_eq!(starter.words, ["sh", "-c", "run 2", "-w=n1,n2"]);
        assert!(of("", &hosts).unwrap_err().starts_with("--starter"));
        assert!(of("sh 'x", &hosts).unwrap_err().contains("quote"));
        assert!(
            of("sh %H", &hosts[1..2])
                .unwrap_err()
                .contains("this machine")
        );
    }
}
