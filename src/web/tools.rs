//! Functions that the command line passes in, and the log on standard error.

use std::path::PathBuf;

use crate::plan::RunPlan;

/// Functions and paths that the command line passes to the web code.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    /// Parses the words of the plain command into a plan. The error is a sentence.
    pub understand: fn(&[String]) -> Result<RunPlan, String>,
    /// Returns the date, in milliseconds since 1970.
    pub now_ms: fn() -> u64,
    /// Returns 128 random bits as hexadecimal digits.
    pub random: fn() -> String,
    /// Path of this executable.
    pub program: PathBuf,
}

/// Writes one log line to standard error. Ignores write errors, because standard error can be closed.
pub(super) fn tell(what: &str) {
    use std::io::Write;
    let (Ok(()) | Err(_)) = writeln!(std::io::stderr(), "pipebench: {what}");
}
