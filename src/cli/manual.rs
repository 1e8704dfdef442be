//! `pipebench manual`: the manual page, from the definitions of the help.

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::args;

/// Synopsis with the main forms of the command, in place of a list of all options.
const SYNOPSIS: &str = "pipebench --hosts HOSTS [OPTION]...\n\
    pipebench --hostfile FILE [OPTION]...\n\
    pipebench completions SHELL\n\
    pipebench manual\n\
    pipebench --version [--verbose]";

/// The page in roff, as `man` reads it.
pub(super) fn page() -> String {
    let command = args::command().override_usage(SYNOPSIS);
    let mut below = Roff::new();
    below.control("SH", ["COMMANDS"]);
    for other in command
        .get_subcommands()
        .filter(|other| !other.is_hide_set())
    {
        below.control("TP", []);
        below.text([bold(other.get_name())]);
        let about = other.get_about().map(ToString::to_string);
        below.text([roman(about.unwrap_or_default())]);
    }
    // Help sections after the options are tables: their lines stay as they are.
    let tail = command.get_after_long_help().map(ToString::to_string);
    for section in tail.unwrap_or_default().split("\n\n") {
        let (title, table) = section.split_once('\n').unwrap_or((section, ""));
        below.control("SH", [title]).control("nf", []);
        for line in table.lines() {
            below.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        below.control("fi", []);
    }
    below.control("SH", ["SEE ALSO"]);
    below.text([
        bold("ssh"),
        roman("(1), "),
        bold("ssh_config"),
        roman("(5)"),
    ]);

    let man = Man::new(command)
        .title("PIPEBENCH")
        .date(env!("PIPEBENCH_COMMIT_DATE"))
        .manual("User Commands");
    let mut page = Vec::new();
    let rendered = man
        .render_title(&mut page)
        .and_then(|()| man.render_name_section(&mut page))
        .and_then(|()| man.render_synopsis_section(&mut page))
        .and_then(|()| man.render_description_section(&mut page))
        .and_then(|()| man.render_options_section(&mut page))
        .and_then(|()| below.to_writer(&mut page));
    debug_assert!(rendered.is_ok(), "writing to memory cannot fail");
    String::from_utf8_lossy(&page).into_owned()
}
