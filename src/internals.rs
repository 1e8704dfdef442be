//! What tests, benches and fuzz targets use of this crate. It is built for them alone: nothing else may rely on it.

/// See `controller`.
pub mod controller {
    pub use crate::controller::assemble;
}

/// See `jobs`.
pub mod jobs {
    /// See `jobs::linktest`.
    pub mod linktest {
        pub use crate::jobs::linktest::schedule;
    }
}

/// See `judge`.
pub mod judge {
    pub use crate::judge::{
        Blamed, Decision, Step, ask, closing, decide, fabric, fault, filling, peers, verdict,
    };
}

/// See `outside`.
pub mod outside {
    pub use crate::outside::*;
}

/// See `plan`.
pub mod plan {
    pub use crate::plan::*;
}

/// See `ranks`.
pub mod ranks {
    pub use crate::ranks::Group;
}

/// See `record`.
pub mod record {
    pub use crate::record::*;
}

/// See `report`.
pub mod report {
    pub use crate::report::{
        compare, csv, dry_run, figures, header, json, judged, junit, linktest, listing, merge,
        metrics, page, preflight, text,
    };
}

/// See `stats`.
pub mod stats {
    pub use crate::stats::{ends, offset};
}

/// See `store`.
pub mod store {
    pub use crate::store::linktest;
}

/// See `sys`.
pub mod sys {
    pub use crate::sys::facts;
}

/// See `units`.
pub mod units {
    pub use crate::units::*;
}

/// See `wire`.
pub mod wire {
    pub use crate::wire::{block, frame, hello, message, rank};
}
