//! Reductions: sums of 32-bit floats, to one member, to all, or a block to each. Vectors are in place: they hold the data of a member, then
//! partial sums, and then the result.

use std::ops::Range;

use super::fold::Fold;
use super::{Kind, SEGMENT_BYTES, Team};
use crate::plan::collective::Algorithm;
use crate::ranks::pieces::{add_floats, split, two};
use crate::ranks::{From, RankError, Request};

/// Bytes of an item, a 32-bit float.
pub(crate) const ITEM_BYTES: usize = 4;
/// Data that exceeds this many bytes is added piece by piece.
const ADDED_BYTES: usize = 256 << 10;
/// Maximum number of pieces.
const MOST_PIECES: usize = 32;

impl Team<'_, '_> {
    /// Sums all members' vectors into that of `root`. Those of other members have no meaning afterwards.
    pub(crate) fn reduce(
        &mut self,
        algorithm: Algorithm,
        root: usize,
        vector: &mut [u8],
    ) -> Result<(), RankError> {
        if vector.is_empty() || self.size() < 2 {
            return Ok(());
        }
        match algorithm {
            Algorithm::Linear => self.reduce_by_one(root, vector),
            Algorithm::Chain => self.reduce_along(root, vector),
            Algorithm::HalvingDoubling => self.reduce_in_blocks(root, vector),
            _ => self.reduce_by_tree(root, vector),
        }
    }

    /// Sums all members' vectors, at all members.
    pub(crate) fn allreduce(
        &mut self,
        algorithm: Algorithm,
        vector: &mut [u8],
    ) -> Result<(), RankError> {
        if vector.is_empty() || self.size() < 2 {
            return Ok(());
        }
        match algorithm {
            Algorithm::Ring => {
                let blocks = split(vector.len(), ITEM_BYTES, self.size());
                self.reduce_round(vector, &blocks)?;
                self.allgather_round(vector, &blocks)
            }
            Algorithm::HalvingDoubling => self.allreduce_by_halving(vector),
            Algorithm::Binomial => {
                self.reduce_by_tree(0, vector)?;
                self.broadcast(Algorithm::Binomial, 0, vector)
            }
            _ => self.allreduce_by_doubling(vector),
        }
    }

    /// Sums all members' vectors. The member at place p gets `blocks[p]` of the sum in its vector. Blocks are in the order of places.
    pub(crate) fn reduce_scatter(
        &mut self,
        algorithm: Algorithm,
        vector: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        if vector.is_empty() || self.size() < 2 {
            return Ok(());
        }
        match algorithm {
            Algorithm::Ring => self.reduce_round(vector, blocks),
            Algorithm::RecursiveHalving => self.reduce_scatter_by_halving(vector, blocks),
            Algorithm::Binomial => {
                self.reduce_by_tree(0, vector)?;
                let mut own = vec![0; blocks[self.place()].len()];
                self.scatter(Algorithm::Binomial, 0, vector, &mut own, blocks)?;
                vector[blocks[self.place()].clone()].copy_from_slice(&own);
                Ok(())
            }
            _ => self.reduce_scatter_in_turn(vector, blocks),
        }
    }

    fn reduce_by_one(&mut self, root: usize, vector: &mut [u8]) -> Result<(), RankError> {
        if self.place() != root {
            return self.give(Kind::Reduce, root, vector);
        }
        let tree = self.tree(root);
        let mut scratch = self.scratch(vector.len());
        for place in (1..self.size()).map(|number| tree.at(number)) {
            self.take(Kind::Reduce, place, &mut scratch[..vector.len()])?;
            add_floats(vector, &scratch);
        }
        self.give_back(scratch);
        Ok(())
    }

    fn reduce_by_tree(&mut self, root: usize, vector: &mut [u8]) -> Result<(), RankError> {
        let tree = self.tree(root);
        let (size, own) = (self.size(), tree.number);
        let mut scratch = self.scratch(vector.len());
        let mut bit = 1;
        while bit < size {
            if own & bit != 0 {
                self.give(Kind::Reduce, tree.at(own - bit), vector)?;
                break;
            }
            if own + bit < size {
                let other = &mut scratch[..vector.len()];
                self.take(Kind::Reduce, tree.at(own + bit), other)?;
                add_floats(vector, &scratch);
            }
            bit *= 2;
        }
        self.give_back(scratch);
        Ok(())
    }

    /// Chain from the last member to the root, segment by segment: each member adds its data to one segment while the next one arrives.
    fn reduce_along(&mut self, root: usize, vector: &mut [u8]) -> Result<(), RankError> {
        let tree = self.tree(root);
        let (size, own) = (self.size(), tree.number);
        let (before, behind) = (tree.at(own + size - 1), tree.at(own + 1));
        let segments = vector.len().div_ceil(SEGMENT_BYTES);
        let mut scratch = self.scratch(SEGMENT_BYTES);
        // The last member receives nothing, and the root passes nothing on.
        let most = if own + 1 < size { SEGMENT_BYTES } else { 0 };
        for number in 0..=segments {
            let begin = (number * SEGMENT_BYTES).min(vector.len());
            let (have, open) = vector.split_at_mut(begin);
            let ready = have.chunks(SEGMENT_BYTES).next_back().unwrap_or(&[]);
            let goes = if own > 0 { ready } else { &[] };
            let comes = open.len().min(most);
            let came = &mut scratch[..comes];
            self.trade(Kind::Reduce, (before, goes), (behind, came))?;
            add_floats(&mut open[..comes], &scratch);
        }
        self.give_back(scratch);
        Ok(())
    }

    /// Halving leaves a block of the sum at each active member. A tree collects these blocks, and they go to the root.
    fn reduce_in_blocks(&mut self, root: usize, vector: &mut [u8]) -> Result<(), RankError> {
        let fold = Fold::of(self.size());
        let blocks = split(vector.len(), ITEM_BYTES, fold.active);
        // Number of the active member that is the root or acts for it.
        let speaker = fold.number_of(root).unwrap_or(root / 2);
        if let Some(number) = self.fold(fold, vector)? {
            self.halve(fold, number, vector, &blocks)?;
            self.collect(fold, (number, speaker), vector, &blocks)?;
        }
        let speaks_at = fold.place_of(speaker);
        if speaks_at != root && self.place() == speaks_at {
            self.give(Kind::Reduce, root, vector)?;
        } else if speaks_at != root && self.place() == root {
            self.take(Kind::Reduce, speaks_at, vector)?;
        }
        Ok(())
    }

    /// Recursive halving: in each round half of the remaining data goes to the member whose number differs in one bit, from the highest bit
    /// down. In the end `blocks[number]` holds the sum.
    fn halve(
        &mut self,
        fold: Fold,
        number: usize,
        vector: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let mut scratch = self.scratch(vector.len());
        let span = |from: usize, count: usize| blocks[from].start..blocks[from + count - 1].end;
        let mut bit = fold.active / 2;
        while bit > 0 {
            let other = number ^ bit;
            let (mine, theirs) = (number & !(bit - 1), other & !(bit - 1));
            let (out, keep) = (span(theirs, bit), span(mine, bit));
            let (out, keep) = two(vector, out, keep);
            self.trade_and_add(fold.place_of(other), out, keep, &mut scratch)?;
            bit /= 2;
        }
        self.give_back(scratch);
        Ok(())
    }

    /// Trades with a member, and adds the received data to `keep`. Long data is added piece by piece, while a received piece is still in
    /// the cache and the next one is under way.
    fn trade_and_add(
        &mut self,
        place: usize,
        out: &[u8],
        keep: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), RankError> {
        let came = &mut scratch[..keep.len()];
        if out.len().max(keep.len()) <= ADDED_BYTES {
            self.trade(Kind::Reduce, (place, out), (place, came))?;
            add_floats(keep, came);
            return Ok(());
        }
        // Both sides divide a length in the same way: into whole items, and into few enough pieces that tracking them costs little.
        let piece =
            |bytes: usize| ADDED_BYTES.max((bytes / MOST_PIECES).next_multiple_of(ITEM_BYTES));
        let (rank, tag) = (self.group.rank_at(place), Kind::Reduce.tag());
        let mut exchange = self.world.exchange();
        let each = piece(keep.len());
        let coming: Vec<Request> = came
            .chunks_mut(each)
            .map(|came| exchange.start_receive(From::Rank(rank), tag, came))
            .collect();
        for out in out.chunks(piece(out.len())) {
            exchange.start_send(rank, tag, out);
        }
        for (own, request) in keep.chunks_mut(each).zip(coming) {
            add_floats(own, exchange.collect(request)?);
        }
        exchange.wait_all()?;
        Ok(())
    }

    /// Collects the blocks of active members at the active number `to`, along a binomial tree that follows the bits.
    fn collect(
        &mut self,
        fold: Fold,
        (number, to): (usize, usize),
        vector: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let span = |from: usize, count: usize| blocks[from].start..blocks[from + count - 1].end;
        let mut bit = 1;
        while bit < fold.active {
            let other = number ^ bit;
            let place = fold.place_of(other);
            // A member on the target's side of this bit receives, if its lower bits are the target's.
            let takes = (number ^ to) & (2 * bit - 1) == 0;
            let gives = (number ^ to) & (2 * bit - 1) == bit;
            if takes {
                let into = &mut vector[span(other & !(bit - 1), bit)];
                self.take(Kind::Reduce, place, into)?;
            } else if gives {
                let out = &vector[span(number & !(bit - 1), bit)];
                self.give(Kind::Reduce, place, out)?;
                return Ok(());
            }
            bit *= 2;
        }
        Ok(())
    }

    fn allreduce_by_doubling(&mut self, vector: &mut [u8]) -> Result<(), RankError> {
        let fold = Fold::of(self.size());
        if let Some(number) = self.fold(fold, vector)? {
            let mut scratch = self.scratch(vector.len());
            let mut bit = 1;
            while bit < fold.active {
                let other = fold.place_of(number ^ bit);
                let came = &mut scratch[..vector.len()];
                self.swap(Kind::Reduce, (other, vector), (other, came))?;
                add_floats(vector, &scratch);
                bit *= 2;
            }
            self.give_back(scratch);
        }
        self.unfold(fold, vector)
    }

    fn allreduce_by_halving(&mut self, vector: &mut [u8]) -> Result<(), RankError> {
        let fold = Fold::of(self.size());
        if let Some(number) = self.fold(fold, vector)? {
            let blocks = split(vector.len(), ITEM_BYTES, fold.active);
            self.halve(fold, number, vector, &blocks)?;
            let span = |from: usize, count: usize| blocks[from].start..blocks[from + count - 1].end;
            let mut bit = 1;
            while bit < fold.active {
                let other = number ^ bit;
                let place = fold.place_of(other);
                let (mine, theirs) = (number & !(bit - 1), other & !(bit - 1));
                let (out, into) = two(vector, span(mine, bit), span(theirs, bit));
                self.trade(Kind::Reduce, (place, out), (place, into))?;
                bit *= 2;
            }
        }
        self.unfold(fold, vector)
    }

    /// Ring: blocks of the sum go round, and each member adds its data to each that passes. In the end each has the block of its place.
    fn reduce_round(
        &mut self,
        vector: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        let (to, from) = ((own + 1) % size, (own + size - 1) % size);
        let longest = blocks.iter().map(Range::len).max().unwrap_or(0);
        let mut scratch = self.scratch(longest);
        for step in 1..size {
            let out = blocks[(own + size - step) % size].clone();
            let into = blocks[(own + 2 * size - step - 1) % size].clone();
            let came = &mut scratch[..into.len()];
            self.trade(Kind::Reduce, (to, &vector[out]), (from, came))?;
            add_floats(&mut vector[into], &scratch);
        }
        self.give_back(scratch);
        Ok(())
    }

    /// Pairwise: in step s each member sends the one s above it that member's block, and adds the data from the one s below.
    fn reduce_scatter_in_turn(
        &mut self,
        vector: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        let mine = blocks[own].clone();
        let mut scratch = self.scratch(mine.len());
        for step in 1..size {
            let (to, from) = ((own + step) % size, (own + size - step) % size);
            let (out, came) = (blocks[to].clone(), &mut scratch[..mine.len()]);
            self.trade(Kind::Reduce, (to, &vector[out]), (from, came))?;
            add_floats(&mut vector[mine.clone()], &scratch);
        }
        self.give_back(scratch);
        Ok(())
    }

    fn reduce_scatter_by_halving(
        &mut self,
        vector: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let fold = Fold::of(self.size());
        let place = self.place();
        match self.fold(fold, vector)? {
            Some(number) => {
                let of = |number: usize| {
                    let places = fold.places(number);
                    blocks[places.start].start..blocks[places.end - 1].end
                };
                let spoken: Vec<Range<usize>> = (0..fold.active).map(of).collect();
                self.halve(fold, number, vector, &spoken)?;
                if number < fold.extra {
                    let out = &vector[blocks[place - 1].clone()];
                    self.give(Kind::Fold, place - 1, out)?;
                }
            }
            None => {
                let into = &mut vector[blocks[place].clone()];
                self.take(Kind::Fold, place + 1, into)?;
            }
        }
        Ok(())
    }
}
