//! Host lists: turns a user's text into entries, one per node.
//!
//! Duty: the grammar of `--hosts`, host files, job environments, exclusion and folding. Pure: the
//! caller passes files and variables as functions. Does not resolve names; read next `resolve.rs`.

mod environment;
mod expression;
mod fold;
mod hostfile;

use std::collections::{BTreeMap, BTreeSet};

pub use environment::from_environment;
pub use expression::parse;
pub use fold::fold;
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
    /// A bracket without its partner.
    #[error("'{text}' at column {column}: bracket without its partner (example: n[01-16,18])")]
    Bracket {
        /// The entry.
        text: String,
        /// The column in which the entry begins.
        column: usize,
    },
    /// Text in brackets that is no list of numbers and ranges.
    #[error(
        "'{text}' at column {column}: bad range '{range}': {reason} (examples: [1-16], [01-16,18], [1-63/2])"
    )]
    Range {
        /// The entry.
        text: String,
        /// The column in which the entry begins.
        column: usize,
        /// The range.
        range: String,
        /// The reason.
        reason: &'static str,
    },
    /// A name that is empty, is too long, or could be mistaken for something else.
    #[error("'{name}' at column {column}: bad host name: {reason}")]
    Name {
        /// The name.
        name: String,
        /// The column in which the entry begins.
        column: usize,
        /// The reason.
        reason: String,
    },
    /// A user name that is empty or could be mistaken for something else.
    #[error(
        "'{user}' at column {column}: bad user name (letters, digits and . _ + $ \\ - are allowed, not '-' first)"
    )]
    User {
        /// The user.
        user: String,
        /// The column in which the entry begins.
        column: usize,
    },
    /// A port that is not a number from 1 to 65535.
    #[error(
        "'{text}' at column {column}: bad port '{port}' (1 to 65535; an IPv6 address needs brackets: [::1]:22)"
    )]
    Port {
        /// The entry.
        text: String,
        /// The column in which the entry begins.
        column: usize,
        /// The port as written.
        port: String,
    },
    /// A bad number of nodes after `local:`.
    #[error(
        "'{text}' at column {column}: bad number of local nodes (1 to {MAX_HOSTS}; example: local:3)"
    )]
    LocalCount {
        /// The entry.
        text: String,
        /// The column in which the entry begins.
        column: usize,
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
    /// No job environment exists: neither variable is set.
    #[error(
        "neither SLURM_JOB_NODELIST nor PBS_NODEFILE is set (name the hosts, or run inside a job)"
    )]
    NoJob,
    /// The job's file of nodes cannot be read.
    #[error("cannot read PBS_NODEFILE {path}: {reason}")]
    NodeFile {
        /// The file.
        path: String,
        /// The error of the read.
        reason: String,
    },
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
