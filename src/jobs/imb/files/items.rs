//! Data that is written to files, and that should be read from them (guide 5.2.5).

use crate::jobs::imb::contents::Wrong;
use crate::plan::imb::FILE_ITEM_BYTES;

/// Item `at` of the data that the rank at a place writes (guide 5.2.5).
fn item(place: usize, at: usize) -> u32 {
    let number = 10_000_000 * (1 + place) + at % 10_000_000;
    u32::try_from(number % (1 << 32)).unwrap_or(0)
}

/// Fills `into` with the data that the rank at a place writes, from byte `from` on.
pub(super) fn written(place: usize, from: usize, into: &mut [u8]) {
    for (number, byte) in into.iter_mut().enumerate() {
        let at = from + number;
        *byte = item(place, at / FILE_ITEM_BYTES).to_le_bytes()[at % FILE_ITEM_BYTES];
    }
}

/// Fills `into` with the contents of a file to be read, from byte `from` on: as if the first rank had written it.
pub(super) fn laid(from: u64, into: &mut [u8]) {
    written(0, usize::try_from(from).unwrap_or(0), into);
}

/// The first item that differs.
pub(super) fn differs(expected: &[u8], came: &[u8]) -> Option<Wrong> {
    if expected == came {
        return None;
    }
    let number = |bytes: &[u8]| {
        let mut four = [0; FILE_ITEM_BYTES];
        four[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(four)
    };
    let items = expected
        .chunks(FILE_ITEM_BYTES)
        .zip(came.chunks(FILE_ITEM_BYTES));
    let (item, (one, other)) = items.enumerate().find(|(_, (one, other))| one != other)?;
    let (one, other) = (number(one), number(other));
    let against = f64::from(one.max(1));
    Some(Wrong {
        item,
        expected: one.to_string(),
        got: other.to_string(),
        defect: (f64::from(one) - f64::from(other)).abs() / against,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_those_of_the_guide() {
        let mut bytes = [0; 10];
        written(1, 0, &mut bytes);
        assert_eq!(bytes[..4], 20_000_000_u32.to_le_bytes());
        assert_eq!(bytes[4..8], 20_000_001_u32.to_le_bytes());
        let mut later = [0; 5];
        written(1, 3, &mut later);
        assert_eq!(later, bytes[3..8]);
        assert_eq!(item(0, 10_000_003), 10_000_003);
        let wrong = differs(&bytes, &[0; 10]).unwrap();
        assert_eq!((wrong.item, wrong.defect), (0, 1.0));
        assert_eq!(wrong.expected, "20000000");
        assert_eq!(differs(&bytes, &bytes), None);
    }
}
