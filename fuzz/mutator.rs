//! Changes an input a little: bytes, lines, tokens of JSON and of host lists. The seed determines all changes.
//!
//! It knows no target. Text that it cannot guess (names of fields, magic words) comes from the seeds, by splicing two
//! inputs, and from the target's own words.

use std::ops::Range;

/// Maximum length of an input.
const LONGEST_BYTES: usize = 64 << 10;
/// Deepest nesting built in one step; several steps can go deeper.
const NEST: usize = 200;

/// Numbers at which arithmetic breaks.
const NUMBERS: [&str; 27] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "22",
    "63",
    "255",
    "256",
    "65535",
    "65536",
    "100000",
    "1000000000",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "-1e308",
    "1e-400",
    "0.1",
    "00",
];

/// Words with a meaning in some format, or in none.
const WORDS: [&str; 26] = [
    "",
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[[]]",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"%n\"",
    "NaN",
    "inf",
    "-",
    "/",
    "\\",
    "\"",
    "é",
    "\u{202e}",
    "\u{1b}[31m",
    "\r\n",
    "\n",
    "\0",
    " ",
    ",",
    ":",
];

/// SplitMix64: small, quick, and the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from zero to below `bound`; zero if `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> Option<&'a T> {
        all.get(self.below(all.len())).copied()
    }

    /// A range within `length`; short ones are more likely.
    fn range(&mut self, length: usize) -> Range<usize> {
        let start = self.below(length + 1);
        let longest = 1 << self.below(11);
        let end = start + self.below(longest.min(length - start) + 1);
        start..end
    }
}

/// A changed copy of `input`, which can contain parts of `other` and `words` of the target.
pub fn mutate(random: &mut Random, input: &[u8], other: &[u8], words: &[&str]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    // Mostly one step: a reader seldom understands an input after several.
    let steps = 1 + random.next().trailing_zeros().min(6);
    for _ in 0..steps {
        match random.below(12) {
            0 => change_byte(random, &mut bytes),
            1 => change_range(random, &mut bytes, other),
            2 => insert_word(random, &mut bytes, words),
            3 => change_line(random, &mut bytes, other),
            4 => change_token(random, &mut bytes, words),
            5..8 => change_value(random, &mut bytes, other),
            _ => change_number(random, &mut bytes),
        }
        bytes.truncate(LONGEST_BYTES);
    }
    bytes
}

fn change_byte(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len());
    let word = random.next().to_le_bytes();
    let Some(byte) = bytes.get_mut(at) else {
        bytes.push(word[0]);
        return;
    };
    match random.below(4) {
        0 => *byte ^= 1 << (word[0] & 7),
        1 => *byte = word[0],
        _ => {
            // A binary number of two, four or eight bytes, little-endian, that is small, large, a power of two, or one less.
            let value = match word[0] & 3 {
                0 => u64::from(word[1]),
                1 => u64::MAX - u64::from(word[1]),
                2 => 1 << (word[1] & 63),
                _ => (1 << (word[1] & 63)) - 1,
            };
            let length = 2 << random.below(3);
            for (target, source) in bytes[at..].iter_mut().zip(&value.to_le_bytes()[..length]) {
                *target = *source;
            }
        }
    }
}

fn change_range(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let here = random.range(bytes.len());
    match random.below(4) {
        0 => drop(bytes.drain(here)),
        1 => {
            let again = bytes[here.clone()].to_vec();
            insert(bytes, here.start, &again);
        }
        2 => {
            let there = random.range(other.len());
            bytes.splice(here, other[there].iter().copied());
        }
        _ => {
            // The head of one input and the tail of the other.
            bytes.truncate(here.start);
            bytes.extend_from_slice(&other[random.below(other.len())..]);
        }
    }
}

fn insert_word(random: &mut Random, bytes: &mut Vec<u8>, words: &[&str]) {
    let word = match random.below(3) {
        0 => random.pick(&NUMBERS),
        1 => random.pick(&WORDS),
        _ => random.pick(words),
    };
    let at = random.below(bytes.len() + 1);
    insert(bytes, at, word.unwrap_or_default().as_bytes());
}

fn change_line(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let own = line(random, bytes);
    match random.below(4) {
        0 => drop(bytes.drain(own)),
        1 => {
            let again = bytes[own.clone()].repeat(1 << random.below(7));
            insert(bytes, own.end, &again);
        }
        2 => {
            let strange = line(random, other);
            insert(bytes, own.start, &other[strange]);
        }
        _ => {
            let second = line(random, bytes);
            let moved: Vec<u8> = bytes.drain(own).collect();
            let at = second.start.min(bytes.len());
            insert(bytes, at, &moved);
        }
    }
}

/// A line, with its line end.
fn line(random: &mut Random, bytes: &[u8]) -> Range<usize> {
    let at = random.below(bytes.len());
    let is_end = |byte: &u8| *byte == b'\n';
    let start = bytes[..at]
        .iter()
        .rposition(is_end)
        .map_or(0, |end| end + 1);
    let end = bytes[at..].iter().position(is_end);
    start..end.map_or(bytes.len(), |end| at + end + 1)
}

fn change_number(random: &mut Random, bytes: &mut Vec<u8>) {
    let numbers: Vec<Range<usize>> = tokens(bytes)
        .into_iter()
        .filter(|token| bytes[token.start].is_ascii_digit())
        .collect();
    let Some(token) = numbers.get(random.below(numbers.len())).cloned() else {
        return;
    };
    let value: Option<u64> = std::str::from_utf8(&bytes[token.clone()])
        .ok()
        .and_then(|text| text.parse().ok());
    let new = match (random.below(4), value) {
        (0, Some(value)) => value.wrapping_add(1).to_string(),
        (1, Some(value)) => value.wrapping_mul(1 << random.below(40)).to_string(),
        _ => random.pick(&NUMBERS).unwrap_or_default().to_owned(),
    };
    bytes.splice(token, new.into_bytes());
}

fn change_token(random: &mut Random, bytes: &mut Vec<u8>, words: &[&str]) {
    let all = tokens(bytes);
    let Some(token) = all.get(random.below(all.len())).cloned() else {
        return;
    };
    match random.below(4) {
        0 => drop(bytes.drain(token)),
        1 => {
            let again = bytes[token.clone()].to_vec();
            insert(bytes, token.end, &again);
        }
        2 => {
            let word = random.pick(words).unwrap_or_default();
            bytes.splice(token, word.bytes());
        }
        _ => {
            let word = random.pick(&WORDS).unwrap_or_default();
            bytes.splice(token, word.bytes());
        }
    }
}

/// Changes a value: a token, everything from a bracket to its partner, or a name with its value.
fn change_value(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let Some(value) = value(random, bytes) else {
        return;
    };
    match random.below(4) {
        0 => {
            // Removes one of its commas, too.
            let is_comma = |at: usize| bytes.get(at) == Some(&b',');
            let behind = is_comma(value.end);
            let before = !behind && value.start > 0 && is_comma(value.start - 1);
            bytes.drain(value.start - usize::from(before)..value.end + usize::from(behind));
        }
        1 => {
            let mut again = vec![b','];
            again.extend_from_slice(&bytes[value.clone()]);
            insert(bytes, value.end, &again.repeat(1 << random.below(7)));
        }
        2 => {
            if let Some(strange) = self::value(random, other) {
                bytes.splice(value, other[strange].iter().copied());
            }
        }
        _ => {
            let depth = 1 + random.below(NEST);
            insert(bytes, value.end, &vec![b']'; depth]);
            insert(bytes, value.start, &vec![b'['; depth]);
        }
    }
}

fn value(random: &mut Random, bytes: &[u8]) -> Option<Range<usize>> {
    let all = tokens(bytes);
    let first = random.below(all.len());
    let mut depth = 0_usize;
    let colon = |token: &Range<usize>| bytes[token.start] == b':';
    let named = all.get(first + 1).is_some_and(colon);
    let behind_name = first + if named { 2 } else { 0 };
    for token in all.get(behind_name..)? {
        match bytes[token.start] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(all[first].start..token.end);
        }
    }
    None
}

/// Strings in quotes, numbers, words, and each other byte except white space.
fn tokens(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&first) = bytes.get(at) {
        let start = at;
        at += 1;
        if first.is_ascii_whitespace() {
            continue;
        }
        if first == b'"' {
            while let Some(&byte) = bytes.get(at) {
                at += if byte == b'\\' { 2 } else { 1 };
                if byte == b'"' {
                    break;
                }
            }
        } else if first.is_ascii_digit() {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
        } else if first.is_ascii_alphabetic() {
            while bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
                at += 1;
            }
        }
        at = at.min(bytes.len());
        found.push(start..at);
    }
    found
}

fn insert(bytes: &mut Vec<u8>, at: usize, what: &[u8]) {
    bytes.splice(at..at, what.iter().copied());
}
