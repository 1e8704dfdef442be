//! The pipeline on one node: phases with their senders and receivers, each a separate process.
//!
//! The node status process makes a [`resources::NodeResources`] before any fork, then forks the phases ([`phase`]). A phase forks
//! its receivers ([`receiver`]) and senders ([`sender`]). Phase 0 is the [`source`], the last one the [`sink`]; a
//! phase between them forks its children and then only watches them. A block goes link -> receiver -> slot -> sender
//! -> link and touches no other process. A [`flow`] is the work on a link: [`receive_flow`], [`send_flow`], or both in a
//! [`relay`], which passes pages on ([`splice_relay`]) or copies ([`copy_relay`]). Each flow has a separate process, or the
//! [`engine`] of a [`shared`] process drives all flows of a boundary.

mod copy_relay;
mod doorbell;
mod engine;
mod flow;
mod pace;
pub(crate) mod phase;
mod receive_flow;
mod receiver;
mod relay;
pub(crate) mod resources;
mod send_flow;
mod sender;
mod shared;
mod sink;
mod source;
mod splice_relay;
