//! `pipebench node`: started by the launcher on every host, never by hand.

use crate::{exit, node};

use super::terminal;

/// Serves until told to leave.
pub fn serve() -> u8 {
    // Names of files are meant from the folder in which the remote shell began.
    let from = std::env::var_os(launcher::FROM).filter(|from| !from.is_empty());
    if let Some(from) = from
        && let Err(error) = std::env::set_current_dir(&from)
    {
        terminal::complain(&format!("cannot enter {}: {error}", from.display()));
        return exit::RESOURCE;
    }
    // Read piece by piece: every process below would inherit a copy of the executable.
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
