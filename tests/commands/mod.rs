//! The commands of the program, as its help lists them.

use std::process::{Command, Stdio};

/// Long help of a command, or of pipebench without words.
#[track_caller]
pub fn help_of(words: &[String]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipebench"));
    command.args(words).arg("--help").env("COLUMNS", "100");
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Commands that the help of one lists, without clap's own `help`.
fn commands_of(words: &[String]) -> Vec<String> {
    let help = help_of(words);
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    // A name stands after two spaces; the rest of a long text stands further to the right.
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let lines = lines.filter(|line| !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// All commands that the help shows, by their words: none for pipebench itself, which comes first, `latency`, and
/// `latency run`.
pub fn commands() -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = vec![Vec::new()];
    let mut next = 0;
    while next < found.len() {
        let above = found[next].clone();
        let below = commands_of(&above).into_iter();
        found.extend(below.map(|name| [above.clone(), vec![name]].concat()));
        next += 1;
    }
    assert!(found.len() > 20, "{found:?}");
    found
}
