//! Parsers for single values.

use crate::plan::ranks::{RankOrder, Wait};
use crate::units;

use super::error::UsageError;

/// Error for a word that is not one of the known ones.
pub fn choice(flag: &str, given: &str, known: &str) -> UsageError {
    UsageError::Value(format!("{flag} {given:?} is not known (write {known})"))
}

/// Parses a size with its unit, in bytes.
pub fn size(flag: &'static str, text: &str) -> Result<usize, UsageError> {
    let bytes = units::parse_bytes(text).map_err(|error| UsageError::Unit(flag, error))?;
    usize::try_from(bytes).map_err(|_| {
        UsageError::Value(format!(
            "{flag} {text} is more than this machine can address"
        ))
    })
}

/// Parses a time with its unit, in nanoseconds.
pub fn time(flag: &'static str, text: &str) -> Result<u64, UsageError> {
    units::parse_duration_ns(text).map_err(|error| UsageError::Unit(flag, error))
}

/// Parses `--wait`: the behaviour of ranks while nothing moves.
pub fn wait_of(text: &str) -> Result<Wait, UsageError> {
    let known = Wait::NAMES.iter().find(|(name, _)| *name == text);
    known.map(|(_, wait)| *wait).ok_or_else(|| {
        let names: Vec<&str> = Wait::NAMES.iter().map(|(name, _)| *name).collect();
        UsageError::Value(format!(
            "--wait {text:?} is not known (write {})",
            names.join(", ")
        ))
    })
}

/// Parses `--rank-order`: the node of each rank.
pub fn order_of(text: &str) -> Result<RankOrder, UsageError> {
    match text {
        "block" => Ok(RankOrder::Block),
        "round-robin" => Ok(RankOrder::RoundRobin),
        other => Err(choice("--rank-order", other, "block or round-robin")),
    }
}
