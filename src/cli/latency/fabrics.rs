//! Descriptions of fabrics: generates them by formula, imports them from the data of a site, and reads them.

use std::path::Path;

use crate::cli::files::keep_result;
use crate::cli::terminal::refuse;
use crate::store::bounded;
use crate::sys::why;
use latency::description;
use latency::fabric::{Draft, Fabric, FabricError};
use latency::generate as formulas;
use latency::import::{self as others, Topology};
use latency::routing::Rule;

use crate::cli::args::FabricKind;
use crate::cli::args::latency::{GenerateArguments, ImportArguments};

/// Prints an error, with its file and line if known; returns the exit code.
pub(crate) fn refused(path: Option<&Path>, error: &FabricError) -> u8 {
    match path {
        None => refuse(&error.what),
        Some(path) => refuse(&placed(path, error)),
    }
}

/// An error with its file, and its line if known.
pub(crate) fn placed(path: &Path, error: &FabricError) -> String {
    match error.line {
        0 => format!("{}: {}", path.display(), error.what),
        line => format!("{}:{line}: {}", path.display(), error.what),
    }
}

/// Reads the text of a file. On failure, prints the reason and returns the exit code as the error.
pub(crate) fn text_of(path: &Path) -> Result<String, u8> {
    bounded::given(path, bounded::FABRIC_BYTES)
        .map_err(|error| refuse(&format!("cannot read {}: {}", path.display(), why(&error))))
}

/// Reads a description. Returns its text and the fabric.
pub(crate) fn read(path: &Path) -> Result<(String, Fabric), u8> {
    let text = text_of(path)?;
    let fabric = description::read(&text).and_then(|draft| Fabric::new(&draft));
    let fabric = fabric.map_err(|error| refused(Some(path), &error))?;
    Ok((text, fabric))
}

/// Checks a draft and writes it.
fn keep(draft: Result<Draft, FabricError>, path: &Path, source: Option<&Path>) -> Result<u8, u8> {
    let checked = draft.and_then(|draft| Fabric::new(&draft).map(|_| draft));
    let draft = checked.map_err(|error| refused(source, &error))?;
    Ok(keep_result(path, description::write(&draft)))
}

/// Writes the description of a fabric by formula; returns the exit code.
pub(crate) fn generate(words: &GenerateArguments) -> Result<u8, u8> {
    let rule = |usual| words.rule.unwrap_or(usual);
    let hosts = words.hosts_per_switch;
    let draft = match words.kind {
        FabricKind::FatTree => formulas::fat_tree(words.ports, words.levels, rule(Rule::Symmetric)),
        FabricKind::LeafSpine => {
            formulas::leaf_spine(words.leaves, words.spines, hosts, rule(Rule::Symmetric))
        }
        FabricKind::Dragonfly => {
            formulas::dragonfly(words.group, words.globals, hosts, rule(Rule::PairHash))
        }
        FabricKind::SlimFly => formulas::slim_fly(words.prime, hosts, rule(Rule::PairHash)),
    };
    keep(draft, &words.output, None)
}

/// Writes the description of a fabric from the data of a site; returns the exit code.
pub(crate) fn import(words: &ImportArguments) -> Result<u8, u8> {
    let rule = |usual: Rule| words.rule.unwrap_or(usual).name();
    if let Some(path) = &words.table {
        let draft = others::table(&text_of(path)?, rule(Rule::Symmetric));
        return keep(draft, &words.output, Some(path));
    }
    let Some(path) = &words.ibnetdiscover else {
        return Err(refuse(&"give --ibnetdiscover FILE or --table FILE"));
    };
    let topology = Topology::read(&text_of(path)?).map_err(|error| refused(Some(path), &error))?;
    match &words.tables {
        Some(tables) => {
            let draft = topology.by_tables(&text_of(tables)?);
            keep(draft, &words.output, Some(tables))
        }
        None => {
            let draft = topology.by_rule(rule(Rule::DestinationMod));
            keep(Ok(draft), &words.output, Some(path))
        }
    }
}
