//! All-to-all: each member sends one block to each member.

use std::ops::Range;

use super::{Kind, Team};
use crate::plan::collective::Algorithm;
use crate::ranks::RankError;

impl Team<'_, '_> {
    /// Copies `out[to[q]]` of the member at place p into `into[from[p]]` of the member at place q. Blocks are in the order of places. With
    /// blocks of different lengths the linear algorithm replaces that of Bruck.
    pub(crate) fn alltoall(
        &mut self,
        algorithm: Algorithm,
        (out, to): (&[u8], &[Range<usize>]),
        (into, from): (&mut [u8], &[Range<usize>]),
    ) -> Result<(), RankError> {
        let own = self.place();
        into[from[own].clone()].copy_from_slice(&out[to[own].clone()]);
        let block = to[own].len();
        let even = to.iter().chain(from).all(|one| one.len() == block);
        match algorithm {
            Algorithm::Pairwise => self.alltoall_in_turn((out, to), (into, from)),
            Algorithm::Bruck if even => self.alltoall_by_bruck(out, into, block),
            _ => self.alltoall_at_once((out, to), (into, from)),
        }
    }

    fn alltoall_at_once(
        &mut self,
        (out, to): (&[u8], &[Range<usize>]),
        (into, from): (&mut [u8], &[Range<usize>]),
    ) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        let mut ops = self.receive_blocks(Kind::Alltoall, into, from);
        for distance in 1..size {
            let place = (own + distance) % size;
            let part = &out[to[place].clone()];
            if !part.is_empty() {
                ops.push(self.send(place, Kind::Alltoall, part));
            }
        }
        self.drive(&mut ops)
    }

    /// Pairwise: in step s each member sends to the one s above it and receives from the one s below.
    fn alltoall_in_turn(
        &mut self,
        (out, to): (&[u8], &[Range<usize>]),
        (into, from): (&mut [u8], &[Range<usize>]),
    ) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        for step in 1..size {
            let (target, source) = ((own + step) % size, (own + size - step) % size);
            let part = &out[to[target].clone()];
            let place = &mut into[from[source].clone()];
            self.trade(Kind::Alltoall, (target, part), (source, place))?;
        }
        Ok(())
    }

    /// Bruck: block i has i places to go. In round k all blocks whose distance has bit k go 2^k places, as one message.
    fn alltoall_by_bruck(
        &mut self,
        out: &[u8],
        into: &mut [u8],
        block: usize,
    ) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        if block == 0 {
            return Ok(());
        }
        let at = |number: usize| number * block..(number + 1) * block;
        let half = size.div_ceil(2) * block;
        let mut scratch = self.scratch((size * block) + 2 * half);
        let (turned, rest) = scratch.split_at_mut(size * block);
        let (packed, came) = rest.split_at_mut(half);
        for distance in 0..size {
            let place = (own + distance) % size;
            turned[at(distance)].copy_from_slice(&out[at(place)]);
        }
        let mut bit = 1;
        while bit < size {
            let moving = || (0..size).filter(|distance| distance & bit != 0);
            for (slot, distance) in moving().enumerate() {
                packed[at(slot)].copy_from_slice(&turned[at(distance)]);
            }
            let (to, from) = ((own + bit) % size, (own + size - bit) % size);
            let bytes = moving().count() * block;
            let (goes, comes) = (&packed[..bytes], &mut came[..bytes]);
            self.swap(Kind::Alltoall, (to, goes), (from, comes))?;
            for (slot, distance) in moving().enumerate() {
                turned[at(distance)].copy_from_slice(&came[at(slot)]);
            }
            bit *= 2;
        }
        // A block that has travelled i places comes from the member i below.
        for distance in 0..size {
            let source = (own + size - distance) % size;
            into[at(source)].copy_from_slice(&turned[at(distance)]);
        }
        self.give_back(scratch);
        Ok(())
    }
}
