//! Errors before a program is up, each with the stage in which it happened.
//!
//! Does not know the host's name. The code that prints an error puts the name, or the folded names
//! of many hosts, in front of it.

use std::fmt;

/// The stage of a launch. Errors and progress name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The name is turned into addresses.
    Resolve,
    /// A connection is made and the encryption agreed upon.
    Connect,
    /// The host proves its identity.
    HostKey,
    /// The user proves their identity.
    Authenticate,
    /// The executable is looked for, and copied when it is missing.
    Deploy,
    /// The program is started, up to its magic word.
    Start,
    /// The program introduces itself. Only the code that reads the program's bytes uses this stage.
    Hello,
}

impl Stage {
    /// The stage's name, and the stage as a verb phrase to follow `cannot`.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Stage::Resolve => ("resolve", "resolve the name"),
            Stage::Connect => ("connect", "connect"),
            Stage::HostKey => ("host key", "verify the host key"),
            Stage::Authenticate => ("authenticate", "authenticate"),
            Stage::Deploy => ("deploy", "deploy"),
            Stage::Start => ("start", "start the program"),
            Stage::Hello => ("hello", "complete the hello"),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words().0)
    }
}

/// The reason why a host did not come up: `cannot connect: timed out after 5 s (hint)`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {}: {text}{}", .stage.words().1, hint_in_brackets(.hint.as_deref()))]
pub struct LaunchError {
    /// The stage that failed.
    pub stage: Stage,
    /// The reason: one line, lower case, with values and limits.
    pub text: String,
    /// A cure, if one is known.
    pub hint: Option<String>,
}

impl LaunchError {
    /// Makes an error without a hint. `text` can come from another machine, so its line ends and control
    /// characters become blanks.
    pub fn new(stage: Stage, text: impl Into<String>) -> LaunchError {
        LaunchError {
            stage,
            text: one_line(&text.into()),
            hint: None,
        }
    }

    /// Returns the error with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> LaunchError {
        self.hint = Some(one_line(&hint.into()));
        self
    }
}

fn hint_in_brackets(hint: Option<&str>) -> String {
    hint.map(|hint| format!(" ({hint})")).unwrap_or_default()
}

/// Makes one printable line. Text from another machine must neither break lines nor steer a terminal.
pub(crate) fn one_line(text: &str) -> String {
    let clean = text.replace(steers, " ");
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True if a character steers a terminal or changes how the text next to it is read: control characters (C0, DEL and C1),
/// those of bidirectional text, and line separators.
pub fn steers(letter: char) -> bool {
    let bidirectional = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || bidirectional || matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_one_sentence_with_its_hint() {
        let plain = LaunchError::new(Stage::Connect, "timed out after 5 s");
        assert_eq!(plain.to_string(), "cannot connect: timed out after 5 s");
        let hinted =
            LaunchError::new(Stage::Deploy, "disk\nfull\u{1b}[31m").hint("name another folder");
        assert_eq!(
            hinted.to_string(),
            "cannot deploy: disk full [31m (name another folder)"
        );
    }

    #[test]
    fn every_stage_has_its_words() {
        let all = [
            Stage::Resolve,
            Stage::Connect,
            Stage::HostKey,
            Stage::Authenticate,
            Stage::Deploy,
            Stage::Start,
            Stage::Hello,
        ];
        let words: std::collections::BTreeSet<_> = all.iter().map(Stage::to_string).collect();
        assert_eq!(words.len(), all.len());
        assert!(all.iter().all(|stage| !stage.words().1.is_empty()));
    }
}
