//! The record itself, as JSON; its fields are described in docs/record.md.

use crate::record::{RECORD_VERSION, Record};

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// No JSON, or none of a record.
    #[error("not a record: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Another version.
    #[error("record of version {0}, this is version {RECORD_VERSION}")]
    Version(u64),
}

/// The record as text, with a newline at its end.
pub fn write(record: &Record) -> Result<String, JsonError> {
    Ok(serde_json::to_string_pretty(record)? + "\n")
}

/// Reads a record.
pub fn read(text: &str) -> Result<Record, JsonError> {
    let value: serde_json::Value = serde_json::from_str(text)?;
    let version = value
        .get("version")
        .and_then(serde_json::Value::as_u64)
        .unwrap_or(0);
    if version != u64::from(RECORD_VERSION) {
        return Err(JsonError::Version(version));
    }
    Ok(serde_json::from_value(value)?)
}
