//! Output of a host's shell before the program's first word: bounded, for any bytes and any split into pieces.

use launcher::inside::{Heard, dialogue};

use super::{one_line, pieces};
use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "NONCE have /f\n",
    "NONCE need 1 gzip abacus /f\n",
    "NONCE stored\n",
    "NONCE short why\n",
    "NONCE none\n",
    "NONCE arch x\n",
    "NONCE note /f: why\n",
    "NONCE ",
    "MAGIC",
    "MAG",
    "NON",
];

/// Limit for noise and notes together: three times 64 KiB.
const HELD_BYTES: usize = 3 * (64 << 10);

pub fn run(input: &[u8]) -> String {
    let heard = dialogue(pieces(input));
    assert!(
        heard.writes <= 2,
        "{} blocks are written: a count and the executable are two",
        heard.writes
    );
    assert!(
        heard.held_bytes <= HELD_BYTES,
        "{} bytes are held",
        heard.held_bytes
    );
    let refusal = heard.refusal.as_ref().map(|text| one_line(text, 80 << 10));
    let refusal = refusal.unwrap_or_default();
    let whole = input.get(1..).unwrap_or_default();
    let at_once = dialogue(std::iter::once(whole));
    // The point at which noise becomes too much depends on the pieces.
    let noisy = |heard: &Heard| {
        heard
            .refusal
            .as_ref()
            .is_some_and(|text| text.contains("more than"))
    };
    if !noisy(&heard) && !noisy(&at_once) {
        assert_eq!(
            (&heard.noise, &heard.bytes),
            (&at_once.noise, &at_once.bytes)
        );
        assert_eq!(
            (&heard.refusal, &heard.state),
            (&at_once.refusal, &at_once.state)
        );
    }
    // The first words are the program's own; the others can be the host's.
    let own = if refusal.starts_with("cannot") { 3 } else { 1 };
    let words: Vec<&str> = refusal.split(' ').take(own).collect();
    format!(
        "{} {} {} {}",
        heard.state,
        magnitude(heard.bytes.len()),
        heard.noise.is_some(),
        words.join(" ")
    )
}
