//! `pipebench run` and `pipebench init`: runs from plan files.

use std::path::Path;

use crate::exit;
use crate::store;

use super::args::{InitArguments, Measurement, RunArguments};
use super::drive;
use super::planfile;
use super::resume;
use super::run;
use super::terminal::{complain, write_all};

/// Runs a plan file; returns the exit code.
pub(super) fn run(words: &RunArguments) -> u8 {
    let (mut arguments, mut spec) = match planfile::read(&words.plan) {
        Ok(read) => read,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    let kept = arguments.folder().map(Path::to_owned);
    let of_plan = arguments.results;
    arguments.results = Measurement {
        folder: words.results.folder.clone().or(kept),
        baseline: words.results.baseline.clone().or(of_plan.baseline),
        ..words.results.clone()
    };
    spec.plan.keep_going |= words.results.keep_going;
    if let Some(name) = &words.resume {
        let folder = arguments.folder().unwrap_or(Path::new("."));
        if let Err(error) = resume::go_on(&mut spec, name, folder) {
            complain(&error);
            return exit::USAGE;
        }
    }
    drive::compared(spec, &run::output_of(&arguments))
}

/// Writes the template of a plan file; returns the exit code.
pub(super) fn init(words: &InitArguments) -> u8 {
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
