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
    /// One loads its port with one link at a time, which is what tells a slow port. Default 1. Example: --ranks-per-node 2
    #[arg(long, value_name = "R", default_value_t = 1)]
    pub ranks_per_node: usize,

    /// Which rank is on which node: block or round-robin
    ///
    /// Default block. Example: --rank-order round-robin
    #[arg(
        long,
        value_name = "ORDER",
        default_value = "block", value_parser = choice::<RankOrder>(), hide_possible_values = true)]
    pub rank_order: RankOrder,

    /// Let the scheduler move ranks from processor to processor
    ///
    /// Each stays on one of its own otherwise, where a host has enough. Example: --no-pin
    #[arg(long)]
    pub no_pin: bool,

    /// What ranks do while nothing moves: auto, spin, yield or sleep
    ///
    /// `auto` spins while a host has a processor for each rank, and yields otherwise. `sleep` leaves processors to others, and adds 30 to 50 us to each half of
    /// a round trip. Default auto. Example: --wait sleep
    #[arg(
        long,
        value_name = "HOW",
        default_value = "auto", value_parser = choice::<Wait>(), hide_possible_values = true)]
    pub wait: Wait,
}
