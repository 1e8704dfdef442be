//! Errors in arguments.

use std::path::PathBuf;

use launcher::hosts::HostListError;
use thiserror::Error;

use crate::plan::PatternError;
use crate::units::UnitError;

/// Error in arguments: one sentence with the flag to change.
#[derive(Debug, Error)]
pub(crate) enum UsageError {
    /// No hosts were named.
    #[error("no hosts: name them with --hosts or --hostfile (try --hosts local:3)")]
    NoHosts,
    /// No hosts are left.
    #[error("no hosts are left after --exclude")]
    AllExcluded,
    /// A host list is wrong.
    #[error("{0}: {1}")]
    Hosts(&'static str, HostListError),
    /// A file cannot be read.
    #[error("cannot read {}: {}", .0.display(), crate::sys::why(.1))]
    File(PathBuf, std::io::Error),
    /// A value with a unit is wrong.
    #[error("{0}: {1}")]
    Unit(&'static str, UnitError),
    /// A pattern does not suit the nodes.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A value makes no sense.
    #[error("{0}")]
    Value(String),
}
