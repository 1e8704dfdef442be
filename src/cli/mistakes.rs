//! Answers to mistakes on the command line: one line that says what to type instead.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit;

use super::args::{self, NOT_IN_PLANS};
use super::terminal::refuse;

/// Commands (all, if none is named), what people type there, as iperf3, mpirun and others have it, and what to type instead.
const INSTEAD: [(&[&str], &[&str], &str); 17] = [
    (&["imb", "linktest"], &["-n", "-N", "-p"], RANKS),
    (&[], &["--num-messages=p"], RANKS),
    (
        &[],
        &["-c", "-s"],
        "no server is needed: name the hosts with --hosts A,B",
    ),
    (&[], &["-P"], "parallel links are --streams K"),
    (
        &[],
        &["-R"],
        "both directions are measured at the same time",
    ),
    (&[], &["-u"], "pipebench measures TCP only"),
    (&[], &["-b"], "a limit of the rate is --rate RATE"),
    (
        &[],
        &["-n"],
        "a volume is --buffers N, in blocks of --block-size",
    ),
    (
        &[],
        &["-J"],
        "the record is --json FILE, or --json - for standard output",
    ),
    (
        &[],
        &["--speed"],
        "the specified speed of the ports is --link-speed 25G",
    ),
    (&[], &["--duration"], "the time to measure is --time 30s"),
    (
        &[],
        &["--slurm", "--partition"],
        "inside a Slurm job, --hosts auto takes its nodes",
    ),
    (
        &[],
        &["--jumbo", "--mtu=9k", "--mtu=9K", "--mtu=jumbo"],
        "for jumbo frames write --mtu 9000",
    ),
    (
        &["compare"],
        &["--format", "-f", "--html"],
        "write pipebench report NOW --baseline BEFORE --format html",
    ),
    (&[], &["--html"], "write pipebench report RUN --format html"),
    (&[], &["--format=pdf"], "write --pdf FILE"),
    (&[], &["web"], "did you mean serve?"),
];
const RANKS: &str = "the number of ranks is that of the hosts times --ranks-per-node R";

/// Prints one line for bad usage, or the help as clap prints it; returns the exit code.
pub(super) fn explain(error: &clap::Error, words: &[OsString]) -> u8 {
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
    refuse(&answer(error, words))
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
    let first = first.strip_prefix("error: ").unwrap_or(&first);
    first.replace("invalid digit found in string", "not a whole number")
}

/// What clap found wrong with a key of a plan, and the key that was perhaps meant: keys are options without their dashes.
pub(super) fn of_key(error: &clap::Error) -> String {
    let meant = hint(error, &[]).map(|hint| hint.replace("did you mean --", "did you mean "));
    let meant = meant.map_or_else(String::new, |hint| format!(" ({hint})"));
    first_sentence(error) + &meant
}

/// The line for a mistake that clap found in these words.
fn answer(error: &clap::Error, words: &[OsString]) -> String {
    let hint = hint(error, words).unwrap_or_else(|| format!("see '{}'", help_of(error)));
    format!("{} ({hint})", first_sentence(error))
}

/// Names of the mistaken command, as in `latency plan`; none for the plain one. clap shows its usage.
fn command_of(error: &clap::Error) -> Vec<String> {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let words = usage
        .split_whitespace()
        .skip_while(|word| *word != "pipebench")
        .skip(1);
    let is_command = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_lowercase());
    words.take_while(is_command).map(str::to_owned).collect()
}

/// The command that explains the options of a mistaken one.
fn help_of(error: &clap::Error) -> String {
    let command = command_of(error);
    match command.is_empty() {
        true => "pipebench --help".to_owned(),
        false => format!("pipebench help {}", command.join(" ")),
    }
}

/// The words to type instead, if they are known.
fn hint(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let wrong = text_of(error, ContextKind::InvalidArg);
    let wrong = wrong.or_else(|| text_of(error, ContextKind::InvalidSubcommand));
    let value = text_of(error, ContextKind::InvalidValue);
    let command = command_of(error);
    let typed = wrong.as_ref().map(|wrong| match &value {
        // clap shows an option with the name of its value: --mtu <BYTES>.
        Some(value) => format!("{}={value}", wrong.split(' ').next().unwrap_or(wrong)),
        None => wrong.clone(),
    });
    let mut known = INSTEAD.iter().filter(|(commands, ..)| {
        commands.is_empty() || command.iter().any(|name| commands.contains(&name.as_str()))
    });
    let known = known.find(|(_, mistakes, _)| {
        let mut mistakes = mistakes.iter();
        mistakes.any(|mistake| typed.as_deref() == Some(*mistake))
    });
    if let Some((.., instead)) = known {
        return Some((*instead).to_owned());
    }
    let is_digit = |letter: char| letter.is_ascii_digit();
    match (error.kind(), &wrong) {
        (ErrorKind::UnknownArgument, Some(option)) => {
            if option
                .strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(is_digit))
            {
                return Some("times, sizes and rates must be positive".to_owned());
            }
            if command == ["run"]
                && let Some(key) = plan_key(option, words)
            {
                return Some(format!(
                    "it is an option of the plan: write {key} under [run] of the plan file"
                ));
            }
            let definition = definition_of(&command)?;
            let options = definition.get_arguments();
            let options = options.filter(|option| !option.is_hide_set());
            let options = options.filter_map(clap::Arg::get_long).chain(["help"]);
            let like = most_like(option.strip_prefix("--")?, options)?;
            Some(format!("did you mean --{like}?"))
        }
        (ErrorKind::InvalidSubcommand, Some(word)) if word.ends_with(".toml") => {
            Some(format!("did you mean run {word}?"))
        }
        (ErrorKind::InvalidSubcommand, Some(word)) if word.contains([',', '[']) => {
            Some(format!("did you mean --hosts '{word}'?"))
        }
        (ErrorKind::InvalidSubcommand, Some(word)) => {
            let definition = definition_of(&command)?;
            let commands = definition.get_subcommands();
            let commands = commands.filter(|command| !command.is_hide_set());
            let like = most_like(word, commands.map(clap::Command::get_name))?;
            Some(format!("did you mean {like}?"))
        }
        (ErrorKind::ArgumentConflict, _) => {
            let first = text_of(error, ContextKind::PriorArg)?;
            let name = first_sentence(error);
            let name = name.strip_prefix("the subcommand '")?.split('\'').next()?;
            Some(match args::command().find_subcommand(name) {
                Some(_) => format!("write the command first: pipebench {name} ..."),
                None => format!("{first} takes one word: n1,n2,n3 or 'n[1-3]'"),
            })
        }
        (ErrorKind::MissingRequiredArgument, _) if first_sentence(error).ends_with("--version") => {
            Some("a run prints all it does; --verbose adds to --version".to_owned())
        }
        _ => {
            let like = text_of(error, ContextKind::SuggestedValue)?;
            Some(format!("did you mean {like}?"))
        }
    }
}

/// A command with the options and commands that its page shows.
fn definition_of(names: &[String]) -> Option<clap::Command> {
    let whole = args::command_of_pages();
    let mut names = names.iter();
    let found = names.try_fold(&whole, |command, name| command.find_subcommand(name));
    found.cloned()
}

/// The line of a plan file that stands for an option of the plain command in these words.
fn plan_key(option: &str, words: &[OsString]) -> Option<String> {
    let whole = args::command_of_pages();
    let is_meant = |known: &&clap::Arg| {
        let short = known.get_short().map(|letter| format!("-{letter}"));
        let long = known.get_long().map(|name| format!("--{name}"));
        !known.is_hide_set() && [short, long].contains(&Some(option.to_owned()))
    };
    let known = whole.get_arguments().find(is_meant)?;
    let name = known
        .get_long()
        .filter(|name| !NOT_IN_PLANS.contains(name))?;
    if !known.get_action().takes_values() {
        return Some(format!("{name} = true"));
    }
    let words = words.iter().filter_map(|word| word.to_str());
    let mut typed = words.skip_while(|word| word.split('=').next() != Some(option));
    let value = match typed.next().and_then(|word| word.split_once('=')) {
        Some((_, value)) => Some(value),
        None => typed.next(),
    };
    Some(format!("{name} = {:?}", value.unwrap_or("...")))
}

/// The known word that is most like a wrong one, if any is: most letters agree, or one is wrong, missing or swapped.
fn most_like<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Least similarity of a word that is offered; clap takes the same.
    const LIKE: f64 = 0.7;
    /// Similarity of a word with one mistake, and the least length of such a word.
    const ONE_MISTAKE: f64 = 0.8;
    const LONG: usize = 3;
    let wrong = wrong.to_lowercase();
    let likeness = |word: &str| {
        let word = word.to_lowercase();
        let is_near = wrong.len() >= LONG && strsim::osa_distance(&wrong, &word) == 1;
        let least = if is_near { ONE_MISTAKE } else { 0.0 };
        strsim::jaro(&wrong, &word).max(least)
    };
    let best = known.into_iter().map(|word| (likeness(word), word));
    let best = best.max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(likeness, _)| *likeness > LIKE)
        .map(|(_, word)| word)
}

/// The known word that is most like a wrong one, as the end of a sentence: ` (did you mean ring?)`; empty if none is like it.
pub(super) fn like<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let word = most_like(wrong, known);
    word.map_or_else(String::new, |word| format!(" (did you mean {word}?)"))
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
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let error = args::command().try_get_matches_from(&words);
        answer(&error.unwrap_err(), &words)
    }

    #[test]
    fn the_word_that_is_most_like_a_wrong_one_is_offered() {
        let known = ["all-to-all", "mesh", "ring"];
        assert_eq!(like("alltoall", known), " (did you mean all-to-all?)");
        assert_eq!(like("Rings", known), " (did you mean ring?)");
        assert_eq!(like("x", known), "");
    }

    #[test]
    fn a_hidden_option_is_never_offered() {
        for words in ["--parant 3", "list --inn x", "--hodl x"] {
            let answer = answered(words);
            let hidden = ["--parent", "--in?", "--hold"];
            assert!(
                !hidden.iter().any(|option| answer.contains(option)),
                "{answer}"
            );
        }
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
                "rnu plan.toml",
                "unrecognized subcommand 'rnu' (did you mean run?)",
            ),
            (
                "plan.toml",
                "unrecognized subcommand 'plan.toml' (did you mean run plan.toml?)",
            ),
            (
                "n1,n2",
                "unrecognized subcommand 'n1,n2' (did you mean --hosts 'n1,n2'?)",
            ),
            (
                "--hosts n1 --speed 25G",
                "unexpected argument '--speed' found (the specified speed of the ports is --link-speed 25G)",
            ),
            (
                "list --ni x",
                "unexpected argument '--ni' found (see 'pipebench help list')",
            ),
            (
                "report x --html",
                "unexpected argument '--html' found (write pipebench report RUN --format html)",
            ),
            // Symptom: the option was refused without a word on the command that has it.
            (
                "compare pb-1 pb-2 --format html",
                "unexpected argument '--format' found (write pipebench report NOW --baseline BEFORE --format html)",
            ),
            (
                "compare pb-1 pb-2 --format=html",
                "unexpected argument '--format' found (write pipebench report NOW --baseline BEFORE --format html)",
            ),
            (
                "--mtu 9k",
                "invalid value '9k' for '--mtu <BYTES>': not a whole number (for jumbo frames write --mtu 9000)",
            ),
            (
                "imb --hosts n1 -np 16",
                "unexpected argument '-n' found (the number of ranks is that of the hosts times --ranks-per-node R)",
            ),
            (
                "linktest --hosts n1 -np 16",
                "invalid value 'p' for '--num-messages <N>': not a whole number (the number of ranks is that of the hosts times --ranks-per-node R)",
            ),
            (
                "linktest --hosts n1 -ppn 4",
                "unexpected argument '-p' found (the number of ranks is that of the hosts times --ranks-per-node R)",
            ),
            (
                "run plan.toml --max-time 30m",
                "unexpected argument '--max-time' found (it is an option of the plan: write max-time = \"30m\" under [run] of the plan file)",
            ),
            (
                "run plan.toml -t=30s",
                "unexpected argument '-t' found (it is an option of the plan: write time = \"30s\" under [run] of the plan file)",
            ),
            (
                "run plan.toml --huge",
                "unexpected argument '--huge' found (it is an option of the plan: write huge = true under [run] of the plan file)",
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
