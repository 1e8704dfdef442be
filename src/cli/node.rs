//! `pipebench node`: the launcher starts it on every host; users never do.

use crate::{exit, node};

use super::terminal;

/// Serves until the launching side ends it; returns the exit code.
pub(super) fn serve() -> u8 {
    // File names are relative to the folder in which the remote shell started.
    let from = std::env::var_os(launcher::FROM).filter(|from| !from.is_empty());
    if let Some(from) = from
        && let Err(error) = std::env::set_current_dir(&from)
    {
        terminal::complain(&format!("cannot enter {}: {error}", from.display()));
        return exit::RESOURCE;
    }
    // The executable is read piece by piece: every child process would inherit a copy in memory.
    let digest = match launcher::own_digest() {
        Ok(digest) => digest,
        Err(error) => {
            terminal::complain(&format!("cannot read the own executable: {error}"));
            return exit::BUG;
        }
    };
    match node::serve(digest) {
        Ok(code) => code,
        Err(error) => {
            terminal::complain(&error.to_string());
            exit::RESOURCE
        }
    }
}
