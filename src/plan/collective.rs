//! What ranks do together, and the ways there are to do it.

use serde::{Deserialize, Serialize};

/// Something that all ranks of a group do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// Nobody goes on before all have come.
    Barrier,
    /// What one has goes to all.
    Broadcast,
    /// What all have goes to one.
    Gather,
    /// A block for each goes from one to all.
    Scatter,
    /// What all have goes to all.
    Allgather,
    /// A block for each goes from each to each.
    Alltoall,
    /// The sum goes to one.
    Reduce,
    /// Each gets its block of the sum.
    ReduceScatter,
    /// The sum goes to all.
    Allreduce,
}

/// A way to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// One speaks with all others, at the same time where memory allows it.
    Linear,
    /// Along a binomial tree.
    Binomial,
    /// From each to the next one, in segments that follow one another.
    Chain,
    /// In round k with those 2^k away, to both sides.
    Dissemination,
    /// In round k with the one whose number differs in bit k.
    RecursiveDoubling,
    /// The same from the highest bit on, with half as much in each round.
    RecursiveHalving,
    /// Recursive halving, and doubling or a tree behind it (Rabenseifner 1997).
    HalvingDoubling,
    /// A tree that scatters, and a ring that gathers (van de Geijn 1994).
    ScatterAllgather,
    /// Round a ring, one block at a time.
    Ring,
    /// Blocks of the next ranks, as many more in each round as are there (Bruck and others 1997).
    Bruck,
    /// With each of the others in turn.
    Pairwise,
}

/// All algorithms.
pub const ALGORITHMS: [Algorithm; 11] = [
    Algorithm::Linear,
    Algorithm::Binomial,
    Algorithm::Chain,
    Algorithm::Dissemination,
    Algorithm::RecursiveDoubling,
    Algorithm::RecursiveHalving,
    Algorithm::HalvingDoubling,
    Algorithm::ScatterAllgather,
    Algorithm::Ring,
    Algorithm::Bruck,
    Algorithm::Pairwise,
];

impl Algorithm {
    /// As the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Binomial => "binomial",
            Self::Chain => "chain",
            Self::Dissemination => "dissemination",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::RecursiveHalving => "recursive-halving",
            Self::HalvingDoubling => "halving-doubling",
            Self::ScatterAllgather => "scatter-allgather",
            Self::Ring => "ring",
            Self::Bruck => "bruck",
            Self::Pairwise => "pairwise",
        }
    }
}

impl Collective {
    /// The ways there are to do it; each is right for any number of ranks.
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

    /// The way that is taken if nobody asks for another one: by the number of ranks, and by bytes of the whole vector where there is one
    /// (broadcast, reductions), or else of a block of one rank.
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
                assert!(ALGORITHMS.contains(algorithm));
            }
        }
    }
}
