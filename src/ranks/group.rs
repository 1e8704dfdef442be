//! Ordered groups of ranks that act together (MPI calls them communicators).

use std::sync::Arc;

/// A group of ranks, as one of its members sees it. A member is identified by its place in the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    members: Arc<[usize]>,
    place: usize,
}

impl Group {
    /// Creates a group of these ranks. Returns `None` if `rank` is not among them, or if a rank occurs twice.
    pub fn new(members: Vec<usize>, rank: usize) -> Option<Self> {
        let place = members.iter().position(|member| *member == rank)?;
        let mut sorted = members.clone();
        sorted.sort_unstable();
        let twice = sorted.windows(2).any(|two| two[0] == two[1]);
        (!twice).then(|| Self {
            members: members.into(),
            place,
        })
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Place of this rank.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The rank at a place.
    pub fn rank_at(&self, place: usize) -> usize {
        self.members[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_known_by_their_places_and_nobody_is_twice() {
        let group = Group::new(vec![4, 0, 2], 2).unwrap();
        assert_eq!((group.size(), group.place(), group.rank_at(0)), (3, 2, 4));
        assert_eq!(Group::new(vec![4, 0, 2], 1), None);
        assert_eq!(Group::new(vec![1, 0, 1], 1), None);
    }
}
