//! Parts of a buffer: their ranges, and sums of floats in them.

use std::ops::Range;

/// Splits `bytes` bytes into `parts` ranges of whole items of `item` bytes, as evenly as possible: the first ranges have one item more. The
/// last range also has the bytes of an incomplete item.
pub(crate) fn split(bytes: usize, item: usize, parts: usize) -> Vec<Range<usize>> {
    let items = bytes / item;
    let (each, more) = (items / parts, items % parts);
    let mut at = 0;
    let mut all: Vec<Range<usize>> = (0..parts)
        .map(|part| {
            let begin = at;
            at += (each + usize::from(part < more)) * item;
            begin..at
        })
        .collect();
    if let Some(last) = all.last_mut() {
        last.end = bytes;
    }
    all
}

/// Consecutive ranges of `lengths` bytes.
pub(crate) fn ranges(lengths: &[usize]) -> Vec<Range<usize>> {
    let mut at = 0;
    let of = |length: &usize| {
        let begin = at;
        at += length;
        begin..at
    };
    lengths.iter().map(of).collect()
}

/// Two parts of the same memory that do not overlap: one to read, one to write.
pub(super) fn two(all: &mut [u8], read: Range<usize>, write: Range<usize>) -> (&[u8], &mut [u8]) {
    if read.start >= write.end || read.is_empty() {
        let (low, high) = all.split_at_mut(write.end);
        let read = if read.is_empty() {
            &high[..0]
        } else {
            &high[read.start - write.end..read.end - write.end]
        };
        (read, &mut low[write])
    } else {
        let (low, high) = all.split_at_mut(read.end);
        let write = if write.is_empty() {
            0..0
        } else {
            write.start - read.end..write.end - read.end
        };
        (&low[read], &mut high[write])
    }
}

/// Adds 32-bit little-endian floats item by item. Trailing bytes that are no whole item stay unchanged.
pub(crate) fn add_floats(into: &mut [u8], from: &[u8]) {
    for (own, other) in into.chunks_exact_mut(4).zip(from.chunks_exact(4)) {
        let float = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let sum = float(own) + float(other);
        own.copy_from_slice(&sum.to_le_bytes());
    }
}
