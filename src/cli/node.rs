//! `pipebench node`: started by the launcher on every host, never by hand.

use launcher::Program;

use crate::{exit, node};

use super::terminal;

/// Serves until told to leave.
pub fn serve() -> u8 {
    // The digest alone: every process below would inherit the copy of the executable that it was made from.
    let digest = match Program::current() {
        Ok(program) => program.digest,
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
