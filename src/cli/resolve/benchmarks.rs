//! Benchmarks of `pipebench imb` and their message lengths, as words and files name them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::plan::imb::{Benchmark, MOST_LOG, Rules, usual};

use super::error::{UsageError, refuse};
use crate::cli::args::imb::ImbArguments;
use crate::cli::mistakes::like;

/// Most lengths in a file.
const MOST_LENGTHS: usize = 10_000;

/// Benchmarks of --include, then those named on the command line and in a file, or the usual ones of the rules if none are named; without those of
/// --exclude-benchmarks.
pub(super) fn benchmarks(words: &ImbArguments, rules: Rules) -> Result<Vec<Benchmark>, UsageError> {
    let typed = |words: &[String]| -> Vec<(String, String)> {
        let names = words.iter().flat_map(|word| word.split(','));
        names.map(|name| (String::new(), name.to_owned())).collect()
    };
    let mut names = typed(&words.benchmarks);
    if let Some(path) = &words.input {
        for (number, line) in lines_of("--input", path)? {
            names.push((format!("{}:{number}: ", path.display()), line));
        }
        if names.is_empty() {
            return refuse(format!(
                "--input {}: the file contains no benchmark",
                path.display()
            ));
        }
    }
    let mut found = named(typed(&words.include))?;
    match names.is_empty() {
        true => found.extend(usual(words.part, rules)),
        false => found.extend(named(names)?),
    }
    let excluded = named(typed(&words.exclude_benchmarks))?;
    let mut known = BTreeSet::new();
    found.retain(|one| !excluded.contains(one) && known.insert(*one));
    match found.is_empty() {
        true => refuse("--exclude-benchmarks leaves no benchmark"),
        false => Ok(found),
    }
}

/// Benchmarks by their names, each with the place where it stands.
fn named(names: Vec<(String, String)>) -> Result<Vec<Benchmark>, UsageError> {
    let one = |(place, name): (String, String)| {
        let bare = name
            .get(..6)
            .filter(|start| start.eq_ignore_ascii_case("multi-"));
        if let Some(known) = Benchmark::named(if bare.is_some() { &name[6..] } else { &name }) {
            return Ok(known);
        }
        refuse(match elsewhere(&name) {
            Some(text) => format!("{place}{name:?} {text}"),
            None => format!(
                "{place}{name:?} is not a benchmark (see 'pipebench imb --help'){}",
                like(&name, Benchmark::all().map(Benchmark::name))
            ),
        })
    };
    names.into_iter().map(one).collect()
}

/// What a name means in the suite of today, or among the OSU micro-benchmarks, if pipebench does not have it.
fn elsewhere(name: &str) -> Option<String> {
    /// Benchmarks whose names do not show their program.
    const OTHERS: [(&str, &[&str]); 3] = [
        ("IMB-MPI1", &["reduce_local"]),
        (
            "IMB-RMA",
            &[
                "one_put_all",
                "one_get_all",
                "all_put_all",
                "all_get_all",
                "put_local",
                "get_local",
                "put_all_local",
                "get_all_local",
                "exchange_put",
                "exchange_get",
                "get_accumulate",
                "fetch_and_op",
                "compare_and_swap",
                "truly_passive_put",
            ],
        ),
        (
            "IMB-P2P",
            &[
                "unirandom",
                "birandom",
                "corandom",
                "stencil2d",
                "stencil3d",
                "sendrecv_replace",
            ],
        ),
    ];
    let name = name.to_ascii_lowercase();
    if let Some(program) = name.strip_prefix("imb-") {
        return Some(match program {
            "mpi1" => "is a program of the suite: leave out its name".to_owned(),
            "ext" | "io" => format!("is a program of the suite: write --part {program}"),
            _ => "is a program of the suite that pipebench lacks".to_owned(),
        });
    }
    if let Some(osu) = name.strip_prefix("osu_") {
        let same = match osu {
            "latency" => Some(Benchmark::PingPong),
            "bw" | "mbw_mr" => Some(Benchmark::Uniband),
            "bibw" => Some(Benchmark::Biband),
            other => Benchmark::named(other),
        };
        let same = same.map_or("", Benchmark::name);
        return (!same.is_empty()).then(|| format!("is {same} here"));
    }
    for source in ["specificsource", "anysource"] {
        let same = name.strip_suffix(source).and_then(Benchmark::named);
        if let Some(same) = same.map(Benchmark::name) {
            return Some(format!(
                "is {same} here, whose ranks receive from their partner"
            ));
        }
    }
    let without_i = name
        .strip_prefix('i')
        .map(|rest| rest.trim_end_matches("_pure"));
    let mut others = OTHERS.iter();
    let program = match () {
        () if name.contains("_persist") => "IMB-MPI4",
        () if name.ends_with("mt") => "IMB-MT",
        () if without_i.and_then(Benchmark::named).is_some() => "IMB-NBC",
        () => others.find(|(_, names)| names.contains(&name.as_str()))?.0,
    };
    Some(format!(
        "is a benchmark of {program}, which pipebench lacks"
    ))
}

/// Lines of a file with their numbers, without comments and empty lines.
fn lines_of(flag: &str, path: &Path) -> Result<Vec<(usize, String)>, UsageError> {
    let text = crate::store::runs::read(path).map_err(|error| UsageError::of(flag, error))?;
    let bare = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let lines = text.lines().enumerate();
    Ok(lines
        .map(|(number, line)| (number + 1, bare(line)))
        .filter(|(_, line)| !line.is_empty())
        .collect())
}

/// A length in bytes, with k or m for binary units.
pub(super) fn length(place: &str, text: &str) -> Result<usize, UsageError> {
    let (digits, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1 << 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok();
    match bytes.and_then(|bytes| bytes.checked_mul(unit)) {
        Some(bytes) if bytes <= 1 << MOST_LOG => Ok(bytes),
        _ => refuse(format!(
            "{place}: {text:?} is not a length (from 0 to 1 GiB)"
        )),
    }
}

/// Lengths in a file, one per line.
pub(super) fn lengths_of(path: &Path) -> Result<Vec<usize>, UsageError> {
    let lines = lines_of("--msglen", path)?;
    let path = path.display();
    let mut lengths = Vec::new();
    for (number, line) in lines {
        lengths.push(length(&format!("{path}:{number}"), &line)?);
    }
    match lengths.len() {
        0 => refuse(format!("--msglen {path}: the file contains no length")),
        some if some > MOST_LENGTHS => {
            refuse(format!("--msglen {path}: more than {MOST_LENGTHS} lengths"))
        }
        _ => Ok(lengths),
    }
}
