//! Host lists: turns a user's text into entries, one per node.
//!
//! Duty: the grammar of `--hosts`, host files, job environments, exclusion and folding. Pure: the
//! caller passes files and variables as functions. Does not resolve names; read next `resolve.rs`.

mod environment;
mod expression;
mod fold;
mod hostfile;
mod range;

use std::collections::{BTreeMap, BTreeSet};

pub use environment::{BatchSystem, Job, from_environment, in_job, is_one_of_several_tasks};
pub use expression::{parse, parse_typed};
pub use fold::{fold, shorten};
pub use hostfile::hostfile;

/// Limit of the entries in a host list.
pub const MAX_HOSTS: usize = 10_000;

/// One entry of a host list. A name that occurs twice makes two entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// A name or an address, without brackets.
    pub name: String,
    /// The user to log in as.
    pub user: Option<String>,
    /// The port of the remote shell's server.
    pub port: Option<u16>,
    /// True for this machine, which needs no remote shell.
    pub local: bool,
    /// Further keys of the host file's line, with their values.
    pub attributes: BTreeMap<String, String>,
}

impl Host {
    fn named(name: &str) -> Host {
        Host {
            name: name.to_owned(),
            ..Host::default()
        }
    }
}

/// The reason to refuse a host list. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    /// The list has no entry.
    #[error("the host list is empty (example: n1,n2 or n[01-16])")]
    Empty,
    /// The list has more than [`MAX_HOSTS`] entries.
    #[error("the host list has more than {MAX_HOSTS} hosts")]
    TooMany,
    /// A bad entry.
    #[error("'{text}' at column {column}: {reason}")]
    Entry {
        /// The entry, or the part of it that is bad.
        text: String,
        /// The column in which the entry begins.
        column: usize,
        /// The reason, with an example or with what is allowed.
        reason: String,
    },
    /// A typed name that looks like a range.
    #[error("'{name}' is one host name; a range is {range} (a host file may contain such a name)")]
    LikeRange {
        /// The name.
        name: String,
        /// The host list that was probably meant.
        range: String,
    },
    /// An excluded name that the host list does not contain.
    #[error("cannot exclude '{name}': it is not in the host list")]
    NotInList {
        /// The name.
        name: String,
    },
    /// A bad line of a host file.
    #[error("host file line {line}: {reason}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The reason, with the key and the cure.
        reason: String,
    },
    /// No variable of a batch system is set.
    #[error(
        "this is no job of Slurm, PBS, Grid Engine, LSF, OAR or Flux (name the hosts, or run inside a job)"
    )]
    NoJob,
    /// A job of Slurm whose variables name no hosts.
    #[error("SLURM_JOB_ID is set, SLURM_JOB_NODELIST is not (name the hosts)")]
    NoNodeList,
    /// The list of the job's hosts cannot be used.
    #[error("no hosts from {place}: {reason}")]
    Job {
        /// The variable, with the file that it names.
        place: String,
        /// The error of the read, or the fault of the list.
        reason: String,
    },
    /// A job of Flux.
    #[error(
        "Flux sets no variable with the hosts of a job (write --hosts \"$(flux hostlist local)\")"
    )]
    Flux,
}

/// Removes every entry whose name is in the host list `pattern`. Fails if `pattern` is bad, or names
/// a host that `hosts` does not contain.
pub fn exclude(mut hosts: Vec<Host>, pattern: &str) -> Result<Vec<Host>, HostListError> {
    let present: BTreeSet<&String> = hosts.iter().map(|host| &host.name).collect();
    let mut out = BTreeSet::new();
    for Host { name, .. } in parse(pattern)? {
        if !present.contains(&name) {
            return Err(HostListError::NotInList { name });
        }
        out.insert(name);
    }
    hosts.retain(|host| !out.contains(&host.name));
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluding_takes_every_entry_of_a_name() {
        let left = exclude(parse("n[1-4],n2").unwrap(), "n[2-3]").unwrap();
        let names: Vec<_> = left.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["n1", "n4"]);
    }

    #[test]
    fn excluding_a_stranger_names_it() {
        let error = exclude(parse("n[1-4]").unwrap(), "n[4-5]").unwrap_err();
        assert_eq!(error, HostListError::NotInList { name: "n5".into() });
        assert_eq!(
            error.to_string(),
            "cannot exclude 'n5': it is not in the host list"
        );
    }
}
