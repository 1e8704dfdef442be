//! Message passing between rank processes: the base of all jobs of ranks.
//!
//! Duty: links between ranks, created on the first message; tagged messages in both directions; waiting that does not sleep while
//! processors are free and does not hold them where they are scarce. This module does not know what messages are for, and does not report
//! what it measures. Read next: [`World`] for the calls of a rank, [`peer`] for the stream between two ranks, [`rendezvous`] for the
//! connection setup between two ranks.

mod access;
mod collectives;
mod error;
mod exchange;
mod group;
mod linking;
mod op;
mod peer;
mod pieces;
mod rendezvous;
mod ring;
mod shared_memory;
mod stream;
mod wait_strategy;
mod window;
mod world;

pub(crate) use collectives::ITEM_BYTES;
pub(crate) use error::RankError;
pub(crate) use exchange::Request;
pub use group::Group;
pub(crate) use op::From;
pub(crate) use pieces::{ranges, split};
pub(crate) use rendezvous::WorldConfig;
pub(crate) use shared_memory::SharedMemory;
pub(crate) use wait_strategy::WaitStrategy;
pub(crate) use world::World;

#[cfg(test)]
pub(crate) mod tests;
