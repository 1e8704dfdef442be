//! Which nodes send to which.

use serde::{Deserialize, Serialize};

/// Which nodes send to which at a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Every node to every node, itself included: the pipeline's own.
    AllToAll,
}
