//! The judge: decides what a switch did, and which measurements it needs before it can decide. Pure: it measures nothing.
//!
//! [`filling`] computes what each place of a [`fabric`] should carry. [`explain`] finds the cheapest set of faults that explains what
//! the places carried instead. [`confirm`] requests second looks until each fault fell short alone. [`mod@decide`] combines these
//! steps. `controller` measures and calls the judge again.

pub mod again;
pub mod ask;
pub mod cables;
pub mod case;
pub mod closing;
pub mod confirm;
pub mod decide;
pub mod disturbed;
mod evidence;
mod explain;
pub mod fabric;
pub mod fault;
pub mod filling;
mod guesses;
pub mod hol;
pub mod host;
mod look;
pub mod loss;
pub mod names;
mod observe;
pub mod order;
mod pairs;
mod partners;
pub mod peers;
mod predict;
mod remarks;
mod sentence;
pub mod series;
mod slowed;
pub mod thresholds;
mod unexplained;
pub mod unfit;
pub mod uniform;
pub mod verdict;
pub mod view;

pub use decide::{Blamed, Decision, Step, decide};
