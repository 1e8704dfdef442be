//! Gather and scatter: the data of all members goes to one, and back.

use std::ops::Range;

use super::{Kind, Team};
use crate::plan::collective::Algorithm;
use crate::ranks::RankError;

impl Team<'_, '_> {
    /// Puts `own` of the member at place p into `blocks[p]` of `all` at `root`. All members know the lengths of all.
    pub(crate) fn gather(
        &mut self,
        algorithm: Algorithm,
        root: usize,
        own: &[u8],
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        match algorithm {
            Algorithm::Linear => self.gather_by_one(root, own, all, blocks),
            _ => self.gather_by_tree(root, own, all, blocks),
        }
    }

    /// Puts `blocks[p]` of `all` at `root` into `own` of the member at place p. All members know the lengths of all.
    pub(crate) fn scatter(
        &mut self,
        algorithm: Algorithm,
        root: usize,
        all: &[u8],
        own: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        match algorithm {
            Algorithm::Linear => self.scatter_by_one(root, all, own, blocks),
            _ => self.scatter_by_tree(root, all, own, blocks),
        }
    }

    fn gather_by_one(
        &mut self,
        root: usize,
        own: &[u8],
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        if self.place() != root {
            return self.give(Kind::Gather, root, own);
        }
        all[blocks[root].clone()].copy_from_slice(own);
        let mut ops = Vec::with_capacity(blocks.len());
        for (place, part) in parts(all, blocks) {
            if place != root && !part.is_empty() {
                ops.push(self.receive(place, Kind::Gather, part));
            }
        }
        self.drive(&mut ops)
    }

    fn scatter_by_one(
        &mut self,
        root: usize,
        all: &[u8],
        own: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        if self.place() != root {
            return self.take(Kind::Scatter, root, own);
        }
        own.copy_from_slice(&all[blocks[root].clone()]);
        let size = self.size();
        let mut ops: Vec<_> = (1..size)
            .map(|distance| (root + distance) % size)
            .filter(|to| !blocks[*to].is_empty())
            .map(|to| self.send(to, Kind::Scatter, &all[blocks[to].clone()]))
            .collect();
        self.drive(&mut ops)
    }

    /// Total bytes of `count` members from `from` on, counted from the root.
    fn bytes_of(&self, root: usize, blocks: &[Range<usize>], from: usize, count: usize) -> usize {
        let places = (from..(from + count).min(self.size())).map(|at| (at + root) % self.size());
        places.map(|place| blocks[place].len()).sum()
    }

    /// Binomial tree: each member collects the data of its subtree, in the order of places from the root on, and passes it on as a whole.
    fn gather_by_tree(
        &mut self,
        root: usize,
        own: &[u8],
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let size = self.size();
        let number = (self.place() + size - root) % size;
        let at = |number: usize| (number + root) % size;
        let width = subtree(number, size);
        let mut collected = self.scratch(self.bytes_of(root, blocks, number, width));
        collected[..own.len()].copy_from_slice(own);
        let mut have = own.len();
        let mut bit = 1;
        while bit < width && number + bit < size {
            let more = self.bytes_of(root, blocks, number + bit, bit);
            let into = &mut collected[have..have + more];
            self.take(Kind::Gather, at(number + bit), into)?;
            have += more;
            bit *= 2;
        }
        if number > 0 {
            self.give(Kind::Gather, at(number - width), &collected[..have])?;
        } else {
            let mut from = 0;
            for place in (0..size).map(at) {
                let block = &blocks[place];
                all[block.clone()].copy_from_slice(&collected[from..from + block.len()]);
                from += block.len();
            }
        }
        self.give_back(collected);
        Ok(())
    }

    /// The same tree, in the opposite direction.
    fn scatter_by_tree(
        &mut self,
        root: usize,
        all: &[u8],
        own: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let size = self.size();
        let number = (self.place() + size - root) % size;
        let at = |number: usize| (number + root) % size;
        let width = subtree(number, size);
        let whole = self.bytes_of(root, blocks, number, width);
        let mut held = self.scratch(whole);
        if number == 0 {
            let mut to = 0;
            for place in (0..size).map(at) {
                let block = &all[blocks[place].clone()];
                held[to..to + block.len()].copy_from_slice(block);
                to += block.len();
            }
        } else {
            self.take(Kind::Scatter, at(number - width), &mut held[..whole])?;
        }
        let mut bit = width / 2;
        while bit > 0 {
            let before = self.bytes_of(root, blocks, number, bit);
            let more = self.bytes_of(root, blocks, number + bit, bit);
            let part = &held[before..before + more];
            self.give(Kind::Scatter, at(number + bit), part)?;
            bit /= 2;
        }
        own.copy_from_slice(&held[..own.len()]);
        self.give_back(held);
        Ok(())
    }
}

/// Size of the subtree of a number, itself included, in a full binomial tree for at least `size` numbers.
fn subtree(number: usize, size: usize) -> usize {
    match number {
        0 => size.next_power_of_two(),
        other => 1 << other.trailing_zeros(),
    }
}

/// Divides memory into its blocks, each with its place. Blocks are in order and do not overlap.
pub(super) fn parts<'all>(
    all: &'all mut [u8],
    blocks: &[Range<usize>],
) -> Vec<(usize, &'all mut [u8])> {
    let mut rest = all;
    let mut at = 0;
    let mut parts = Vec::with_capacity(blocks.len());
    for (place, block) in blocks.iter().enumerate() {
        let (_, behind) = rest.split_at_mut(block.start - at);
        let (part, behind) = behind.split_at_mut(block.len());
        parts.push((place, part));
        at = block.end;
        rest = behind;
    }
    parts
}
