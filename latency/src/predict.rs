//! Predicts the round trip of every pair from the values of cables, one host after the other, so that they are never all in memory.

use super::fabric::{Hop, number};
use super::rows::{Model, Room};

/// Calls `each` for each host with the round trips to all hosts after it, in the order of hosts. The first one is to the next host.
pub fn all_pairs(model: &Model<'_>, values: &[f64], mut each: impl FnMut(u32, &[f64])) {
    let hosts = number(model.fabric.hosts.len());
    let tables = Tables::of(model, values);
    let mut row = Vec::new();
    let mut room = Room::default();
    for from in 0..hosts {
        row.clear();
        for to in from + 1..hosts {
            row.push(match &tables {
                Some(tables) => tables.round_trip(from, to),
                None => one(model, values, from, to, &mut room),
            });
        }
        each(from, &row);
    }
}

/// Predicts one pair's round trip, in the unit of `values`.
pub fn round_trip(model: &Model<'_>, values: &[f64], from: u32, to: u32) -> f64 {
    one(model, values, from, to, &mut Room::default())
}

/// Does the same with reusable room for the route, for many calls.
pub fn one(model: &Model<'_>, values: &[f64], from: u32, to: u32, room: &mut Room) -> f64 {
    let fabric = model.fabric;
    let add = |sum: f64, hop: &Hop| sum + values[model.column_of(*hop) as usize];
    fabric.route(from, to, &mut room.hops);
    let there = room.hops.iter().fold(0.0, add);
    if fabric.is_symmetric() && !model.directed {
        return 2.0 * there;
    }
    fabric.route(to, from, &mut room.hops);
    room.hops.iter().fold(there, add)
}

/// Latencies from each leaf switch to each host, for fabrics where only the destination decides.
struct Tables {
    hosts: usize,
    leaf: Vec<u32>,
    from_leaf: Vec<f32>,
    own: Vec<f32>,
}

impl Tables {
    fn of(model: &Model<'_>, values: &[f64]) -> Option<Self> {
        /// Fewest hosts for tables. In smaller fabrics each route is followed.
        const WORTH_IT: usize = 64;
        let fabric = model.fabric;
        let hosts = fabric.hosts.len();
        if !fabric.is_by_destination() || hosts < WORTH_IT {
            return None;
        }
        let (number_of, first_host) = fabric.leaves();
        let switches = fabric.leaf_of.iter();
        let leaf: Vec<u32> = switches.map(|at| number_of[*at as usize]).collect();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "half of the memory, and far more digits than a measurement has"
        )]
        let value = |hop: u32| values[model.column_of(hop) as usize] as f32;
        let own: Vec<f32> = fabric
            .host_cable
            .iter()
            .map(|cable| value(2 * cable))
            .collect();
        let mut room = Room::default();
        let mut from_leaf = vec![0.0; first_host.len() * hosts];
        for (at, start) in first_host.iter().enumerate() {
            for to in 0..number(hosts) {
                let slot = &mut from_leaf[at * hosts + to as usize];
                if leaf[to as usize] == leaf[*start as usize] {
                    *slot = own[to as usize];
                    continue;
                }
                fabric.route(*start, to, &mut room.hops);
                *slot = room.hops[1..].iter().map(|hop| value(*hop)).sum();
            }
        }
        Some(Self {
            hosts,
            leaf,
            from_leaf,
            own,
        })
    }

    fn round_trip(&self, from: u32, to: u32) -> f64 {
        let (i, j) = (from as usize, to as usize);
        let there = self.from_leaf[self.leaf[i] as usize * self.hosts + j];
        let back = self.from_leaf[self.leaf[j] as usize * self.hosts + i];
        f64::from(self.own[i]) + f64::from(there) + f64::from(self.own[j]) + f64::from(back)
    }
}
