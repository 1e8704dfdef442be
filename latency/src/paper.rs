//! Implements the paper's own method, for comparison: takes the first basis in the order of pairs and colours it by Welsh and Powell.

use super::fabric::number;
use super::pool::pairs_among;
use super::rows::{Model, Room};
use super::survey::Exact;

/// Returns a basis: each pair whose row is independent of the rows before it. Stops as soon as all columns are known.
pub fn basis(model: &Model<'_>, present: &[u32]) -> Vec<(u32, u32)> {
    let mut engine = Exact::new((0..number(model.columns())).rev().collect());
    let (mut room, mut row) = (Room::default(), Vec::new());
    let mut basis = Vec::new();
    for (from, to) in pairs_among(present) {
        model.row(from, to, &mut room, &mut row);
        if engine.add(row.iter().copied()) {
            basis.push((from, to));
            if engine.known_count() == model.usable() {
                return basis;
            }
        }
    }
    basis
}

/// Packs pairs into rounds in which no two share a cable. Pairs that share a cable with most others come first, and each colour is filled before the
/// next begins (Welsh and Powell: "An upper bound for the chromatic number of a graph and its application to timetabling problems", 1967).
pub fn colour(model: &Model<'_>, pairs: &[(u32, u32)]) -> Vec<Vec<(u32, u32)>> {
    let (mut room, mut row) = (Room::default(), Vec::new());
    let mut cables: Vec<Vec<u32>> = Vec::with_capacity(pairs.len());
    let mut through: Vec<Vec<u32>> = vec![Vec::new(); model.fabric.cables.len()];
    for (index, (from, to)) in (0_u32..).zip(pairs) {
        model.row(*from, *to, &mut room, &mut row);
        let mut own: Vec<u32> = row
            .iter()
            .map(|(column, _)| model.cable_of(*column))
            .collect();
        own.sort_unstable();
        own.dedup();
        own.iter()
            .for_each(|cable| through[*cable as usize].push(index));
        cables.push(own);
    }
    // Degree of each pair: the number of pairs that share a cable with it.
    let mut stamp = vec![u32::MAX; pairs.len()];
    let mut order: Vec<(usize, u32)> = Vec::with_capacity(pairs.len());
    for (index, own) in (0_u32..).zip(&cables) {
        let mut degree = 0;
        for other in own.iter().flat_map(|cable| &through[*cable as usize]) {
            if stamp[*other as usize] != index {
                stamp[*other as usize] = index;
                degree += 1;
            }
        }
        order.push((degree, index));
    }
    order.sort_by_key(|(degree, index)| (std::cmp::Reverse(*degree), *index));
    let mut left: Vec<u32> = order.into_iter().map(|(_, index)| index).collect();
    let mut rounds = Vec::new();
    let mut busy = vec![0_u32; model.fabric.cables.len()];
    while !left.is_empty() {
        let colour = number(rounds.len() + 1);
        let mut round = Vec::new();
        left.retain(|index| {
            let own = &cables[*index as usize];
            if own.iter().any(|cable| busy[*cable as usize] == colour) {
                return true;
            }
            own.iter().for_each(|cable| busy[*cable as usize] = colour);
            round.push(pairs[*index as usize]);
            false
        });
        rounds.push(round);
    }
    rounds
}
