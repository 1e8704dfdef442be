//! Errors in arguments.

use std::fmt::Display;

use thiserror::Error;

use crate::plan::PatternError;

/// Error in arguments: one sentence with the flag to change.
#[derive(Debug, Error)]
pub(crate) enum UsageError {
    /// A pattern does not suit the nodes.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A value makes no sense, or a file cannot be read.
    #[error("{0}")]
    Value(String),
}

impl UsageError {
    /// Error in the value of an option.
    pub(super) fn of(flag: &str, error: impl Display) -> Self {
        Self::Value(format!("{flag}: {error}"))
    }
}

/// Refuses arguments with a sentence.
pub(super) fn refuse<T>(text: impl Into<String>) -> Result<T, UsageError> {
    Err(UsageError::Value(text.into()))
}
