//! `pipebench manual [COMMAND]`: manual pages, from the definitions of the help.

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use crate::exit;

use super::args;
use super::mistakes::like;
use super::terminal::{refuse, tell};

/// Synopsis of pipebench: its main forms, in place of a list of all options.
const SYNOPSIS: &str = "pipebench [load] --hosts HOSTS [OPTION]...\n\
    pipebench --hostfile FILE [OPTION]...\n\
    pipebench COMMAND [OPTION]...";

/// Pairs of options: a command that has both needs one of them, so that its synopsis has two forms.
const EITHER: [[&str; 2]; 4] = [
    ["hosts", "hostfile"],
    ["site", "example"],
    ["ibnetdiscover", "table"],
    ["csv", "matrix"],
];

/// Prints the page of a command, or without a name that of pipebench. Refuses an unknown name with those it knows.
pub(super) fn print(name: Option<&str>) -> Result<u8, u8> {
    let whole = args::command_of_pages();
    let pages = pages_below(&whole, "");
    let Some(name) = name else {
        return Ok(tell(&main_page(whole, &pages)));
    };
    match pages.iter().find(|page| page.name() == name) {
        Some(page) => Ok(tell(&page.text(&pages))),
        None => Err(refuse(&unknown(name, &pages))),
    }
}

/// Says that a name is no page, and which names are.
fn unknown(name: &str, pages: &[Page]) -> String {
    let known: Vec<String> = pages.iter().map(Page::name).collect();
    let hint = like(name, known.iter().map(String::as_str));
    format!(
        "manual: no page '{name}'{hint}: known pages are {}",
        known.join(", ")
    )
}

/// The page of a command.
struct Page {
    /// What one types after `pipebench`, as in `latency run`.
    words: String,
    /// Its definition.
    command: Command,
}

/// Pages of the commands below one, each before those of its own commands. Hidden commands have none.
fn pages_below(command: &Command, words: &str) -> Vec<Page> {
    let mut pages = Vec::new();
    for other in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        let words = format!("{words} {}", other.get_name());
        let words = words.trim_start().to_owned();
        let lower = pages_below(other, &words);
        pages.push(Page {
            words,
            command: other.clone(),
        });
        pages.extend(lower);
    }
    pages
}

/// Those of the pages that belong to the commands right below one; below pipebench without words.
fn children<'a>(pages: &'a [Page], words: &str) -> Vec<&'a Page> {
    let below = pages.iter().filter(|page| page.parent() == words);
    below.collect()
}

/// The page of pipebench: commands, and the sections that follow the options in its help.
fn main_page(whole: Command, pages: &[Page]) -> String {
    let mut below = Roff::new();
    add_commands(&mut below, &children(pages, ""));
    let tail = whole.get_after_long_help().map(ToString::to_string);
    for section in tail.unwrap_or_default().split("\n\n") {
        add_table(&mut below, section);
    }
    let of_commands = pages.iter().map(|page| (page.file(), 1));
    let others = [("ssh".to_owned(), 1), ("ssh_config".to_owned(), 5)];
    add_see_also(&mut below, of_commands.chain(others));
    rendered(whole.override_usage(SYNOPSIS), "pipebench", &below)
}

impl Page {
    /// The name by which `pipebench manual` knows the page.
    fn name(&self) -> String {
        self.words.replace(' ', "-")
    }

    /// The name by which `man` knows the page.
    fn file(&self) -> String {
        format!("pipebench-{}", self.name())
    }

    /// Words of the command above this one; none if that is pipebench.
    fn parent(&self) -> &str {
        self.words.rsplit_once(' ').map_or("", |(above, _)| above)
    }

    /// The page in roff, as `man` reads it.
    fn text(&self, pages: &[Page]) -> String {
        let said = self.said();
        let (description, codes) = parted(&said);
        let children = children(pages, &self.words);
        let mut below = Roff::new();
        add_commands(&mut below, &children);
        add_exit_codes(&mut below, codes);
        let parents = pages.iter().filter(|page| page.words == self.parent());
        let related = parents.chain(children).map(|page| (page.file(), 1));
        let main = [("pipebench".to_owned(), 1)];
        add_see_also(&mut below, main.into_iter().chain(related));

        let command = self.command.clone().long_about(description.to_owned());
        let command = command
            .display_name(self.file())
            .bin_name(format!("pipebench {}", self.words))
            .override_usage(self.synopsis());
        rendered(command, &self.file(), &below)
    }

    /// What the long help says of the command.
    fn said(&self) -> String {
        let long = self.command.get_long_about();
        let said = long.or_else(|| self.command.get_about());
        said.map(ToString::to_string).unwrap_or_default()
    }

    /// Forms of the command, one per line.
    fn synopsis(&self) -> String {
        let title = format!("pipebench {}", self.words);
        let mut forms = Vec::new();
        if !self.command.is_subcommand_required_set() {
            let rest = rest_of_form(&self.command);
            let needed = needed(&self.command).into_iter();
            forms.extend(needed.map(|option| format!("{title}{option}{rest}")));
        }
        if self.command.has_subcommands() {
            forms.push(format!("{title} COMMAND [OPTION]..."));
        }
        forms.join("\n")
    }
}

/// Options of which a command needs one, as its forms show them; nothing, once, if it needs none.
fn needed(command: &Command) -> Vec<String> {
    let found = |name: &&str| {
        let mut options = command.get_arguments();
        options.find(|option| option.get_long() == Some(*name))
    };
    let pair = |names: &[&str; 2]| names.iter().map(found).collect::<Option<Vec<&Arg>>>();
    // A plan file names the hosts, too.
    let has_plan = command
        .get_positionals()
        .any(|word| word.get_id() == "plan");
    match EITHER.iter().find_map(pair).filter(|_| !has_plan) {
        Some(options) => options.into_iter().map(with_value).collect(),
        None => vec![String::new()],
    }
}

/// An option with its value, as a form shows it.
fn with_value(option: &Arg) -> String {
    let name = option.get_long().unwrap_or_default();
    match option.get_action().takes_values() {
        true => format!(" --{name} {}", value_of(option)),
        false => format!(" --{name}"),
    }
}

/// Name of the value of an option or of a word without an option.
fn value_of(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    names.join(" ")
}

/// What follows in a form: that there are options, and words without an option.
fn rest_of_form(command: &Command) -> String {
    let is_option = |argument: &Arg| !argument.is_positional() && !argument.is_hide_set();
    let options = match command.get_arguments().any(is_option) {
        true => " [OPTION]...",
        false => "",
    };
    let words: String = command.get_positionals().map(positional).collect();
    format!("{options}{words}")
}

/// A word without an option, as a form shows it: in brackets if it can be left out, with dots if there can be several.
fn positional(argument: &Arg) -> String {
    let name = value_of(argument);
    let count = argument.get_num_args();
    let dots = match count.is_some_and(|count| count.max_values() > 1) {
        true => "...",
        false => "",
    };
    match argument.is_required_set() {
        true => format!(" {name}{dots}"),
        false => format!(" [{name}]{dots}"),
    }
}

/// Parts the text of a command into its description and its own exit codes, which stand last in it. There are none if
/// the text has none, or says that they are those of a run.
fn parted(said: &str) -> (&str, Option<&str>) {
    match said.split_once("Exit codes") {
        Some((description, codes)) => (description.trim_end(), codes.strip_prefix(": ")),
        None => (said, None),
    }
}

/// Adds a section with commands: the page of each, and what it is about.
fn add_commands(roff: &mut Roff, pages: &[&Page]) {
    if pages.is_empty() {
        return;
    }
    roff.control("SH", ["COMMANDS"]);
    for page in pages {
        roff.control("TP", []);
        let mut line = vec![bold(page.words.as_str()), roman(", see ")];
        line.extend(reference(&page.file(), 1));
        roff.text(line);
        let about = page.command.get_about().map(ToString::to_string);
        roff.text([roman(about.unwrap_or_default())]);
    }
}

/// Adds a section of the help, a title above lines that stay as they are, since they are a table.
fn add_table(roff: &mut Roff, section: &str) {
    let (title, table) = section.split_once('\n').unwrap_or((section, ""));
    roff.control("SH", [title]).control("nf", []);
    for line in table.lines() {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []);
}

/// Adds the section of exit codes: those of a command, one per line, or those of a run.
fn add_exit_codes(roff: &mut Roff, own: Option<&str>) {
    let Some(own) = own else {
        add_table(roff, exit::HELP);
        return;
    };
    roff.control("SH", ["EXIT CODES"]);
    for code in own.trim_end_matches('.').split("; ") {
        roff.text([roman(code)]).control("br", []);
    }
}

/// Adds the section with other pages, by name and number of the manual's section.
fn add_see_also(roff: &mut Roff, pages: impl IntoIterator<Item = (String, u8)>) {
    roff.control("SH", ["SEE ALSO"]);
    let mut line = Vec::new();
    for (name, section) in pages {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend(reference(&name, section));
    }
    roff.text(line);
}

/// A page as others refer to it.
fn reference(name: &str, section: u8) -> [Inline; 2] {
    [bold(name), roman(format!("({section})"))]
}

/// A whole page: the sections that clap knows, and those below them.
fn rendered(command: Command, name: &str, below: &Roff) -> String {
    let man = Man::new(command)
        .title(name.to_uppercase())
        .date(env!("PIPEBENCH_COMMIT_DATE"))
        .source(concat!("pipebench ", env!("CARGO_PKG_VERSION")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synopsis_has_the_forms_of_its_command() {
        let pages = pages_below(&args::command_of_pages(), "");
        for (name, forms) in [
            (
                "load",
                "pipebench load --hosts HOSTS [OPTION]...\npipebench load --hostfile FILE [OPTION]...",
            ),
            (
                "linktest",
                "pipebench linktest --hosts HOSTS [OPTION]...\npipebench linktest --hostfile FILE [OPTION]...\n\
                    pipebench linktest COMMAND [OPTION]...",
            ),
            ("linktest-show", "pipebench linktest show FILE"),
            ("latency", "pipebench latency COMMAND [OPTION]..."),
            (
                "latency-run",
                "pipebench latency run --hosts HOSTS [OPTION]... FABRIC\n\
                    pipebench latency run --hostfile FILE [OPTION]... FABRIC",
            ),
            ("status", "pipebench status [OPTION]... [HOSTS]"),
            ("check", "pipebench check [OPTION]... [PLAN]"),
            ("merge", "pipebench merge [OPTION]... RUN..."),
            ("manual", "pipebench manual [COMMAND]"),
        ] {
            let page = pages.iter().find(|page| page.name() == name);
            assert_eq!(page.expect("a page").synopsis(), forms);
        }
    }

    #[test]
    fn exit_codes_are_parted_from_the_description() {
        let own = parted("Checks.\n\nExit codes: 0 ready; 2 bad usage.");
        assert_eq!(own, ("Checks.", Some("0 ready; 2 bad usage.")));
        let of_a_run = parted("Runs it. Exit codes are those of a run.");
        assert_eq!(of_a_run, ("Runs it.", None));
        assert_eq!(parted("Lists runs"), ("Lists runs", None));
    }

    #[test]
    fn an_unknown_page_is_answered_with_the_known_ones() {
        let pages = pages_below(&args::command_of_pages(), "");
        let said = unknown("linktes", &pages);
        assert!(said.starts_with("manual: no page 'linktes' (did you mean linktest?): known"));
        assert!(said.contains(", linktest-show, ") && !said.contains("node"));
    }
}
