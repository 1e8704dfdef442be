//! One file per target: what is read, and what must hold of it whatever the bytes.

pub mod dialogue;
pub mod fabric;
pub mod frames;
pub mod host_file;
pub mod host_list;
pub mod known_hosts;
pub mod link;
pub mod linktest_file;
pub mod messages;
pub mod outside;
pub mod plan;
pub mod record;
pub mod reports;
pub mod ssh_config;
pub mod units;

/// Inputs cut in pieces as a stream may be: the first byte is the length of a piece, nearly.
fn pieces(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (first, rest) = input.split_first().unwrap_or((&0, &[]));
    // From 1 to 64 bytes, or as much as one read takes.
    let length = match first % 66 {
        0 => 65536,
        length => usize::from(length),
    };
    rest.chunks(length)
}

/// All that an error says fits on one line and on a screen, and does not steer a terminal. Comes back without what
/// it quotes.
fn one_line(error: &impl std::fmt::Display, limit: usize) -> String {
    let text = error.to_string();
    assert!(
        !text.contains(char::is_control),
        "an error steers the terminal: {text:?}"
    );
    assert!(text.len() <= limit, "an error of {} bytes", text.len());
    let before = text.split(['\'', '"']).next().unwrap_or_default();
    let after = text.rsplit(['\'', '"']).next().unwrap_or_default();
    format!("{before} {after}")
}

/// Why JSON is none of what was due, without what it quotes; the field that is missing is one of few.
fn misread(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let own = text.split(['`', '"', '\'']).next().unwrap_or_default();
    if own.contains("missing field") {
        text
    } else {
        own.to_owned()
    }
}
