//! Sessions: a line to one program on one host, over any transport.
//!
//! `line.rs` is the owner's side, `carrier.rs` the interface of a transport, `drive.rs` the loop
//! between the two, and `dialogue.rs` the exchange before the program is up.

pub(crate) mod carrier;
pub(crate) mod channel;
pub(crate) mod child;
pub(crate) mod dialogue;
pub(crate) mod drive;
pub(crate) mod line;
pub(crate) mod report;
