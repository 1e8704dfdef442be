//! Benchmarks of files: the meaning of their names (guide, table 1), and each rank's bytes of a file.

use std::ops::Range;

/// A benchmark that writes or reads a file. Its name describes it completely, such as `P_IRead_shared`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileBenchmark(u8);

/// Ranks that take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// One rank alone.
    Single,
    /// All ranks, each independently.
    Parallel,
    /// All ranks together.
    Collective,
}

/// Origin of a transfer's offset in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pointer {
    /// Each rank has its own position.
    Individual,
    /// Each call gives the offset.
    Explicit,
    /// All ranks share one position.
    Shared,
    /// Each rank has its own file, and a position in it.
    Private,
}

/// All names, in the order of the guide's table 1.
const NAMES: [&str; 36] = [
    "S_Write_indv",
    "S_IWrite_indv",
    "S_Read_indv",
    "S_IRead_indv",
    "S_Write_expl",
    "S_IWrite_expl",
    "S_Read_expl",
    "S_IRead_expl",
    "P_Write_indv",
    "P_IWrite_indv",
    "P_Read_indv",
    "P_IRead_indv",
    "P_Write_expl",
    "P_IWrite_expl",
    "P_Read_expl",
    "P_IRead_expl",
    "P_Write_shared",
    "P_IWrite_shared",
    "P_Read_shared",
    "P_IRead_shared",
    "P_Write_priv",
    "P_IWrite_priv",
    "P_Read_priv",
    "P_IRead_priv",
    "C_Write_indv",
    "C_IWrite_indv",
    "C_Read_indv",
    "C_IRead_indv",
    "C_Write_expl",
    "C_IWrite_expl",
    "C_Read_expl",
    "C_IRead_expl",
    "C_Write_shared",
    "C_IWrite_shared",
    "C_Read_shared",
    "C_IRead_shared",
];

impl FileBenchmark {
    /// All benchmarks of files.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..NAMES.len()).filter_map(|number| u8::try_from(number).ok().map(Self))
    }

    /// Name as in tables.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }

    /// Ranks that take part.
    pub fn who(self) -> Who {
        match self.name().as_bytes()[0] {
            b'S' => Who::Single,
            b'P' => Who::Parallel,
            _ => Who::Collective,
        }
    }

    /// True if it writes. Otherwise it reads.
    pub fn writes(self) -> bool {
        self.name().contains("Write")
    }

    /// True if a transfer runs while the rank computes.
    pub fn overlaps(self) -> bool {
        self.name().contains("_I")
    }

    /// Origin of a transfer's offset in the file.
    pub fn pointer(self) -> Pointer {
        match self.name().rsplit('_').next() {
            Some("indv") => Pointer::Individual,
            Some("expl") => Pointer::Explicit,
            Some("shared") => Pointer::Shared,
            _ => Pointer::Private,
        }
    }

    /// Bytes that belong to the rank at `place`, in a portion of `bytes` bytes: whole items of four bytes, as even as possible. The first ranks get
    /// one item more, and the last rank gets the rest.
    pub fn piece(self, bytes: usize, ranks: usize, place: usize) -> Range<usize> {
        let items = bytes.div_ceil(ITEM_BYTES);
        let (each, more) = (items / ranks, items % ranks);
        let first = |place: usize| (place * each + place.min(more)) * ITEM_BYTES;
        first(place).min(bytes)..first(place + 1).min(bytes)
    }
}

/// Bytes of an item in files, a 32-bit number.
pub const ITEM_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_done() {
        let of = |name: &str| FileBenchmark::all().find(|one| one.name() == name).unwrap();
        let one = of("P_IRead_shared");
        assert_eq!((one.who(), one.pointer()), (Who::Parallel, Pointer::Shared));
        assert!(one.overlaps() && !one.writes());
        let one = of("S_Write_expl");
        assert_eq!((one.who(), one.pointer()), (Who::Single, Pointer::Explicit));
        assert!(!one.overlaps() && one.writes());
        assert_eq!(of("C_IWrite_indv").who(), Who::Collective);
        assert_eq!(of("P_Read_priv").pointer(), Pointer::Private);
        assert_eq!(FileBenchmark::all().count(), 36);
    }

    #[test]
    fn pieces_are_even_and_make_the_whole() {
        for bytes in [0, 1, 4, 5, 11, 12, 13, 1000, 4096] {
            for ranks in 1..6 {
                let any = FileBenchmark(0);
                let pieces: Vec<_> = (0..ranks)
                    .map(|place| any.piece(bytes, ranks, place))
                    .collect();
                assert_eq!(pieces[0].start, 0);
                assert_eq!(pieces[ranks - 1].end, bytes, "{bytes} {ranks}");
                assert!(pieces.windows(2).all(|two| two[0].end == two[1].start));
                assert!(pieces[0].len() >= pieces[ranks - 1].len());
            }
        }
        // Seven items and three ranks: 3, 2 and 2, where the last item is incomplete.
        let of = |place| FileBenchmark(0).piece(26, 3, place);
        assert_eq!([of(0), of(1), of(2)], [0..12, 12..20, 20..26]);
    }
}
