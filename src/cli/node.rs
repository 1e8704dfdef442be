//! `pipebench node`: started by the launcher on every host, never by hand.

use launcher::Program;

use crate::{exit, node};

use super::terminal;

/// Serves until told to leave.
pub fn serve() -> u8 {
    let program = match Program::current() {
        Ok(program) => program,
        Err(error) => {
            terminal::complain(&format!("cannot read the own executable: {error}"));
            return exit::BUG;
        }
    };
    match node::serve(program.digest) {
        Ok(code) => code,
        Err(error) => {
            terminal::complain(&error.to_string());
            exit::RESOURCE
        }
    }
}
