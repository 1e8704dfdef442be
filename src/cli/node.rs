//! `pipebench node`: the launcher starts it on every host; users never do.

use std::process::ExitCode;

use clap::Parser;

use crate::{exit, node};

use super::args::JoinArguments;
use super::join;
use super::process::BUILD;
use super::terminal::{fail, tell};

/// Runs `pipebench-node`, which travels to hosts instead of the whole executable, and is all that an image for nodes needs.
pub fn main() -> ExitCode {
    let word = std::env::args().nth(1);
    let code = match word.as_deref() {
        Some("node") => serve(),
        Some("join") => joined(),
        _ => Ok(tell(BUILD)),
    };
    let (Ok(code) | Err(code)) = code;
    ExitCode::from(code)
}

/// The words of `pipebench-node`.
#[derive(Parser)]
enum Words {
    /// As `pipebench join`
    Join(JoinArguments),
}

/// Joins a waiting run; returns the exit code.
fn joined() -> Result<u8, u8> {
    match Words::try_parse() {
        Ok(Words::Join(words)) => join::run(&words),
        Err(error) => {
            // A closed output hears nothing.
            let (Ok(()) | Err(_)) = error.print();
            Err(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE))
        }
    }
}

/// Serves until the launching side ends it; returns the exit code.
pub(super) fn serve() -> Result<u8, u8> {
    // File names are relative to the folder in which the remote shell started.
    let from = std::env::var_os(launcher::FROM).filter(|from| !from.is_empty());
    if let Some(from) = from
        && let Err(error) = std::env::set_current_dir(&from)
    {
        let text = format!("cannot enter {}: {error}", from.display());
        return Err(fail(&text, exit::RESOURCE));
    }
    // The executable is read piece by piece: every child process would inherit a copy in memory.
    let digest = launcher::own_digest().map_err(|error| {
        let text = format!("cannot read this executable: {error}");
        fail(&text, exit::BUG)
    })?;
    node::serve(digest).map_err(|error| fail(&error, exit::RESOURCE))
}
