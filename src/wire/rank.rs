//! The protocol between ranks: the handshake of a link between two of them, and the head of each message.
//!
//! ```text
//!  rank a                                      rank b
//!    | -- "PBRANK01" secret a b ------------------>  |   a has a message for b, and proposes a link
//!    | <------------------------------ "PBLINKOK" - |   accepted: the link serves both directions from now on
//!    | <------------------------------ end-of-file  |   or refused: b had proposed, too, and the lower rank's link is kept
//!    | -- head, payload, head, payload ... ------>  |
//!    | <------ head, payload, head, payload ... --  |
//! ```

use super::bytes_at;
use super::hello::{ANSWER, HELLO_BYTES};

/// The answer to an accepted proposal.
pub const TAKEN: [u8; 8] = ANSWER;
const MAGIC: [u8; 8] = *b"PBRANK01";

/// A rank's proposal of a link to another rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankHello {
    /// Secret of the run.
    pub secret: [u8; 32],
    /// Rank that proposes the link.
    pub from: u32,
    /// Rank that receives the proposal.
    pub to: u32,
}

impl RankHello {
    /// Encodes the proposal for the wire.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..40].copy_from_slice(&self.secret);
        bytes[40..44].copy_from_slice(&self.from.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.to.to_le_bytes());
        bytes
    }

    /// Decodes a proposal, or returns `None` if a stranger sent the bytes.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        (bytes[0..8] == MAGIC).then(|| Self {
            secret: bytes_at(bytes, 8),
            from: u32::from_le_bytes(bytes_at(bytes, 40)),
            to: u32::from_le_bytes(bytes_at(bytes, 44)),
        })
    }
}

/// Length of a message's head in bytes.
pub const HEAD_BYTES: usize = 24;

/// The head before the payload of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHead {
    /// Purpose of the message.
    pub tag: u32,
    /// Number of the message on its link, counted for each direction.
    pub sequence: u32,
    /// Length of the payload after the head, in bytes; in a request, the length of the requested payload.
    pub bytes: u64,
    /// True if the payload stays in the memory that both ranks share. Eight bytes after the head say where it is.
    pub lent: bool,
    /// First byte of the window that the message concerns.
    pub place: u64,
}

/// Bit in the length field that marks a lent payload; no message is that long.
const LENT: u64 = 1 << 63;

impl MessageHead {
    /// Encodes the head for the wire.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..4].copy_from_slice(&self.tag.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        let length = self.bytes & !LENT | if self.lent { LENT } else { 0 };
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.place.to_le_bytes());
        bytes
    }

    /// Decodes a head. Any bytes are a head; the reader decides whether it makes sense.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Self {
        let length = u64::from_le_bytes(bytes_at(bytes, 8));
        Self {
            tag: u32::from_le_bytes(bytes_at(bytes, 0)),
            sequence: u32::from_le_bytes(bytes_at(bytes, 4)),
            bytes: length & !LENT,
            lent: length & LENT != 0,
            place: u64::from_le_bytes(bytes_at(bytes, 16)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_words_and_heads_survive_the_way(secret in proptest::array::uniform32(any::<u8>()), from: u32, to: u32, bytes: u64, place: u64, lent: bool) {
            let hello = RankHello { secret, from, to };
            prop_assert_eq!(RankHello::decode(&hello.encode()), Some(hello));
            let head = MessageHead { tag: from, sequence: to, bytes: bytes >> 1, lent, place };
            prop_assert_eq!(MessageHead::decode(&head.encode()), head);
        }

        #[test]
        fn garbage_is_a_stranger(bytes in proptest::array::uniform32(any::<u8>())) {
            let mut all = [0; HELLO_BYTES];
            all[..32].copy_from_slice(&bytes);
            all[0] = b'X';
            prop_assert_eq!(RankHello::decode(&all), None);
        }
    }
}
