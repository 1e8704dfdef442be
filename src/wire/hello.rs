//! The handshake of a link, which names the run and the link. Its length is fixed, so that a stranger is recognized at once.
//!
//! ```text
//!  sender                                receiver (any process of the boundary that accepts)
//!    | -- "PBLINK01" secret link id ------->  |   within 2 s, or the connection is closed and counted
//!    | <----------------- "PBLINKOK" ------  |   the process is now this link's receiver
//!    | -- one full segment (TCP) ---------->  |   a path that passes only smaller segments shows here
//!    | <----------------- "PBLINKOK" ------  |
//!    | -- blocks ------------------------->  |
//!    | -- last block, then end-of-file --->  |
//!    | <------------------- end-of-file ---  |   everything arrived
//! ```

use super::bytes_at;

/// Length of a hello in bytes.
pub const HELLO_BYTES: usize = 64;
/// The answer to a hello.
pub const ANSWER: [u8; 8] = *b"PBLINKOK";
const MAGIC: [u8; 8] = *b"PBLINK01";

/// The first message of a link: names the run and the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkHello {
    /// Secret of the run.
    pub secret: [u8; 32],
    /// Boundary of the link.
    pub boundary: u32,
    /// Sending node.
    pub from: u32,
    /// Receiving node.
    pub to: u32,
    /// Number of the link among those from `from` to `to`.
    pub stream: u32,
    /// Length of the full segment that follows the answer, in bytes; zero if none follows.
    pub probe_bytes: u32,
}

/// Largest TCP segment, in bytes.
pub const MAX_PROBE_BYTES: u32 = 65_535;

impl LinkHello {
    /// Encodes the hello for the wire.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..40].copy_from_slice(&self.secret);
        let words = [
            self.boundary,
            self.from,
            self.to,
            self.stream,
            self.probe_bytes,
        ];
        for (index, value) in words.into_iter().enumerate() {
            bytes[40 + index * 4..44 + index * 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Decodes a hello, or returns `None` if a stranger sent the bytes.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        if bytes[0..8] != MAGIC {
            return None;
        }
        let word = |index: usize| u32::from_le_bytes(bytes_at(bytes, 40 + index * 4));
        if word(4) > MAX_PROBE_BYTES {
            return None;
        }
        Some(Self {
            secret: bytes_at(bytes, 8),
            boundary: word(0),
            from: word(1),
            to: word(2),
            stream: word(3),
            probe_bytes: word(4),
        })
    }
}

/// Converts the secret of a run to the fixed bytes of a hello: 32 hexadecimal digits; a shorter text ends in zeros.
pub fn secret_bytes(secret: &str) -> [u8; 32] {
    let mut digits = secret.bytes();
    std::array::from_fn(|_| digits.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hello_survives_the_way(secret in proptest::array::uniform32(any::<u8>()), boundary: u32, from: u32, to: u32, stream: u32, probe_bytes in 0..=MAX_PROBE_BYTES) {
            let hello = LinkHello { secret, boundary, from, to, stream, probe_bytes };
            prop_assert_eq!(LinkHello::decode(&hello.encode()), Some(hello));
        }

        #[test]
        fn garbage_is_a_stranger(bytes in proptest::array::uniform32(any::<u8>())) {
            let mut all = [0; 64];
            all[..32].copy_from_slice(&bytes);
            all[0] = b'X';
            prop_assert_eq!(LinkHello::decode(&all), None);
        }
    }
}
