//! The judge: what may be said of a switch, and what must be measured before it may be said. Pure.
//!
//! [`filling`] says what each place of a [`fabric`] should carry, [`explain`] finds the cheapest set of faults that explains what
//! it carried instead, [`confirm`] asks for second looks at them until each has fallen short alone, and [`mod@decide`] brings these
//! together. Nothing here measures; `conduct` does, and asks again.

pub mod again;
pub mod ask;
pub mod cables;
pub mod case;
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
pub mod order;
mod pairs;
mod partners;
pub mod peers;
mod predict;
mod remarks;
mod sentence;
pub mod series;
mod slowed;
pub mod unfit;
pub mod uniform;
pub mod verdict;
pub mod view;

pub use decide::{Blamed, Decision, Step, decide};
