//! Fixed-size words of a link: its hello, and the header of each block.

use pipebench::internals::wire::block::{BlockError, BlockHeader, HEADER_BYTES};
use pipebench::internals::wire::hello::{HELLO_BYTES, LinkHello};
use pipebench::internals::wire::rank::{HEAD_BYTES, MessageHead, RankHello};

use super::one_line;

pub const WORDS: &[&str] = &["PBLK", "PBLK\u{1}\0", "PBLINK01", "PBRANK01", "PBLINKOK"];

const LIMIT: u64 = 262_144;

pub fn run(input: &[u8]) -> String {
    let mut bytes = [0; HEADER_BYTES];
    for (target, source) in bytes.iter_mut().zip(input) {
        *target = *source;
    }
    let mut hello_bytes = [0; HELLO_BYTES];
    hello_bytes.copy_from_slice(&bytes);
    if let Some(hello) = LinkHello::decode(&hello_bytes) {
        assert_eq!(LinkHello::decode(&hello.encode()), Some(hello));
        assert_eq!(hello.encode()[..56], hello_bytes[..56]);
        return "a hello".to_owned();
    }
    if let Some(hello) = RankHello::decode(&hello_bytes) {
        assert_eq!(RankHello::decode(&hello.encode()), Some(hello));
        return "a rank".to_owned();
    }
    let mut head = [0; HEAD_BYTES];
    head.copy_from_slice(&bytes[..HEAD_BYTES]);
    assert_eq!(MessageHead::decode(&head).encode(), head);
    match BlockHeader::decode(&bytes, LIMIT) {
        Err(error) => named(&error),
        Ok(header) => {
            assert!(header.payload_bytes <= LIMIT);
            assert_eq!(BlockHeader::decode(&header.encode(), LIMIT), Ok(header));
            let checks = [
                header.expect(7),
                header.expect_origin((1, 2)),
                header.expect_checksum(9),
            ];
            checks
                .map(|check| check.map_or_else(|error| named(&error), |_| "fine".to_owned()))
                .join("; ")
        }
    }
}

/// The error without its numbers, some of which are hexadecimal.
fn named(error: &BlockError) -> String {
    let text = one_line(error, 200);
    let words = text.split_whitespace().filter(|word| {
        let digit = |letter: char| letter.is_ascii_hexdigit();
        !word.contains(digit)
            || word.contains(|letter: char| letter.is_ascii_alphabetic() && !digit(letter))
    });
    words
        .filter(|word| !word.starts_with("0x"))
        .collect::<Vec<_>>()
        .join(" ")
}
