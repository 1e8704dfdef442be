//! Builds the equation of a pair: the columns that its round trip adds up, and how often each.

use super::fabric::{Fabric, Hop, cable_of};

/// A column, and how often a round trip goes through it: 1 or 2.
pub type Term = (u32, u8);

/// The unknowns: a value for each cable, or one for each of its directions.
#[derive(Debug, Clone, Copy)]
pub struct Model<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// True if directions of a cable between switches have separate values. A host's cable always has one value, because round trips always take both
    /// of its directions.
    pub directed: bool,
}

/// Reusable buffers for routes, to avoid an allocation for each pair.
#[derive(Debug, Clone, Default)]
pub struct Room {
    pub(super) hops: Vec<Hop>,
    back: Vec<Hop>,
}

impl Model<'_> {
    /// Number of columns, used or not.
    pub fn columns(&self) -> usize {
        self.fabric.cables.len() << usize::from(self.directed)
    }

    /// Number of columns that pairs can go through.
    pub fn usable(&self) -> usize {
        let hosts = self.fabric.hosts.len();
        self.columns() - if self.directed { hosts } else { 0 }
    }

    /// The cable of a column.
    pub fn cable_of(&self, column: u32) -> u32 {
        column >> u32::from(self.directed)
    }

    /// The column of a hop.
    pub fn column_of(&self, hop: Hop) -> u32 {
        match self.directed {
            false => cable_of(hop),
            true if self.fabric.joins_host(cable_of(hop)) => hop & !1,
            true => hop,
        }
    }

    /// Name of a column: the cable's name, and the direction if it has a separate value.
    pub fn name(&self, column: u32) -> String {
        let cable = &self.fabric.cables[self.cable_of(column) as usize];
        if !self.directed || self.fabric.joins_host(self.cable_of(column)) {
            return cable.name.clone();
        }
        let [a, b] = cable.ends.map(|end| self.fabric.vertex_name(end));
        let (from, to) = if column & 1 == 0 { (a, b) } else { (b, a) };
        format!("{} ({from} to {to})", cable.name)
    }

    /// Writes the row of a pair to `row`: its columns in the order in which the round trip meets them, each once.
    pub fn row(&self, from: u32, to: u32, room: &mut Room, row: &mut Vec<Term>) {
        row.clear();
        self.fabric.route(from, to, &mut room.hops);
        if self.fabric.is_symmetric() && !self.directed {
            row.extend(room.hops.iter().map(|hop| (cable_of(*hop), 2)));
            return;
        }
        self.fabric.route(to, from, &mut room.back);
        for hop in room.hops.iter().chain(&room.back) {
            let column = self.column_of(*hop);
            match row.iter_mut().find(|(known, _)| *known == column) {
                Some((_, times)) => *times += 1,
                None => row.push((column, 1)),
            }
        }
    }
}
