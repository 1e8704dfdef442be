//! Broadcast: all members get the data of one.

use super::{Kind, SEGMENT_BYTES, Team};
use crate::plan::collective::Algorithm;
use crate::ranks::RankError;
use crate::ranks::pieces::split;

impl Team<'_, '_> {
    /// Copies the bytes of `root` to all members.
    pub(crate) fn broadcast(
        &mut self,
        algorithm: Algorithm,
        root: usize,
        bytes: &mut [u8],
    ) -> Result<(), RankError> {
        if bytes.is_empty() || self.size() < 2 {
            return Ok(());
        }
        match algorithm {
            Algorithm::Linear => self.broadcast_by_one(root, bytes),
            Algorithm::Chain => self.broadcast_along(root, bytes),
            Algorithm::ScatterAllgather => self.broadcast_in_blocks(root, bytes),
            _ => self.broadcast_by_tree(root, bytes),
        }
    }

    fn broadcast_by_one(&mut self, root: usize, bytes: &mut [u8]) -> Result<(), RankError> {
        if self.place() != root {
            return self.take(Kind::Broadcast, root, bytes);
        }
        let (tree, bytes) = (self.tree(root), &*bytes);
        let mut ops: Vec<_> = (1..self.size())
            .map(|number| self.send(tree.at(number), Kind::Broadcast, bytes))
            .collect();
        self.drive(&mut ops)
    }

    /// Binomial tree: in round k the first 2^k members have the data, and send it to as many others.
    fn broadcast_by_tree(&mut self, root: usize, bytes: &mut [u8]) -> Result<(), RankError> {
        let tree = self.tree(root);
        let (size, own) = (self.size(), tree.number);
        let mut distance = 1;
        while distance < size {
            if (distance..2 * distance).contains(&own) {
                self.take(Kind::Broadcast, tree.at(own - distance), bytes)?;
            } else if own < distance && own + distance < size {
                self.give(Kind::Broadcast, tree.at(own + distance), bytes)?;
            }
            distance *= 2;
        }
        Ok(())
    }

    /// Chain: each member passes a segment on while it receives the next one.
    fn broadcast_along(&mut self, root: usize, bytes: &mut [u8]) -> Result<(), RankError> {
        let tree = self.tree(root);
        let (size, own) = (self.size(), tree.number);
        let (before, behind) = (tree.at(own + size - 1), tree.at(own + 1));
        let segments = bytes.len().div_ceil(SEGMENT_BYTES);
        // The root receives nothing, and the last member passes nothing on.
        let most = if own > 0 { SEGMENT_BYTES } else { 0 };
        for number in 0..=segments {
            let (have, open) = bytes.split_at_mut((number * SEGMENT_BYTES).min(bytes.len()));
            let ready = have.chunks(SEGMENT_BYTES).next_back().unwrap_or(&[]);
            let goes = if own + 1 < size { ready } else { &[] };
            let comes = open.len().min(most);
            let came = &mut open[..comes];
            self.trade(Kind::Broadcast, (behind, goes), (before, came))?;
        }
        Ok(())
    }

    /// Scatter and allgather: each member gets a block, and then those of all others.
    fn broadcast_in_blocks(&mut self, root: usize, bytes: &mut [u8]) -> Result<(), RankError> {
        let blocks = split(bytes.len(), 1, self.size());
        if self.place() == root {
            self.scatter_by_one(root, bytes, &mut [], &blocks)?;
        } else {
            let own = &mut bytes[blocks[self.place()].clone()];
            self.scatter_by_one(root, &[], own, &blocks)?;
        }
        self.allgather_round(bytes, &blocks)
    }
}
