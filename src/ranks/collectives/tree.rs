//! The numbers of a group's members in a tree or chain that begins at any of them.

use std::ops::Range;

use super::Team;

/// A tree: its members are numbered from the root on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree {
    root: usize,
    size: usize,
    /// Number of this member.
    pub(super) number: usize,
}

impl Tree {
    /// Place of the member with a number.
    pub(super) fn at(self, number: usize) -> usize {
        (number + self.root) % self.size
    }

    /// Size of this member's subtree, itself included, in a full binomial tree for at least this many members.
    pub(super) fn width(self) -> usize {
        match self.number {
            0 => self.size.next_power_of_two(),
            other => 1 << other.trailing_zeros(),
        }
    }

    /// Blocks of `count` members from the number `from` on.
    pub(super) fn blocks(
        self,
        blocks: &[Range<usize>],
        from: usize,
        count: usize,
    ) -> impl Iterator<Item = Range<usize>> {
        let numbers = from..(from + count).min(self.size);
        numbers.map(move |number| blocks[self.at(number)].clone())
    }

    /// Total bytes of these blocks.
    pub(super) fn bytes(self, blocks: &[Range<usize>], from: usize, count: usize) -> usize {
        self.blocks(blocks, from, count)
            .map(|block| block.len())
            .sum()
    }
}

impl Team<'_, '_> {
    /// The group as a tree from the member at the place `root`.
    pub(super) fn tree(&self, root: usize) -> Tree {
        let size = self.size();
        Tree {
            root,
            size,
            number: (self.place() + size - root) % size,
        }
    }
}
