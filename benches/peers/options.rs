//! Command-line words after `--`.

use std::time::Duration;

use super::cases::CASES;

/// Options of a benchmark run.
pub struct Options {
    pub rounds: usize,
    pub window: Duration,
    /// Names of selected cases; empty selects all cases.
    cases: Vec<String>,
    /// True if the tables go into docs/dev/performance.md.
    pub write: bool,
}

impl Options {
    /// Parses the words in any order: a number of rounds, names of cases, `--window SECONDS`, `--write`.
    pub fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options {
            rounds: 7,
            window: Duration::from_secs(2),
            cases: Vec::new(),
            write: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--bench" => {} // cargo adds it.
                "--write" => options.write = true,
                "--window" => options.window = window(words.next())?,
                name if CASES.iter().any(|case| case.name == name) => {
                    options.cases.push(name.to_owned());
                }
                other => options.rounds = rounds(other)?,
            }
        }
        Ok(options)
    }

    /// True if this case is selected.
    pub fn selects(&self, name: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|case| case == name)
    }
}

fn window(word: Option<&String>) -> Result<Duration, String> {
    word.and_then(|word| word.parse().ok())
        .filter(|seconds| (0.2..=60.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "--window wants seconds, 0.2 to 60".to_owned())
}

fn rounds(word: &str) -> Result<usize, String> {
    let names = CASES.map(|case| case.name).join(", ");
    word.parse()
        .ok()
        .filter(|rounds| (1..=100).contains(rounds))
        .ok_or_else(|| format!("{word:?} is neither 1 to 100 rounds nor a case ({names})"))
}
