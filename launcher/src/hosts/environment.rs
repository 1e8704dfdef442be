//! The hosts of the job that this process runs in: Slurm's list, or the node file of PBS.
//!
//! The caller passes variables and files as functions, so that nothing here depends on the
//! environment of the process.

use super::expression::parse;
use super::{Host, HostListError};

/// True in a job of Slurm or PBS.
pub fn in_job(var: &dyn Fn(&str) -> Option<String>) -> bool {
    let mut names = ["SLURM_JOB_ID", "SLURM_JOB_NODELIST", "PBS_NODEFILE"].into_iter();
    names.any(|name| var(name).is_some())
}

/// True in a task of a job step that is not the first: another task of the step is the same command.
pub fn is_further_task(var: &dyn Fn(&str) -> Option<String>) -> bool {
    let number = var("SLURM_PROCID").and_then(|text| text.parse::<u32>().ok());
    number.is_some_and(|number| number > 0)
}

/// Returns the job's hosts, each name once and in the job's order. Slurm goes before PBS.
pub fn from_environment(
    var: &dyn Fn(&str) -> Option<String>,
    read: &dyn Fn(&str) -> std::io::Result<String>,
) -> Result<Vec<Host>, HostListError> {
    let set = |name: &str| var(name).filter(|value| !value.trim().is_empty());
    let text = if let Some(list) = set("SLURM_JOB_NODELIST") {
        list
    } else if let Some(path) = set("PBS_NODEFILE") {
        read(&path).map_err(|error| HostListError::NodeFile {
            path,
            reason: error.to_string(),
        })?
    } else {
        return Err(HostListError::NoJob);
    };
    let mut seen = std::collections::BTreeSet::new();
    Ok(parse(&text)?
        .into_iter()
        .filter(|host| seen.insert(host.name.clone()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(
        variables: &[(&str, &str)],
        file: Result<&str, ()>,
    ) -> Result<Vec<String>, HostListError> {
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
        Ok(from_environment(&var, &read)?
            .into_iter()
            .map(|host| host.name)
            .collect())
    }

    #[test]
    fn slurm_goes_before_pbs() {
        let both = [("SLURM_JOB_NODELIST", "n[1-2],m1"), ("PBS_NODEFILE", "/f")];
        assert_eq!(with(&both, Err(())).unwrap(), ["n1", "n2", "m1"]);
    }

    #[test]
    fn a_node_file_names_a_host_per_slot() {
        let names = with(&[("PBS_NODEFILE", "/f")], Ok("b\nb\na\nb\n")).unwrap();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn a_task_knows_its_job_and_its_place_in_the_step() {
        let set = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        assert!(in_job(&set("SLURM_JOB_ID", "7")) && in_job(&set("PBS_NODEFILE", "/f")));
        assert!(!in_job(&set("HOME", "/")));
        assert!(is_further_task(&set("SLURM_PROCID", "1")));
        assert!(!is_further_task(&set("SLURM_PROCID", "0")));
        assert!(!is_further_task(&set("HOME", "/")));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = with(&[("SLURM_JOB_NODELIST", " ")], Err(())).unwrap_err();
        assert_eq!(error, HostListError::NoJob);
        let text = error.to_string();
        assert!(text.contains("SLURM_JOB_NODELIST") && text.contains("PBS_NODEFILE"));
        let error = with(&[("PBS_NODEFILE", "/f")], Err(())).unwrap_err();
        assert!(matches!(error, HostListError::NodeFile { ref path, .. } if path == "/f"));
    }
}
