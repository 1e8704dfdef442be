//! `pipebench run` and `pipebench init`: runs from plan files.

use std::path::Path;

use super::args::{InitArguments, RunArguments};
use super::check;
use super::draft;
use super::drive;
use super::files::keep_result;
use super::planfile;
use super::run;
use super::terminal::refuse;

/// Runs a plan file; returns the exit code.
pub(super) fn run(words: &RunArguments) -> Result<u8, u8> {
    let read = planfile::read(&words.plan, &words.results);
    let (arguments, spec) = read.map_err(|error| refuse(&error))?;
    drive::drive(&run::output_of(&arguments), &arguments.hosts, |_, _| {
        Ok(spec)
    })
}

/// Writes a plan file: the template, or one for the hosts that the words name; returns the exit code.
pub(super) fn init(words: &InitArguments) -> Result<u8, u8> {
    if words.path.as_path() != Path::new("-") && words.path.exists() {
        return Err(refuse(&format!(
            "{} exists already (name another file)",
            words.path.display()
        )));
    }
    let mut options = draft::given(std::env::args_os());
    if words.hosts.list.is_some() || words.hosts.file.is_some() {
        options.retain(|(name, _)| name != "exclude");
        return check::into_plan(words, &options);
    }
    match options.first() {
        None => Ok(keep_result(&words.path, planfile::TEMPLATE.to_owned())),
        Some((name, _)) => Err(refuse(&format!(
            "--{name} needs --hosts or --hostfile: without hosts, init writes an example"
        ))),
    }
}
