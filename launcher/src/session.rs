//! Sessions: a line to one program on one host, whatever carries it.
//!
//! `line.rs` is what the owner holds of it, `carrier.rs` what a transport must be able to do,
//! `drive.rs` the loop between the two, and `dialogue.rs` what is said before the program is up.

pub(crate) mod carrier;
pub(crate) mod channel;
pub(crate) mod child;
pub(crate) mod dialogue;
pub(crate) mod drive;
pub(crate) mod line;
pub(crate) mod report;
