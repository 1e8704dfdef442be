//! `pipebench run` and `pipebench init`: runs from plan files.

use std::path::Path;

use crate::exit;
use crate::store;

use super::args::{InitArguments, RunArguments};
use super::planfile;
use super::resume;
use super::run::{self, Telling};
use super::terminal::{complain, write_all};

/// Runs a plan file; returns the exit code.
pub fn run(words: &RunArguments) -> u8 {
    let (mut arguments, mut intent) = match planfile::read(&words.plan) {
        Ok(read) => read,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    arguments.json.clone_from(&words.json);
    arguments.csv.clone_from(&words.csv);
    arguments.quiet = words.quiet;
    arguments.dry_run = words.dry_run;
    if let Some(name) = &words.resume {
        let folder = arguments.output.as_deref().unwrap_or(Path::new("."));
        if let Err(error) = resume::go_on(&mut intent, name, folder) {
            complain(&error);
            return exit::USAGE;
        }
    }
    let baseline = match run::baseline(&arguments) {
        Ok(baseline) => baseline,
        Err(code) => return code,
    };
    run::execute(&arguments, intent, &Telling::Run(baseline.as_ref()))
}

/// Writes the template of a plan file; returns the exit code.
pub fn init(words: &InitArguments) -> u8 {
    if words.path.as_path() == Path::new("-") {
        let written = write_all(&mut std::io::stdout().lock(), planfile::TEMPLATE);
        return if written { exit::OK } else { exit::NOT_WRITTEN };
    }
    if words.path.exists() {
        complain(&format!(
            "{} is there already: it is left alone",
            words.path.display()
        ));
        return exit::USAGE;
    }
    match store::write_file(&words.path, planfile::TEMPLATE) {
        Ok(()) => exit::OK,
        Err(error) => {
            complain(&error.to_string());
            exit::NOT_WRITTEN
        }
    }
}
