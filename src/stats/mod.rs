//! Pure arithmetic on what was measured: clock offsets and what held a link's rate. No input or output, no clock.

pub mod bottleneck;
pub mod offset;
pub mod wires;
