//! Parsers for single values, and the list of options in effect.

use std::fmt::Display;

use crate::units;

use super::error::UsageError;

/// Parses a size with its unit, in bytes.
pub(super) fn size(flag: &str, text: &str) -> Result<usize, UsageError> {
    let bytes = units::parse_bytes(text).map_err(|error| UsageError::of(flag, error))?;
    usize::try_from(bytes).map_err(|_| {
        UsageError::Value(format!(
            "{flag} {text} is more than this machine can address"
        ))
    })
}

/// Parses a time with its unit, in nanoseconds.
pub(crate) fn time(flag: &str, text: &str) -> Result<u64, UsageError> {
    units::parse_duration_ns(text).map_err(|error| UsageError::of(flag, error))
}

/// Parses a rate with its unit, in bits per second.
pub(super) fn rate(flag: &str, text: &str) -> Result<u64, UsageError> {
    units::parse_rate_bits(text).map_err(|error| UsageError::of(flag, error))
}

/// Options in effect, in the order in which they are shown.
#[derive(Debug)]
pub(super) struct Options(pub Vec<(String, String)>);

impl Options {
    /// Begins the options of a command; the plain one has no name.
    pub(super) fn of(command: &str) -> Self {
        let version = format!("{} {command}", env!("CARGO_PKG_VERSION"));
        Self(vec![(
            "pipebench".to_owned(),
            version.trim_end().to_owned(),
        )])
    }

    /// Adds an option.
    pub(super) fn set(&mut self, name: &str, value: impl Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    /// Adds an option that has no default, if it was given.
    pub(super) fn given(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Adds an option without a value, if it was given.
    pub(super) fn flag(&mut self, name: &str, given: bool) {
        self.given(name, given.then_some("yes"));
    }

    /// Adds an option with several values, if it was given.
    pub(super) fn list(&mut self, name: &str, values: &[String]) {
        self.given(name, (!values.is_empty()).then(|| values.join(",")));
    }
}
