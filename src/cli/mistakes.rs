//! Answers to mistakes on the command line: one line that says what to type instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit;

use super::args;
use super::terminal::refuse;

/// Options of iperf3 that pipebench lacks or that mean something else, and what to type instead.
const OF_IPERF: [(&str, &str); 8] = [
    ("-c", NO_SERVER),
    ("-s", NO_SERVER),
    ("-P", "parallel links are --streams K"),
    ("-R", "both directions are measured at the same time"),
    ("-u", "pipebench measures TCP only"),
    ("-b", "a limit of the rate is --rate RATE"),
    ("-n", "a volume is --buffers N, in blocks of --block-size"),
    (
        "-J",
        "the record is --json FILE, or --json - for standard output",
    ),
];
const NO_SERVER: &str = "no server is needed: name the hosts with --hosts A,B";

/// Prints one line for bad usage, or the help as clap prints it; returns the exit code.
pub(super) fn explain(error: &clap::Error) -> u8 {
    let code = match error.kind() {
        ErrorKind::DisplayHelp => Some(exit::OK),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Some(exit::USAGE),
        _ => None,
    };
    if let Some(code) = code {
        // A reader that has gone away is no failure.
        let (Ok(()) | Err(_)) = error.print();
        return code;
    }
    refuse(&answer(error))
}

/// First paragraph of clap's error, as one line.
pub(super) fn first_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim)
        .collect();
    let first = first.join(" ");
    first.strip_prefix("error: ").unwrap_or(&first).to_owned()
}

/// The line for a mistake that clap found.
fn answer(error: &clap::Error) -> String {
    let hint = hint(error).unwrap_or_else(|| format!("see '{}'", help_of(error)));
    format!("{} ({hint})", first_sentence(error))
}

/// The command that explains the options of a mistaken one: clap shows its usage.
fn help_of(error: &clap::Error) -> String {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let words = usage
        .split_whitespace()
        .skip_while(|word| *word != "pipebench")
        .skip(1);
    let is_command = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_lowercase());
    let command: Vec<&str> = words.take_while(is_command).collect();
    match command.is_empty() {
        true => "pipebench --help".to_owned(),
        false => format!("pipebench help {}", command.join(" ")),
    }
}

/// The words to type instead, if they are known.
fn hint(error: &clap::Error) -> Option<String> {
    let wrong = text_of(error, ContextKind::InvalidArg);
    let is_digit = |letter: char| letter.is_ascii_digit();
    match (error.kind(), &wrong) {
        (ErrorKind::UnknownArgument, Some(option)) => {
            let known = OF_IPERF.iter().find(|(name, _)| name == option);
            if let Some((_, instead)) = known {
                return Some((*instead).to_owned());
            }
            if option
                .strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(is_digit))
            {
                return Some("times, sizes and rates must be positive".to_owned());
            }
        }
        (ErrorKind::ArgumentConflict, _) => {
            let first = text_of(error, ContextKind::PriorArg)?;
            let name = first_sentence(error);
            let name = name.strip_prefix("the subcommand '")?.split('\'').next()?;
            return Some(match args::command().find_subcommand(name) {
                Some(_) => format!("write the command first: pipebench {name} ..."),
                None => format!("{first} takes one word: n1,n2,n3 or 'n[1-3]'"),
            });
        }
        (ErrorKind::MissingRequiredArgument, _) if first_sentence(error).ends_with("--version") => {
            return Some("a run prints all it does; --verbose adds to --version".to_owned());
        }
        _ => {}
    }
    let suggested = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let suggested = suggested
        .into_iter()
        .find_map(|kind| text_of(error, kind))?;
    Some(format!("did you mean {suggested}?"))
}

/// The known word that is most like a wrong one, as the end of a sentence: ` (did you mean ring?)`; empty if none is like it.
pub(super) fn like<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    /// Least similarity of a word that is offered; clap takes the same.
    const LIKE: f64 = 0.7;
    let wrong = wrong.to_lowercase();
    let likeness = |word: &str| strsim::jaro(&wrong, &word.to_lowercase());
    let best = known.into_iter().map(|word| (likeness(word), word));
    let best = best.max_by(|one, other| one.0.total_cmp(&other.0));
    match best.filter(|(likeness, _)| *likeness > LIKE) {
        Some((_, word)) => format!(" (did you mean {word}?)"),
        None => String::new(),
    }
}

/// The first text of a piece of an error's context.
fn text_of(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line for a command that is wrong.
    fn answered(words: &str) -> String {
        let words = std::iter::once("pipebench").chain(words.split(' '));
        answer(&args::command().try_get_matches_from(words).unwrap_err())
    }

    #[test]
    fn the_word_that_is_most_like_a_wrong_one_is_offered() {
        let known = ["all-to-all", "mesh", "ring"];
        assert_eq!(like("alltoall", known), " (did you mean all-to-all?)");
        assert_eq!(like("Rings", known), " (did you mean ring?)");
        assert_eq!(like("x", known), "");
    }

    #[test]
    fn a_mistake_is_answered_with_what_to_type() {
        for (words, line) in [
            (
                "--hosts n1 n2 n3",
                "the subcommand 'n2' cannot be used with '--hosts <HOSTS>' (--hosts <HOSTS> takes one word: n1,n2,n3 or 'n[1-3]')",
            ),
            (
                "--hosts n1 report x",
                "the subcommand 'report' cannot be used with '--hosts <HOSTS>' (write the command first: pipebench report ...)",
            ),
            (
                "statsu",
                "unrecognized subcommand 'statsu' (did you mean status?)",
            ),
            (
                "--tim 3",
                "unexpected argument '--tim' found (did you mean --time?)",
            ),
            (
                "-c n1",
                "unexpected argument '-c' found (no server is needed: name the hosts with --hosts A,B)",
            ),
            (
                "-P 4",
                "unexpected argument '-P' found (parallel links are --streams K)",
            ),
            (
                "--time -5s",
                "unexpected argument '-5' found (times, sizes and rates must be positive)",
            ),
            (
                "--profile quik",
                "invalid value 'quik' for '--profile <quick|acceptance|soak>' [possible values: quick, acceptance, soak] (did you mean quick?)",
            ),
            (
                "--zzz",
                "unexpected argument '--zzz' found (see 'pipebench --help')",
            ),
            (
                "report --zzz",
                "unexpected argument '--zzz' found (see 'pipebench help report')",
            ),
            (
                "latency plan --zzz",
                "unexpected argument '--zzz' found (see 'pipebench help latency plan')",
            ),
        ] {
            assert_eq!(answered(words), line);
        }
    }
}
