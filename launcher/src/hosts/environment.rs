//! The hosts of the job that this process runs in. A batch system names them in a variable, or in a
//! file that a variable names.
//!
//! The caller passes variables and files as functions, so that nothing here depends on the
//! environment of the process.

use super::expression::parse;
use super::{Host, HostListError};

/// A batch system that runs jobs on several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSystem {
    /// Slurm.
    Slurm,
    /// OpenPBS, PBS Professional, Torque.
    Pbs,
    /// Sun Grid Engine and its successors.
    GridEngine,
    /// IBM Spectrum LSF.
    Lsf,
    /// OAR.
    Oar,
    /// Flux.
    Flux,
}

/// A job: its hosts, and the batch system that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The batch system.
    pub system: BatchSystem,
    /// Each host once, in the job's order.
    pub hosts: Vec<Host>,
}

/// The way in which a variable names hosts.
#[derive(Clone, Copy)]
enum Form {
    /// The value is a host list.
    List,
    /// The value has each host and then its number of slots: `n1 16 n2 16`.
    Pairs,
    /// The value is the path of a file, which is a host list.
    File,
    /// The value is the path of a file; each line begins with a host: `n1 16 all.q@n1 UNDEFINED`.
    Rows,
    /// The value names no hosts: a command of the batch system does.
    Command,
}

/// The variables of the batch systems, in the order of their use. Flux is last, since it removes
/// Slurm's variables from its jobs, and a job of another system can run Flux.
const VARIABLES: [(BatchSystem, &str, Form); 9] = [
    (BatchSystem::Slurm, "SLURM_JOB_NODELIST", Form::List),
    (BatchSystem::Pbs, "PBS_NODEFILE", Form::File),
    (BatchSystem::GridEngine, "PE_HOSTFILE", Form::Rows),
    (BatchSystem::Lsf, "LSB_DJOB_HOSTFILE", Form::File),
    (BatchSystem::Lsf, "LSB_MCPU_HOSTS", Form::Pairs),
    (BatchSystem::Lsf, "LSB_HOSTS", Form::List),
    (BatchSystem::Oar, "OAR_NODEFILE", Form::File),
    (BatchSystem::Oar, "OAR_FILE_NODES", Form::File),
    (BatchSystem::Flux, "FLUX_URI", Form::Command),
];

/// True in a job of a batch system.
pub fn in_job(var: &dyn Fn(&str) -> Option<String>) -> bool {
    let names = VARIABLES.iter().map(|(_, name, _)| *name);
    let mut names = names.chain(["SLURM_JOB_ID"]);
    names.any(|name| var(name).is_some())
}

/// True in a job step with several tasks: another task of the step is the same command. A batch
/// script is no such step, and its SLURM_NTASKS counts the tasks of the job.
pub fn is_one_of_several_tasks(var: &dyn Fn(&str) -> Option<String>) -> bool {
    let more_than = |name: &str, least: u32| {
        let number = var(name).and_then(|text| text.parse::<u32>().ok());
        number.is_some_and(|number| number > least)
    };
    more_than("SLURM_PROCID", 0) || more_than("SLURM_STEP_NUM_TASKS", 1)
}

/// The variable with the hosts of a job step, which can be fewer than those of its job.
const STEP: (BatchSystem, &str, Form) = (BatchSystem::Slurm, "SLURM_STEP_NODELIST", Form::List);

/// Returns the job of the first batch system that names its hosts; for a task of a job step with several, the step. Some systems repeat a host for
/// each of its slots, and LSF can name the launching host first: it is part of the job.
pub fn from_environment(
    var: &dyn Fn(&str) -> Option<String>,
    read: &dyn Fn(&str) -> std::io::Result<String>,
) -> Result<Job, HostListError> {
    let set = |name: &str| var(name).filter(|value| !value.trim().is_empty());
    let step = is_one_of_several_tasks(var).then_some(&STEP);
    let mut known = step.into_iter().chain(&VARIABLES);
    let (system, variable, form, value) = known
        .find_map(|&(system, name, form)| Some((system, name, form, set(name)?)))
        .ok_or_else(|| match set("SLURM_JOB_ID") {
            Some(_) => HostListError::NoNodeList,
            None => HostListError::NoJob,
        })?;
    let refused = |reason: String| HostListError::Job {
        place: match form {
            Form::File | Form::Rows => format!("{variable} {value}"),
            Form::List | Form::Pairs | Form::Command => variable.to_owned(),
        },
        reason,
    };
    let file = || read(&value).map_err(|error| refused(error.to_string()));
    let text = match form {
        Form::List => value.clone(),
        Form::Pairs => lines_of(value.split_whitespace().step_by(2)),
        Form::File => file()?,
        Form::Rows => {
            let text = file()?;
            let rows = text.lines();
            lines_of(rows.filter_map(|row| row.split_whitespace().next()))
        }
        Form::Command => return Err(HostListError::Flux),
    };
    let mut hosts = parse(&text).map_err(|error| match error {
        HostListError::Empty => refused("it names no host".to_owned()),
        error => refused(error.to_string()),
    })?;
    let mut seen = std::collections::BTreeSet::new();
    hosts.retain(|host| seen.insert(host.name.clone()));
    Ok(Job { system, hosts })
}

/// Puts each word on a line.
fn lines_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The job of an environment in which every file has this text, or cannot be read.
    fn job(variables: &[(&str, &str)], file: Result<&str, ()>) -> Result<Job, HostListError> {
        let var = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let read = |_: &str| {
            file.map(str::to_owned)
                .map_err(|()| std::io::Error::from(std::io::ErrorKind::NotFound))
        };
        from_environment(&var, &read)
    }

    fn names(job: &Job) -> Vec<&str> {
        job.hosts.iter().map(|host| host.name.as_str()).collect()
    }

    #[test]
    fn slurm_goes_before_pbs() {
        let both = [("SLURM_JOB_NODELIST", "n[1-2],m1"), ("PBS_NODEFILE", "/f")];
        let job = job(&both, Err(())).unwrap();
        assert_eq!(job.system, BatchSystem::Slurm);
        assert_eq!(names(&job), ["n1", "n2", "m1"]);
    }

    #[test]
    fn every_batch_system_names_its_hosts_and_a_slot_is_no_host() {
        use BatchSystem::{GridEngine, Lsf, Oar, Pbs};
        let rows = "b 2 all.q@b UNDEFINED\na.site 1 all.q@a.site <NULL>\nb 1 short.q@b UNDEFINED\n";
        for (system, variable, value, file, expected) in [
            (Pbs, "PBS_NODEFILE", "/f", "b\nb\na\nb\n", ["b", "a"]),
            (GridEngine, "PE_HOSTFILE", "/f", rows, ["b", "a.site"]),
            (Lsf, "LSB_DJOB_HOSTFILE", "/f", "b\na\na\n", ["b", "a"]),
            (Lsf, "LSB_MCPU_HOSTS", "b 1 a 16 ", "", ["b", "a"]),
            (Lsf, "LSB_HOSTS", "b a a", "", ["b", "a"]),
            (Oar, "OAR_NODEFILE", "/f", "b\nb\na\n", ["b", "a"]),
            (Oar, "OAR_FILE_NODES", "/f", "b\na\n", ["b", "a"]),
        ] {
            let job = job(&[(variable, value)], Ok(file)).unwrap();
            assert_eq!((job.system, &names(&job)[..]), (system, &expected[..]));
        }
    }

    /// Symptom: `srun -N2 pipebench --hosts auto` in a job of four hosts waited for the two that had no task.
    #[test]
    fn a_task_of_a_step_has_the_hosts_of_its_step() {
        let job_of = [
            ("SLURM_JOB_NODELIST", "n[1-4]"),
            ("SLURM_STEP_NODELIST", "n[2-3]"),
        ];
        let tasks = ("SLURM_STEP_NUM_TASKS", "2");
        let of_step = job(&[job_of[0], job_of[1], tasks], Err(())).unwrap();
        assert_eq!(names(&of_step), ["n2", "n3"]);
        // An interactive shell is a step on the first host alone.
        assert_eq!(names(&job(&job_of, Err(())).unwrap()).len(), 4);
    }

    /// LSF leaves LSB_HOSTS out of a large job, and every other variable of it has all hosts.
    #[test]
    fn the_first_variable_of_a_system_that_is_set_counts() {
        let all = [
            ("LSB_HOSTS", "c c"),
            ("LSB_MCPU_HOSTS", "b 2"),
            ("LSB_DJOB_HOSTFILE", "/f"),
        ];
        assert_eq!(names(&job(&all, Ok("a\n")).unwrap()), ["a"]);
        assert_eq!(names(&job(&all[..2], Err(())).unwrap()), ["b"]);
    }

    #[test]
    fn a_task_knows_its_job_and_its_place_in_the_step() {
        let set = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        for name in ["SLURM_JOB_ID", "PBS_NODEFILE", "PE_HOSTFILE", "FLUX_URI"] {
            assert!(in_job(&set(name, "7")), "{name}");
        }
        assert!(!in_job(&set("HOME", "/")));
    }

    /// Symptom: task 0 of `srun -n4 pipebench` started a run, and only the other tasks refused.
    #[test]
    fn every_task_of_a_step_with_several_tasks_knows_it_and_a_batch_script_is_none() {
        let is_one_of = |variables: &'static [(&'static str, &'static str)]| {
            is_one_of_several_tasks(&|asked: &str| {
                let found = variables.iter().find(|(name, _)| *name == asked);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(is_one_of(&[
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "4")
        ]));
        assert!(is_one_of(&[("SLURM_PROCID", "1")]));
        assert!(!is_one_of(&[
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "1")
        ]));
        assert!(!is_one_of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "16")]));
        assert!(!is_one_of(&[("HOME", "/")]));
    }

    #[test]
    fn an_environment_without_a_job_names_all_batch_systems() {
        let error = job(&[("SLURM_JOB_NODELIST", " ")], Err(())).unwrap_err();
        assert_eq!(error, HostListError::NoJob);
        for system in ["Slurm", "PBS", "Grid Engine", "LSF", "OAR", "Flux"] {
            assert!(error.to_string().contains(system), "{error}");
        }
    }

    /// Symptom: "this is no job of Slurm" in a job of Slurm.
    #[test]
    fn a_slurm_job_without_a_node_list_is_a_job() {
        let error = job(&[("SLURM_JOB_ID", "7")], Err(())).unwrap_err();
        assert_eq!(error, HostListError::NoNodeList);
        let pbs = [("SLURM_JOB_ID", "7"), ("PBS_NODEFILE", "/f")];
        assert_eq!(job(&pbs, Ok("a")).unwrap().system, BatchSystem::Pbs);
    }

    #[test]
    fn a_job_whose_hosts_cannot_be_read_names_variable_and_file() {
        let told = |variable: &str, value: &str, file| {
            job(&[(variable, value)], file).unwrap_err().to_string()
        };
        assert_eq!(
            told("OAR_NODEFILE", "/f", Err(())),
            "no hosts from OAR_NODEFILE /f: entity not found"
        );
        for (variable, text) in [
            ("PBS_NODEFILE", ""),
            ("PE_HOSTFILE", "\n \n"),
            ("LSB_DJOB_HOSTFILE", "\n"),
        ] {
            assert_eq!(
                told(variable, "/f", Ok(text)),
                format!("no hosts from {variable} /f: it names no host")
            );
        }
        assert_eq!(
            told("PE_HOSTFILE", "/f", Ok("-x 1 q\n")),
            "no hosts from PE_HOSTFILE /f: '-x' at column 1: bad host name: it begins with '-' and could be taken for an option"
        );
        assert!(told("LSB_HOSTS", "n[1", Ok("")).starts_with("no hosts from LSB_HOSTS: 'n[1'"));
    }

    #[test]
    fn in_a_flux_job_the_error_is_the_option_to_type() {
        let error = job(&[("FLUX_URI", "local:///run/flux/local")], Err(())).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("--hosts \"$(flux hostlist local)\""),
            "{text}"
        );
        let nested = [("FLUX_URI", "local:///f"), ("PBS_NODEFILE", "/f")];
        assert_eq!(job(&nested, Ok("a")).unwrap().system, BatchSystem::Pbs);
    }
}
