//! The pipeline on one node: phases with their senders and receivers, each a separate process.
//!
//! The node status process makes a [`plant::Plant`] before any fork, then forks the phases ([`phase`]). A phase forks
//! its receivers ([`receiver`]) and senders ([`sender`]). Phase 0 is the [`source`], the last one the [`sink`]; a
//! phase between them forks its children and then only watches them. A block goes link -> receiver -> slot -> sender
//! -> link and touches no other process. A [`flow`] is the work on a link: [`inflow`], [`outflow`], or both in a
//! [`relay`], which passes pages on ([`passage`]) or copies ([`ferry`]). Each flow has a separate process, or the
//! [`engine`] of a [`shared`] process drives all flows of a boundary.

mod doorbell;
mod engine;
mod ferry;
mod flow;
mod inflow;
mod outflow;
mod pace;
mod passage;
pub mod phase;
pub mod plant;
mod receiver;
mod relay;
mod sender;
mod shared;
mod sink;
mod source;
