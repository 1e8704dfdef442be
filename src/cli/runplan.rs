//! `pipebench run` and `pipebench init`: runs from plan files.

use std::path::Path;

use crate::exit;

use super::args::{InitArguments, Measurement, RunArguments};
use super::drive;
use super::files::keep_file;
use super::planfile;
use super::resume;
use super::run;
use super::terminal::refuse;

/// Runs a plan file; returns the exit code.
pub(super) fn run(words: &RunArguments) -> Result<u8, u8> {
    let (mut arguments, mut spec) = planfile::read(&words.plan).map_err(|error| refuse(&error))?;
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
        resume::go_on(&mut spec, name, folder).map_err(|error| refuse(&error))?;
    }
    drive::compared(spec, &run::output_of(&arguments))
}

/// Writes the template of a plan file; returns the exit code.
pub(super) fn init(words: &InitArguments) -> Result<u8, u8> {
    if words.path.as_path() != Path::new("-") && words.path.exists() {
        return Err(refuse(&format!(
            "{} is there already: it is left alone",
            words.path.display()
        )));
    }
    match keep_file(&words.path, Ok(planfile::TEMPLATE.to_owned())) {
        true => Ok(exit::OK),
        false => Ok(exit::NOT_WRITTEN),
    }
}
