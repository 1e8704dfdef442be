//! Benchmarks of files: the meaning of their names (guide, table 1), and each rank's bytes of a file.

use std::ops::Range;

/// A benchmark that writes or reads a file. Its name describes it completely, such as `P_IRead_Shared`.
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

/// All names, in the order of the guide's table 1, spelled as the suite prints them.
const NAMES: [&str; 36] = [
    "S_Write_Indv",
    "S_IWrite_Indv",
    "S_Read_Indv",
    "S_IRead_Indv",
    "S_Write_Expl",
    "S_IWrite_Expl",
    "S_Read_Expl",
    "S_IRead_Expl",
    "P_Write_Indv",
    "P_IWrite_Indv",
    "P_Read_Indv",
    "P_IRead_Indv",
    "P_Write_Expl",
    "P_IWrite_Expl",
    "P_Read_Expl",
    "P_IRead_Expl",
    "P_Write_Shared",
    "P_IWrite_Shared",
    "P_Read_Shared",
    "P_IRead_Shared",
    "P_Write_Priv",
    "P_IWrite_Priv",
    "P_Read_Priv",
    "P_IRead_Priv",
    "C_Write_Indv",
    "C_IWrite_Indv",
    "C_Read_Indv",
    "C_IRead_Indv",
    "C_Write_Expl",
    "C_IWrite_Expl",
    "C_Read_Expl",
    "C_IRead_Expl",
    "C_Write_Shared",
    "C_IWrite_Shared",
    "C_Read_Shared",
    "C_IRead_Shared",
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
        self.name().contains("_IWrite") || self.name().contains("_IRead")
    }

    /// Origin of a transfer's offset in the file.
    pub fn pointer(self) -> Pointer {
        match self.name().rsplit('_').next() {
            Some("Indv") => Pointer::Individual,
            Some("Expl") => Pointer::Explicit,
            Some("Shared") => Pointer::Shared,
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
        let one = of("P_IRead_Shared");
        assert_eq!((one.who(), one.pointer()), (Who::Parallel, Pointer::Shared));
        assert!(one.overlaps() && !one.writes());
        let one = of("S_Write_Expl");
        assert_eq!((one.who(), one.pointer()), (Who::Single, Pointer::Explicit));
        assert!(!one.overlaps() && one.writes());
        assert_eq!(of("C_IWrite_Indv").who(), Who::Collective);
        assert_eq!(of("P_Read_Priv").pointer(), Pointer::Private);
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
