//! Access to internal parsers for the workspace's fuzz targets. Not part of the interface: no other code must use it,
//! and it changes without notice.

use std::path::PathBuf;

use crate::config::HostConfig;
use crate::deploy::Order;
use crate::known::KnownKeys;
use crate::program::Program;
use crate::session::dialogue::{Act, Dialogue, Refusal, State};

/// The verdict of a file of known keys on a host's key, and the algorithms to prefer.
pub fn known_hosts(text: &str, name: &str, port: u16, blob: &[u8]) -> String {
    let mut known = KnownKeys::default();
    known.read("file", text, name, port);
    format!("{:?} {:?}", known.judge(blob), known.algorithms())
}

/// Decodes a key's blob as a file of known keys holds it. Returns the bytes and their encoding again.
pub fn base64(text: &str) -> Option<(Vec<u8>, String)> {
    let bytes = crate::base64::decode(text)?;
    let again = crate::base64::encode(&bytes);
    Some((bytes, again))
}

/// The configuration parsed from the output of `ssh -G`.
pub fn ssh_config(text: &str) -> String {
    let mut config = HostConfig::usual("n1");
    config.read(text);
    format!("{config:?}")
}

/// The result of a session up to the magic word.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Number of blocks to write: a count and the executable.
    pub writes: usize,
    /// Text printed before the magic word; `None` if that word did not arrive.
    pub noise: Option<String>,
    /// Bytes after the magic word.
    pub bytes: Vec<u8>,
    /// Number of bytes of output that the dialogue holds, if the magic word did not arrive.
    pub held_bytes: usize,
    /// The reason why the dialogue ended early, if it did.
    pub refusal: Option<String>,
    /// The last state of the dialogue.
    pub state: String,
}

/// Runs a session with a shell whose output arrives in pieces. The nonce is `NONCE`, the magic word `MAGIC`.
pub fn dialogue<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Heard {
    let program = Program::new(PathBuf::new(), b"program".to_vec(), "abacus".to_owned());
    let mut order = Order::new(&program, &[], None);
    order.nonce = "NONCE".to_owned();
    let mut dialogue = Dialogue::with_shell(&order, b"MAGIC");
    let mut heard = Heard::default();
    for piece in pieces {
        match dialogue.take(piece) {
            Ok(acts) => acts.into_iter().for_each(|act| heard.take(act)),
            Err(refusal) => {
                heard.refusal = Some(match refusal {
                    Refusal::Failed(error) => error.to_string(),
                    Refusal::Folder { index, reason } => format!("folder {index}: {reason}"),
                });
                break;
            }
        }
    }
    if dialogue.state() != State::Open {
        let notes: usize = dialogue.notes().iter().map(|note| note.len() + 24).sum();
        heard.held_bytes = dialogue.noise().len() + notes;
    }
    heard.state = format!("{:?}", dialogue.state());
    heard
}

impl Heard {
    fn take(&mut self, act: Act) {
        match act {
            Act::Write(_) => self.writes += 1,
            Act::Up { noise } => self.noise = Some(noise),
            Act::Bytes(bytes) => self.bytes.extend(bytes),
        }
    }
}
