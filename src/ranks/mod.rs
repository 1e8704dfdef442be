//! Message passing between rank processes: the base of all jobs of ranks.
//!
//! Duty: links between ranks, created on the first message; tagged messages in both directions; waiting that does not sleep while
//! processors are free and does not hold them where they are scarce. This module does not know what messages are for, and does not report
//! what it measures. Read next: [`World`] for the calls of a rank, [`peer`] for the stream between two ranks, [`meeting`] for the
//! connection setup between two ranks.

mod access;
mod collectives;
mod common;
mod error;
mod exchange;
mod group;
mod linking;
mod meeting;
mod op;
mod patience;
mod peer;
mod pieces;
mod ring;
mod stream;
mod window;
mod world;

pub use access::Access;
pub use collectives::{ITEM_BYTES, Team};
pub use common::Common;
pub use error::RankError;
pub use exchange::{Exchange, Request};
pub use group::Group;
pub use meeting::{Ground, RankAddress};
pub use op::{From, OWN_TAGS, Received};
pub use patience::Patience;
pub use pieces::{add_floats, ranges, split};
pub use world::World;

#[cfg(test)]
pub(crate) mod tests;
