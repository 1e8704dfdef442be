//! Allgather: all members get the data of all.

use std::ops::Range;

use super::{Kind, Team};
use crate::plan::collective::Algorithm;
use crate::ranks::RankError;
use crate::ranks::pieces::{ranges, two};

impl Team<'_, '_> {
    /// The few bytes that each member gives, at all members, in the order of places.
    pub(crate) fn allgather_few<const N: usize>(
        &mut self,
        own: [u8; N],
    ) -> Result<Vec<[u8; N]>, RankError> {
        let mut all = vec![[0; N]; self.size()];
        let blocks = ranges(&vec![N; self.size()]);
        self.allgather(Algorithm::Bruck, &own, all.as_flattened_mut(), &blocks)?;
        Ok(all)
    }

    /// Puts `own` of the member at place p into `blocks[p]` of `all`, at all members. Blocks are in the order of places.
    pub(crate) fn allgather(
        &mut self,
        algorithm: Algorithm,
        own: &[u8],
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        all[blocks[self.place()].clone()].copy_from_slice(own);
        match algorithm {
            Algorithm::Linear => self.allgather_at_once(own, all, blocks),
            Algorithm::Ring => self.allgather_round(all, blocks),
            Algorithm::RecursiveDoubling => self.allgather_by_doubling(all, blocks),
            _ => self.allgather_by_bruck(all, blocks),
        }
    }

    fn allgather_at_once(
        &mut self,
        own: &[u8],
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let (place, size) = (self.place(), self.size());
        let mut ops = self.receive_blocks(Kind::Allgather, all, blocks);
        // Each member begins with its neighbour, so that not all send to the same one.
        for distance in (1..size).filter(|_| !own.is_empty()) {
            ops.push(self.send((place + distance) % size, Kind::Allgather, own));
        }
        self.drive(&mut ops)
    }

    /// Ring: each member passes on the block it received last. Own blocks are in place.
    pub(super) fn allgather_round(
        &mut self,
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        let (to, from) = ((own + 1) % size, (own + size - 1) % size);
        for step in 0..size - 1 {
            let out = blocks[(own + size - step) % size].clone();
            let into = blocks[(own + size - step - 1) % size].clone();
            let (out, into) = two(all, out, into);
            self.trade(Kind::Allgather, (to, out), (from, into))?;
        }
        Ok(())
    }

    /// Recursive doubling. A member beyond a power of two gives its block to an active member, and gets all blocks from it. Before the
    /// round of `bit` an active member has all blocks of `bit` active members, and of the members that gave them theirs.
    fn allgather_by_doubling(
        &mut self,
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        let active: usize = 1 << size.ilog2();
        let whole = 0..blocks.last().map_or(0, |last| last.end);
        if own >= active {
            let block = blocks[own].clone();
            self.give(Kind::Allgather, own - active, &all[block])?;
            return self.take(Kind::Allgather, own - active, &mut all[whole]);
        }
        let lender = own + active;
        if lender < size {
            self.take(Kind::Allgather, lender, &mut all[blocks[lender].clone()])?;
        }
        // Range from the first to the last of these blocks, which are consecutive.
        let span = |from: usize, count: usize| {
            let (begin, end) = (from.min(size), (from + count).min(size));
            if begin < end {
                blocks[begin].start..blocks[end - 1].end
            } else {
                0..0
            }
        };
        let mut bit = 1;
        while bit < active {
            let other = own ^ bit;
            let (mine, theirs) = (own & !(bit - 1), other & !(bit - 1));
            for offset in [0, active] {
                let out = span(mine + offset, bit);
                let into = span(theirs + offset, bit);
                let (out, into) = two(all, out, into);
                self.trade(Kind::Allgather, (other, out), (other, into))?;
            }
            bit *= 2;
        }
        if lender < size {
            self.give(Kind::Allgather, lender, &all[whole])?;
        }
        Ok(())
    }

    /// Bruck: before round k each member has the blocks of 2^k members from itself on, and gives them to the member 2^k below it.
    fn allgather_by_bruck(
        &mut self,
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        // Blocks are consecutive, from the own one on.
        let lengths = |count: usize| -> usize {
            (0..count)
                .map(|next| blocks[(own + next) % size].len())
                .sum()
        };
        let mut turned = self.scratch(lengths(size));
        let mine = &all[blocks[own].clone()];
        turned[..mine.len()].copy_from_slice(mine);
        let mut have = 1;
        while have < size {
            let more = have.min(size - have);
            let (to, from) = ((own + size - have) % size, (own + have) % size);
            let (mine, rest) = turned.split_at_mut(lengths(have));
            let into = &mut rest[..lengths(have + more) - mine.len()];
            let out = &mine[..lengths(more)];
            self.trade(Kind::Allgather, (to, out), (from, into))?;
            have += more;
        }
        let mut at = 0;
        for place in (0..size).map(|next| (own + next) % size) {
            let block = blocks[place].clone();
            let next = at + block.len();
            all[block].copy_from_slice(&turned[at..next]);
            at = next;
        }
        self.give_back(turned);
        Ok(())
    }
}
