//! One file per target: a reader, and the invariants that hold for any bytes.

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

/// Cuts an input into pieces, as a stream can do. The first byte determines the length of a piece.
fn pieces(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (first, rest) = input.split_first().unwrap_or((&0, &[]));
    // 1 to 65 bytes, or as much as one read takes.
    let length = match first % 66 {
        0 => 65536,
        length => usize::from(length),
    };
    rest.chunks(length)
}

/// Checks that an error fits on one line and on a screen, and does not steer a terminal. Returns it without its quoted
/// text.
fn one_line(error: &impl std::fmt::Display, limit: usize) -> String {
    let text = error.to_string();
    assert!(
        !text.contains(pipebench::internals::outside::steers),
        "an error steers the terminal: {text:?}"
    );
    assert!(text.len() <= limit, "an error of {} bytes", text.len());
    let before = text.split(['\'', '"']).next().unwrap_or_default();
    let after = text.rsplit(['\'', '"']).next().unwrap_or_default();
    format!("{before} {after}")
}

/// The reason why JSON was rejected, without quoted text. The name of a missing field stays: only a few exist.
fn misread(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let own = text.split(['`', '"', '\'']).next().unwrap_or_default();
    if own.contains("missing field") {
        text
    } else {
        own.to_owned()
    }
}
