//! Plan of an acceptance: the pipeline tests of a switch.

use serde::{Deserialize, Serialize};

use super::test::Test;

/// Pipeline tests of a switch, in sequence.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The tests, in the order in which they run.
    pub tests: Vec<Test>,
    /// Thoroughness of the run.
    #[serde(default)]
    pub profile: Profile,
    /// True if the tests are shorter than the profile asks for.
    #[serde(default)]
    pub shortened: bool,
    /// True if the run reports each second of every link, not only sums.
    #[serde(default)]
    pub samples: bool,
    /// Name of the run whose faults this run measures again.
    #[serde(default)]
    pub repeats: Option<String>,
}

/// Thoroughness of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Screening: one test of any shape.
    #[default]
    Quick,
    /// Basis for signing off a switch: all permutations or a [`super::sample`] of them, losses, and the mesh repeatedly.
    Acceptance,
    /// The mesh for a day.
    Soak,
}
