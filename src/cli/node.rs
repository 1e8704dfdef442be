//! `pipebench node`: the launcher starts it on every host; users never do.

use crate::{exit, node};

use super::terminal::fail;

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
