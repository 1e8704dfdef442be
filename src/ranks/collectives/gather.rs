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
            Algorithm::Linear => {
                if self.place() == root {
                    own.copy_from_slice(&all[blocks[root].clone()]);
                }
                self.scatter_by_one(root, all, own, blocks)
            }
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
        let mut ops = self.receive_blocks(Kind::Gather, all, blocks);
        self.drive(&mut ops)
    }

    /// Sends each other member its block. The root's own block stays where it is.
    pub(super) fn scatter_by_one(
        &mut self,
        root: usize,
        all: &[u8],
        own: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        if self.place() != root {
            return self.take(Kind::Scatter, root, own);
        }
        let tree = self.tree(root);
        let mut ops: Vec<_> = (1..self.size())
            .map(|number| tree.at(number))
            .filter(|to| !blocks[*to].is_empty())
            .map(|to| self.send(to, Kind::Scatter, &all[blocks[to].clone()]))
            .collect();
        self.drive(&mut ops)
    }

    /// Binomial tree: each member collects the data of its subtree, in the order of places from the root on, and passes it on as a whole.
    fn gather_by_tree(
        &mut self,
        root: usize,
        own: &[u8],
        all: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<(), RankError> {
        let tree = self.tree(root);
        let (size, number, width) = (self.size(), tree.number, tree.width());
        let mut collected = self.scratch(tree.bytes(blocks, number, width));
        collected[..own.len()].copy_from_slice(own);
        let mut have = own.len();
        let mut bit = 1;
        while bit < width && number + bit < size {
            let more = tree.bytes(blocks, number + bit, bit);
            let into = &mut collected[have..have + more];
            self.take(Kind::Gather, tree.at(number + bit), into)?;
            have += more;
            bit *= 2;
        }
        if number > 0 {
            self.give(Kind::Gather, tree.at(number - width), &collected[..have])?;
        } else {
            let mut from = 0;
            for block in tree.blocks(blocks, 0, size) {
                let next = from + block.len();
                all[block].copy_from_slice(&collected[from..next]);
                from = next;
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
        let tree = self.tree(root);
        let (number, width) = (tree.number, tree.width());
        let whole = tree.bytes(blocks, number, width);
        let mut held = self.scratch(whole);
        if number == 0 {
            let mut to = 0;
            for block in tree.blocks(blocks, 0, self.size()) {
                let next = to + block.len();
                held[to..next].copy_from_slice(&all[block]);
                to = next;
            }
        } else {
            self.take(Kind::Scatter, tree.at(number - width), &mut held[..whole])?;
        }
        let mut bit = width / 2;
        while bit > 0 {
            let before = tree.bytes(blocks, number, bit);
            let more = tree.bytes(blocks, number + bit, bit);
            let part = &held[before..before + more];
            self.give(Kind::Scatter, tree.at(number + bit), part)?;
            bit /= 2;
        }
        own.copy_from_slice(&held[..own.len()]);
        self.give_back(held);
        Ok(())
    }
}
