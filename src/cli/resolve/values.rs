//! Parsers for single values.

use crate::units;

use super::error::UsageError;

/// Parses a size with its unit, in bytes.
pub(super) fn size(flag: &'static str, text: &str) -> Result<usize, UsageError> {
    let bytes = units::parse_bytes(text).map_err(|error| UsageError::Unit(flag, error))?;
    usize::try_from(bytes).map_err(|_| {
        UsageError::Value(format!(
            "{flag} {text} is more than this machine can address"
        ))
    })
}

/// Parses a time with its unit, in nanoseconds.
pub(super) fn time(flag: &'static str, text: &str) -> Result<u64, UsageError> {
    units::parse_duration_ns(text).map_err(|error| UsageError::Unit(flag, error))
}
