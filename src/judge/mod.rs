//! The judge: decides what a switch did, and which measurements it needs before it can decide. Pure: it measures nothing.
//!
//! [`filling`] computes what each place of a [`fabric`] should carry. [`explain`] finds the cheapest set of faults that explains what
//! the places carried instead. [`confirm`] requests retests until each fault fell short alone. [`mod@decide`] combines these
//! steps. `controller` measures and calls the judge again.

pub(crate) mod again;
pub mod ask;
pub(crate) mod cables;
pub(crate) mod capacity;
pub(crate) mod case;
pub mod closing;
pub(crate) mod confirm;
pub mod decide;
pub(crate) mod disturbed;
mod evidence;
mod explain;
pub mod fabric;
pub mod fault;
pub mod filling;
mod guesses;
pub(crate) mod hol;
pub(crate) mod host;
mod look;
pub(crate) mod loss;
pub(crate) mod names;
mod observe;
pub(crate) mod order;
mod pairs;
mod partners;
pub mod peers;
mod predict;
mod remarks;
mod sentence;
pub(crate) mod series;
mod slowed;
mod sums;
pub(crate) mod thresholds;
pub(crate) mod tuning;
mod unexplained;
pub(crate) mod unfit;
pub(crate) mod uniform;
pub mod verdict;
pub(crate) mod view;

#[cfg(feature = "internals")]
pub use decide::decide;
pub use decide::{Blamed, Decision, Step};
