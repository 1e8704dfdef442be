//! Pure arithmetic on measurements: clock offsets, series, bottlenecks of links, counters against payload, ceilings. No input or output, no clock.

pub mod bottleneck;
pub mod ceiling;
pub mod imb;
pub mod offset;
pub mod series;
pub mod steady;
pub mod wires;
