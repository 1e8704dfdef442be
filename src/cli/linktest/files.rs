//! `pipebench linktest show` and `export`: result files, whoever wrote them.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::cli::run;
use crate::cli::terminal::{complain, write_all};
use crate::exit;
use crate::report::linktest::file;
use crate::store::linktest::{self, LinktestFile};
use crate::store::sion::Stored;
use crate::sys::why;

/// What can be done with result files.
#[derive(Debug, Clone, Subcommand)]
pub enum FileCommand {
    /// Show what a result file says
    Show {
        /// The file
        ///
        /// Example: pipebench linktest show pingpong_results_bin.sion
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Write what a result file says as a table or as JSON
    Export {
        /// The file
        ///
        /// Example: pipebench linktest export pingpong_results_bin.sion --csv -
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Every link of every set as a table; - is standard output
        ///
        /// Example: --csv links.csv
        #[arg(long, value_name = "FILE")]
        csv: Option<PathBuf>,

        /// Everything that stands in it; - is standard output
        ///
        /// Example: --json links.json
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

/// Does it; returns the exit code.
pub fn run(command: &FileCommand) -> u8 {
    match command {
        FileCommand::Show { file } => read(file).map_or_else(
            |code| code,
            |read| match write_all(&mut std::io::stdout().lock(), &file::text(&read)) {
                true => exit::OK,
                false => {
                    complain("cannot write to standard output");
                    exit::NOT_WRITTEN
                }
            },
        ),
        FileCommand::Export { file, csv, json } => {
            if csv.is_none() && json.is_none() {
                complain("export: say --csv FILE or --json FILE (- is standard output)");
                return exit::USAGE;
            }
            read(file).map_or_else(
                |code| code,
                |read| export(&read, csv.as_deref(), json.as_deref()),
            )
        }
    }
}

fn export(read: &LinktestFile, csv: Option<&Path>, json: Option<&Path>) -> u8 {
    let (mut written, mut undecided) = (true, false);
    if let Some(path) = csv {
        match file::csv(read) {
            Ok(Some(table)) => written &= run::keep(path, Ok(table)),
            Ok(None) => {
                complain(file::UNDECIDABLE);
                undecided = true;
            }
            Err(error) => written &= run::keep(path, Err(error.to_string())),
        }
    }
    if let Some(path) = json {
        written &= run::keep(path, file::json(read).map_err(|error| error.to_string()));
    }
    match (written, undecided) {
        (false, _) => exit::NOT_WRITTEN,
        (true, true) => exit::UNDECIDED,
        (true, false) => exit::OK,
    }
}

fn read(path: &Path) -> Result<LinktestFile, u8> {
    let file = Stored::open(path).map_err(|error| {
        complain(&format!("cannot read {}: {}", path.display(), why(&error)));
        exit::USAGE
    })?;
    linktest::read(&file).map_err(|error| {
        complain(&format!("{}: {error}", path.display()));
        exit::USAGE
    })
}
