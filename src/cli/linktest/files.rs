//! `pipebench linktest show` and `export`: read result files, no matter which program wrote them.

use std::path::Path;

use crate::cli::args::linktest::FileCommand;
use crate::cli::files::keep_file;
use crate::cli::terminal::{complain, refuse, tell};
use crate::exit;
use crate::report::linktest::file;
use crate::store::linktest::{self, LinktestFile};
use crate::store::sion::Stored;
use crate::sys::why;

/// Runs the command; returns the exit code.
pub(super) fn run(command: &FileCommand) -> Result<u8, u8> {
    match command {
        FileCommand::Show { file } => Ok(tell(&file::text(&read(file)?))),
        FileCommand::Export { file, csv, json } => {
            if csv.is_none() && json.is_none() {
                let text = "export: give --csv or --json";
                return Err(refuse(&text));
            }
            if csv == json && csv.as_deref() == Some(Path::new("-")) {
                let text = "export: --csv and --json both go to standard output (name a file for one of them)";
                return Err(refuse(&text));
            }
            Ok(export(&read(file)?, csv.as_deref(), json.as_deref()))
        }
    }
}

fn export(read: &LinktestFile, csv: Option<&Path>, json: Option<&Path>) -> u8 {
    let (mut written, mut undecided) = (true, false);
    if let Some(path) = csv {
        match file::csv(read) {
            Ok(Some(table)) => written &= keep_file(path, Ok(table)),
            Ok(None) => {
                complain(file::UNDECIDABLE);
                undecided = true;
            }
            Err(error) => written &= keep_file(path, Err(error.to_string())),
        }
    }
    if let Some(path) = json {
        written &= keep_file(path, file::json(read).map_err(|error| error.to_string()));
    }
    match (written, undecided) {
        (false, _) => exit::NOT_WRITTEN,
        (true, true) => exit::UNDECIDED,
        (true, false) => exit::OK,
    }
}

fn read(path: &Path) -> Result<LinktestFile, u8> {
    let name = path.display();
    let file = Stored::open(path)
        .map_err(|error| refuse(&format!("cannot read {name}: {}", why(&error))))?;
    linktest::read(&file).map_err(|error| refuse(&format!("{name}: {error}")))
}
