//! Defines a fabric: its hosts, switches and cables, and the route from each host to every other one.

use std::ops::Deref;

use super::routing::Routing;

pub use super::wiring::{
    Cable, Draft, DraftCable, DraftPath, DraftRoutes, DraftTable, FabricError, Hop, Vertex, Wiring,
    cable_of, steers,
};
pub(super) use super::wiring::{number, refuse};

/// A checked fabric: every host has a route to every other host.
#[derive(Debug, Clone)]
pub struct Fabric {
    /// Name of the fabric.
    pub name: String,
    wiring: Wiring,
    routing: Routing,
}

/// Gives access to hosts, switches and cables.
impl Deref for Fabric {
    type Target = Wiring;

    fn deref(&self) -> &Wiring {
        &self.wiring
    }
}

impl Fabric {
    /// Checks a draft. Errors name the line that is wrong.
    pub fn new(draft: &Draft) -> Result<Self, FabricError> {
        let (wiring, names) = Wiring::new(draft)?;
        let routing = Routing::new(&wiring, &draft.routes, &names)?;
        // Free the names before a large fabric is planned.
        drop(names);
        Ok(Self {
            name: draft.name.clone(),
            wiring,
            routing,
        })
    }

    /// True if the route back is always the route there, reversed.
    pub fn is_symmetric(&self) -> bool {
        self.routing.is_symmetric()
    }

    /// True if only the destination decides where a packet leaves a switch.
    pub fn is_by_destination(&self) -> bool {
        self.routing.is_by_destination()
    }

    /// Writes the route from one host to another to `hops`, including the cables of both hosts.
    pub fn route(&self, from: u32, to: u32, hops: &mut Vec<Hop>) {
        hops.clear();
        self.routing.route(&self.wiring, from, to, hops);
    }
}
