//! What the help shows of the words: few options in `-h`, all of them in `--help`, grouped, and on manual pages.

use clap::CommandFactory;

use crate::exit;

use super::{Arguments, check};

/// The options that `-h` shows, each in a line of 80 columns; `--help` shows all.
const FIRST: [(&str, &str); 15] = [
    ("hosts", "n1,n2,n3  n[01-16]  user@host:port  local:3  auto"),
    (
        "hostfile",
        "A line per node: name, then key=value (see --help)",
    ),
    ("phases", "Phases of the pipeline on every node"),
    ("profile", "quick, acceptance or soak"),
    ("pattern", "Which nodes send to which"),
    ("time", "How long to measure, after the warm-up (10s, 2m)"),
    ("data-network", "Network used for data, chosen on each host"),
    ("link-speed", "Speed that every data port must have (25G)"),
    ("mtu", "MTU that every data port must have (9000: jumbo)"),
    ("floor", "Least share of the expected rate, in percent"),
    ("json", "Write the record of the run; - is standard output"),
    (
        "folder",
        "Keep record, table and summary in a folder in DIR",
    ),
    ("quiet", "Print only the result"),
    ("dry-run", "Print plan and duration; start nothing"),
    ("help", "Print this help; --help prints all of it"),
];

/// Options whose defaults are right for nearly all users.
const TUNING: [&str; 9] = [
    "block-size",
    "coupling",
    "datapath",
    "workers",
    "huge",
    "pin",
    "deadline",
    "transport",
    "seed",
];

/// What help is made from.
pub(crate) fn command() -> clap::Command {
    let command = command_of_pages().mut_subcommand("check", |check| {
        referring(check).override_usage("pipebench check [OPTIONS] [PLAN]")
    });
    command.mut_subcommand("load", |load| {
        referring(load).override_usage("pipebench load [OPTIONS]")
    })
}

/// `check` or `load` with a line about their options: a list of them would be a copy.
fn referring(command: clap::Command) -> clap::Command {
    let hidden = |word: clap::Arg| {
        let is_option = !word.is_positional();
        word.hide(is_option)
    };
    let command = command.mut_args(hidden);
    command.after_help("The options are those of pipebench without a command: pipebench --help")
}

/// What manual pages and completions are made from: `check` and `load` have their options there.
pub(crate) fn command_of_pages() -> clap::Command {
    let sorted = |command: clap::Command| command.mut_args(under_its_heading);
    let checked = |command: clap::Command| sorted(check::plan_or_options(command));
    let command = sorted(Arguments::command()).mut_subcommand("check", checked);
    let command = command.mut_subcommand("load", sorted);
    command.after_long_help(long_tail())
}

/// An option of the plain command under the heading that the help gives it.
fn under_its_heading(option: clap::Arg) -> clap::Arg {
    let is_tuning = option.get_long().is_some_and(|name| TUNING.contains(&name));
    match is_tuning {
        true => option.help_heading("Tuning"),
        false => option,
    }
}

/// The command with a help of one screen: the options that matter, in one list, and the commands that people type.
pub(crate) fn short_command() -> clap::Command {
    /// Commands for scripts, web servers and batch systems.
    const RARE: [&str; 4] = ["cgi", "completions", "join", "manual"];
    let short = |option: clap::Arg| {
        let mut first = FIRST.iter();
        let known = first.find(|(name, _)| option.get_long() == Some(name));
        let Some((name, text)) = known else {
            return option.hide(true);
        };
        let option = option.help_heading(None).help(*text);
        match *name {
            "profile" | "pattern" => option.value_name("NAME"),
            _ => option,
        }
    };
    let command = command().mut_args(short);
    let command = command.mut_subcommands(|command| {
        let is_rare = RARE.contains(&command.get_name());
        let is_hidden = command.is_hide_set();
        command.hide(is_rare || is_hidden)
    });
    command.after_help(SHORT_TAIL)
}

/// What stands below the options of `-h`.
const SHORT_TAIL: &str = "More: pipebench --help, pipebench help COMMAND\n\
    Exit codes: 0 PASS or NOT JUDGED, 1 FAIL, 3 UNDECIDED or HOST-LIMITED; others:\n\
    not run or not valid (2, 10-12, 20, 30, 70, 128+n; see --help)";

/// What stands below the options of `--help`.
fn long_tail() -> String {
    format!(
        "EXAMPLES\n  \
         pipebench --hosts local:3 --phases 3              three nodes on this machine, no SSH\n  \
         pipebench --hosts n1,n2,n3 --phases 3             three hosts, ten seconds\n  \
         pipebench --hosts 'n[01-64]' --phases 2 --time 60s --folder results\n  \
         pipebench --hostfile cluster.txt --data-network 10.1.0.0/16 --json run.json\n  \
         pipebench --hosts auto --link-speed 25G           the hosts of a job of Slurm\n  \
         pipebench --hosts 'n[01-64]' --starter 'clush -f %N -w %H'\n  \
         pipebench --hosts 'n[01-64]' --phases 3 --dry-run\n  \
         pipebench status 'n[01-64]'                       the runs on these hosts\n  \
         pipebench watch 3f9a1c 'n[01-64]'                 one of them, live\n\n{}",
        exit::HELP
    )
}
