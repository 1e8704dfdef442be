//! The words for ranks: the same for every command that starts several on a node.

use clap::Args;

use crate::plan::ranks::{RankOrder, Wait};

use super::choice::choice;

/// Ranks on each node.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Hosts")]
pub(crate) struct RankWords {
    /// Ranks on each node
    ///
    /// A single rank loads its port with one link at a time, which shows a slow port. Example: --ranks-per-node 2
    #[arg(long, value_name = "R", default_value_t = 1)]
    pub ranks_per_node: usize,

    /// Which rank is on which node: block or round-robin
    ///
    /// Example: --rank-order round-robin
    #[arg(
        long,
        value_name = "ORDER",
        default_value = "block", value_parser = choice::<RankOrder>(), hide_possible_values = true, hide_short_help = true)]
    pub rank_order: RankOrder,

    /// Let the scheduler move ranks between processors
    ///
    /// Without this option each rank stays on its own processor if a host has enough of them. Example: --no-pin
    #[arg(long, hide_short_help = true)]
    pub no_pin: bool,

    /// What ranks do while they wait: auto, spin, yield or sleep
    ///
    /// `auto` spins if a host has a processor for each rank, and yields otherwise. `sleep` frees the processors, and
    /// adds 30 to 50 us to each half of a round trip. Example: --wait sleep
    #[arg(
        long,
        value_name = "HOW",
        default_value = "auto", value_parser = choice::<Wait>(), hide_possible_values = true, hide_short_help = true)]
    pub wait: Wait,
}
