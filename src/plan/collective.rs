//! Collective operations of ranks, and the algorithms for each of them.

use serde::{Deserialize, Serialize};

/// An operation that all ranks of a group do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// No rank continues before all ranks have arrived.
    Barrier,
    /// All ranks get the data of one.
    Broadcast,
    /// One rank gets the data of all.
    Gather,
    /// One rank sends a separate block to each rank.
    Scatter,
    /// All ranks get the data of all.
    Allgather,
    /// Each rank sends a separate block to each rank.
    Alltoall,
    /// One rank gets the sum.
    Reduce,
    /// Each rank gets its block of the sum.
    ReduceScatter,
    /// All ranks get the sum.
    Allreduce,
}

/// Algorithm of a collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Each pair of ranks with data to exchange does so directly, at the same time where memory allows it.
    Linear,
    /// Binomial tree.
    Binomial,
    /// Each rank passes data on to the next one, in segments that follow one another.
    Chain,
    /// In round k each rank sends to the rank 2^k above it, and receives from the rank 2^k below it.
    Dissemination,
    /// In round k each rank exchanges with the rank whose number differs in bit k.
    RecursiveDoubling,
    /// The same from the highest bit down, with half as much data in each round.
    RecursiveHalving,
    /// Recursive halving, followed by doubling or a tree (Rabenseifner 1997).
    HalvingDoubling,
    /// The root scatters blocks, and a ring gathers them (van de Geijn 1994).
    ScatterAllgather,
    /// Blocks go round a ring, one at a time.
    Ring,
    /// In round k each rank exchanges with the ranks 2^k away. The blocks of a rank double in each round with allgather (Bruck and others 1997).
    Bruck,
    /// Each rank exchanges with each of the others in turn.
    Pairwise,
}

impl Algorithm {
    /// All algorithms with the names that users write.
    pub const NAMES: [(&'static str, Self); 11] = [
        ("linear", Self::Linear),
        ("binomial", Self::Binomial),
        ("chain", Self::Chain),
        ("dissemination", Self::Dissemination),
        ("recursive-doubling", Self::RecursiveDoubling),
        ("recursive-halving", Self::RecursiveHalving),
        ("halving-doubling", Self::HalvingDoubling),
        ("scatter-allgather", Self::ScatterAllgather),
        ("ring", Self::Ring),
        ("bruck", Self::Bruck),
        ("pairwise", Self::Pairwise),
    ];

    /// Name as the user writes it.
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, one)| *one == self);
        known.map_or("", |(name, _)| name)
    }
}

impl Collective {
    /// Algorithms for this operation. Each is correct for any number of ranks.
    pub fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::*;
        match self {
            Self::Barrier => &[Dissemination, RecursiveDoubling, Linear],
            Self::Broadcast => &[Linear, Binomial, Chain, ScatterAllgather],
            Self::Gather | Self::Scatter => &[Linear, Binomial],
            Self::Allgather => &[Linear, Ring, RecursiveDoubling, Bruck],
            Self::Alltoall => &[Linear, Pairwise, Bruck],
            Self::Reduce => &[Linear, Binomial, Chain, HalvingDoubling],
            Self::ReduceScatter => &[Pairwise, Ring, RecursiveHalving, Binomial],
            Self::Allreduce => &[RecursiveDoubling, Ring, HalvingDoubling, Binomial],
        }
    }

    /// Algorithm if the user chooses none. It depends on the number of ranks and on `bytes`: the length of the whole vector if the operation has
    /// one (broadcast, reductions), otherwise the length of one rank's block.
    pub fn choose(self, ranks: usize, bytes: usize) -> Algorithm {
        const SHORT: usize = 8 << 10;
        const LONG: usize = 512 << 10;
        let few = ranks <= 8;
        match self {
            Self::Barrier => Algorithm::Dissemination,
            Self::Broadcast if ranks <= 2 => Algorithm::Linear,
            Self::Broadcast if bytes < LONG => Algorithm::Binomial,
            Self::Broadcast if few => Algorithm::Chain,
            Self::Broadcast => Algorithm::ScatterAllgather,
            Self::Gather | Self::Scatter if bytes < SHORT => Algorithm::Binomial,
            Self::Gather | Self::Scatter => Algorithm::Linear,
            Self::Allgather if bytes.saturating_mul(ranks) < SHORT => Algorithm::Bruck,
            Self::Allgather if bytes.saturating_mul(ranks) < LONG => Algorithm::RecursiveDoubling,
            Self::Allgather => Algorithm::Ring,
            Self::Alltoall if bytes <= 256 && !few => Algorithm::Bruck,
            Self::Alltoall if few => Algorithm::Linear,
            Self::Alltoall => Algorithm::Pairwise,
            Self::Reduce if bytes < SHORT => Algorithm::Binomial,
            Self::Reduce if few => Algorithm::Chain,
            Self::Reduce => Algorithm::HalvingDoubling,
            Self::ReduceScatter if bytes < LONG => Algorithm::RecursiveHalving,
            Self::ReduceScatter => Algorithm::Pairwise,
            Self::Allreduce if bytes < SHORT => Algorithm::RecursiveDoubling,
            Self::Allreduce => Algorithm::HalvingDoubling,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_is_among_what_there_is() {
        use Collective::*;
        for collective in [
            Barrier,
            Broadcast,
            Gather,
            Scatter,
            Allgather,
            Alltoall,
            Reduce,
            ReduceScatter,
            Allreduce,
        ] {
            for ranks in 1..40 {
                for bytes in (0..26).map(|log| 1 << log) {
                    let chosen = collective.choose(ranks, bytes);
                    assert!(collective.algorithms().contains(&chosen), "{collective:?}");
                }
            }
            for algorithm in collective.algorithms() {
                assert!(Algorithm::NAMES.iter().any(|(_, one)| one == algorithm));
            }
        }
    }
}
