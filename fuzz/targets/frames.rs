//! Frames of the control channel: any split into pieces gives the same messages, and no more bytes than the input has.

use pipebench::internals::wire::frame::{Decoder, FrameError, encode};

use super::{one_line, pieces};
use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "PBF1",
    "PBF1\0\0\0\0",
    "PBF1\u{1}\0\0\0",
    "PBF2",
    "\"alive\"",
];

pub fn run(input: &[u8]) -> String {
    let (messages, error) = decode(pieces(input));
    let whole = input.get(1..).unwrap_or_default();
    let (at_once, same) = decode(std::iter::once(whole));
    assert_eq!(
        (&messages, &error),
        (&at_once, &same),
        "pieces make a difference"
    );
    let length: usize = messages.iter().map(Vec::len).sum();
    assert!(length <= input.len());
    let stream: Vec<u8> = messages
        .iter()
        .flat_map(|message| encode(message))
        .collect();
    let ended = messages
        .iter()
        .map(|message| [&message[..], b"\n"].concat());
    let (again, _) = decode(std::iter::once(&*stream));
    assert!(
        again.into_iter().eq(ended),
        "encoded again it is something else"
    );
    let error = error.map(|error| one_line(&error, 200)).unwrap_or_default();
    format!(
        "messages {} bytes {} {error}",
        magnitude(messages.len()),
        magnitude(length)
    )
}

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}
