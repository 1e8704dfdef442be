//! Numbers that several crates need: pseudorandom ones ([`random`]), and what describes a set of figures ([`spread`]).
//!
//! No input or output, and no clock.

#![warn(unreachable_pub)]

pub mod random;
pub mod spread;

/// Rounds a non-negative number to the nearest whole number. A number out of range becomes the largest or smallest `u64`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what does not fit is the nearest that does"
)]
pub fn whole(value: f64) -> u64 {
    value.round() as u64
}
