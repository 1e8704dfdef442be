//! Pure arithmetic on measurements: clock offsets, series, bottlenecks of links, ends of links reduced to sums, counters against payload, ceilings. No input or output, no clock.

pub(crate) mod bottleneck;
pub(crate) mod ceiling;
pub mod ends;
pub(crate) mod imb;
pub mod offset;
pub(crate) mod series;
pub(crate) mod steady;
pub(crate) mod wires;
