//! The pipeline on one node: phases and their senders and receivers, each a process of its own.
//!
//! The node status process makes a [`plant::Plant`] before any fork, then the phases ([`phase`]); a phase makes
//! its receivers ([`receiver`]) and senders ([`sender`]). Phase 0 is the [`source`], the last one the [`sink`];
//! a phase between them makes its children and steps back. A block goes link -> receiver -> slot -> sender ->
//! link and touches no other process. What they do with a link is a [`flow`]: [`inflow`], [`outflow`], or, where pages are
//! passed on, the [`passage`] of a [`relay`] that is both. Each has a process of its own, or all of a boundary are driven by
//! the [`engine`] of a [`shared`] one.

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
