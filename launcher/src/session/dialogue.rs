//! The exchange before the program is up: the script's answers, the executable, noise, the magic
//! word.
//!
//! A state machine over the bytes of standard output. It does no I/O. Read next: `drive.rs`, which
//! feeds it and does what it orders.
//!
//! ```text
//!   Answering --need--> Storing --stored--> Starting --magic--> Open
//!       \------------------have------------/
//! ```

use std::sync::Arc;

use crate::deploy::{Answer, Form, Order};
use crate::error::{LaunchError, Stage};
use crate::program::Program;

/// Limit of the output before the magic word, in bytes.
const MAX_NOISE_BYTES: usize = 64 << 10;

pub(crate) struct Dialogue {
    state: State,
    nonce: String,
    magic: Vec<u8>,
    /// `None` if the program runs directly.
    program: Option<Program>,
    /// Bytes that are neither a whole line nor noise yet.
    pending: Vec<u8>,
    noise: Vec<u8>,
    /// Folders that were passed over, with the reasons.
    notes: Vec<String>,
    /// Length of all lines of the script, or of lines that pretend to be the script's.
    said_bytes: usize,
    folder: Option<(usize, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The script has not answered.
    Answering,
    /// The executable is on its way.
    Storing,
    /// The program is being started.
    Starting,
    /// The magic word was seen.
    Open,
}

/// An action for the session's loop.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Write these bytes.
    Write(Arc<Vec<u8>>),
    /// The program is up. `noise` was printed before.
    Up { noise: String },
    /// Bytes of the program.
    Bytes(Vec<u8>),
}

/// The reason why the dialogue ends early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Failed(LaunchError),
    /// The executable could not be written there; another folder can work.
    Folder {
        index: usize,
        reason: String,
    },
}

impl Dialogue {
    /// Starts a dialogue with a program that runs directly.
    pub(crate) fn direct(magic: &[u8]) -> Dialogue {
        Dialogue {
            state: State::Starting,
            nonce: String::new(),
            magic: magic.to_vec(),
            program: None,
            pending: Vec::new(),
            noise: Vec::new(),
            notes: Vec::new(),
            said_bytes: 0,
            folder: None,
        }
    }

    /// Starts a dialogue with a shell that receives the script of `order`.
    pub(crate) fn with_shell(order: &Order, magic: &[u8]) -> Dialogue {
        Dialogue {
            state: State::Answering,
            nonce: format!("{} ", order.nonce),
            program: Some(order.program.clone()),
            ..Dialogue::direct(magic)
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Output so far that is neither the script's nor the program's, as one line.
    pub(crate) fn noise(&self) -> String {
        let all = [self.noise.as_slice(), self.pending.as_slice()].concat();
        crate::error::one_line(&String::from_utf8_lossy(&all))
    }

    /// Takes bytes of standard output and returns the actions that follow.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Act>, Refusal> {
        if self.state == State::Open {
            return Ok(vec![Act::Bytes(bytes.to_vec())]);
        }
        let mut acts = Vec::new();
        // Earlier bytes have no line end and no magic word. They can arrive in many small pieces, so they are
        // not searched again.
        let mut looked_at = self.pending.len();
        self.pending.extend_from_slice(bytes);
        while matches!(self.state, State::Answering | State::Storing) {
            let rest = &self.pending[looked_at..];
            let Some(end) = rest.iter().position(|&b| b == b'\n') else {
                break;
            };
            let line: Vec<u8> = self.pending.drain(..=looked_at + end).collect();
            looked_at = 0;
            self.line(&line, &mut acts)?;
        }
        if self.state == State::Starting {
            self.look_for_magic(looked_at, &mut acts);
        }
        let printed = self.noise.len() + self.pending.len() + self.said_bytes;
        if self.state != State::Open && printed > MAX_NOISE_BYTES {
            return Err(Refusal::Failed(self.too_noisy()));
        }
        Ok(acts)
    }

    /// Handles a whole line: an answer of the script, or noise. Noise without a line end can stand in
    /// front of an answer.
    fn line(&mut self, line: &[u8], acts: &mut Vec<Act>) -> Result<(), Refusal> {
        let Some(at) = find(line, self.nonce.as_bytes(), 0) else {
            self.noise.extend_from_slice(line);
            return Ok(());
        };
        self.noise.extend_from_slice(&line[..at]);
        self.said_bytes += line.len() - at;
        let text = String::from_utf8_lossy(&line[at + self.nonce.len()..]);
        match Answer::parse(text.trim_end()) {
            Some(answer) => self.answer(answer, acts),
            None => Ok(()),
        }
    }

    fn answer(&mut self, answer: Answer, acts: &mut Vec<Act>) -> Result<(), Refusal> {
        match answer {
            Answer::Note(note) => self.notes.push(note),
            // The executable is written once, even if the script asks for it again.
            Answer::Need { .. } if self.state != State::Answering => {}
            Answer::Have | Answer::Stored => self.state = State::Starting,
            Answer::Need {
                index,
                form,
                arch,
                folder,
            } => {
                let mut all = self.program.iter().flat_map(Program::for_hosts);
                let Some(program) = all.find(|program| program.arch == arch) else {
                    return Err(self.no_executable(&arch));
                };
                let bytes = match form {
                    Form::Plain => &program.bytes,
                    Form::Gzip => program.packed(),
                };
                acts.push(Act::Write(Arc::new(format!("{}\n", bytes.len()).into())));
                acts.push(Act::Write(Arc::clone(bytes)));
                self.state = State::Storing;
                self.folder = Some((index, folder));
            }
            Answer::Short(reason) => {
                let (index, folder) = self.folder.take().unwrap_or_default();
                let reason = format!("{folder}: {reason}");
                return Err(Refusal::Folder { index, reason });
            }
            Answer::None => {
                let text = format!("no folder is usable: {}", self.notes.join("; "));
                let error = LaunchError::new(Stage::Deploy, text);
                return Err(Refusal::Failed(
                    error.hint("name another folder: --remote-dir DIR"),
                ));
            }
            Answer::Arch(arch) => return Err(self.no_executable(&arch)),
        }
        Ok(())
    }

    fn no_executable(&self, arch: &str) -> Refusal {
        let lacks = self.program.as_ref().map(|program| program.lacks(arch));
        let (text, cure) = lacks.unwrap_or_default();
        Refusal::Failed(LaunchError::new(Stage::Deploy, text).hint(cure))
    }

    /// Looks for the magic word. It can begin in the first `looked_at` bytes of `pending`, which were
    /// there before.
    fn look_for_magic(&mut self, looked_at: usize, acts: &mut Vec<Act>) {
        let from = looked_at.saturating_sub(self.magic.len());
        let Some(at) = find(&self.pending, &self.magic, from) else {
            return;
        };
        self.noise.extend_from_slice(&self.pending[..at]);
        let rest = self.pending.split_off(at + self.magic.len());
        self.pending.clear();
        self.state = State::Open;
        acts.push(Act::Up {
            noise: String::from_utf8_lossy(&self.noise).into_owned(),
        });
        if !rest.is_empty() {
            acts.push(Act::Bytes(rest));
        }
    }

    fn too_noisy(&self) -> LaunchError {
        const SHOWN_CHARS: usize = 80;
        let shown: String = self.noise().chars().take(SHOWN_CHARS).collect();
        let text = format!(
            "more than {MAX_NOISE_BYTES} bytes came before the program's first message: '{shown}'"
        );
        LaunchError::new(Stage::Start, text).hint("does a login script of the host print too much?")
    }

    /// Folders that this attempt passed over, with the reasons.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Position of the first `word` in `text` at or after `from`.
fn find(text: &[u8], word: &[u8], from: usize) -> Option<usize> {
    if word.is_empty() {
        return Some(from.min(text.len()));
    }
    let tail = text.get(from..)?;
    tail.windows(word.len())
        .position(|window| window == word)
        .map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_shell() -> (Dialogue, String) {
        let mut program = Program::new("p".into(), b"program".to_vec(), "abacus".to_owned());
        let other = Program::new("q".into(), b"other".to_vec(), "quern".to_owned());
        program.others.push(other);
        let order = Order::new(&program, &[], None);
        (Dialogue::with_shell(&order, b"MAGIC"), order.nonce)
    }

    fn written(texts: [&str; 2]) -> Vec<Act> {
        let write = |text: &str| Act::Write(Arc::new(text.as_bytes().to_vec()));
        texts.map(write).into()
    }

    fn failed(refusal: Result<Vec<Act>, Refusal>) -> LaunchError {
        match refusal.unwrap_err() {
            Refusal::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn noise_answer_noise_magic() {
        let (mut dialogue, nonce) = with_shell();
        assert_eq!(dialogue.take(b"Welcome\nno line end ").unwrap(), []);
        assert_eq!(
            dialogue
                .take(format!("{nonce} have /f\nmore").as_bytes())
                .unwrap(),
            []
        );
        assert_eq!(dialogue.state(), State::Starting);
        assert_eq!(dialogue.take(b" MAG").unwrap(), []);
        let acts = dialogue.take(b"ICbytes").unwrap();
        let noise = "Welcome\nno line end more ".to_owned();
        assert_eq!(acts, [Act::Up { noise }, Act::Bytes(b"bytes".into())]);
        assert_eq!(
            dialogue.take(b"MAGIC").unwrap(),
            [Act::Bytes(b"MAGIC".into())]
        );
    }

    #[test]
    fn what_is_needed_is_written_and_nothing_else_before_it_is_stored() {
        let (mut dialogue, nonce) = with_shell();
        let acts = dialogue
            .take(format!("{nonce} note /a: full\n{nonce} need 2 plain abacus /b\n").as_bytes())
            .unwrap();
        assert_eq!(acts, written(["7\n", "program"]));
        assert_eq!(
            (dialogue.state(), dialogue.notes()),
            (State::Storing, &["/a: full".to_owned()][..])
        );
        assert_eq!(
            dialogue.take(b"MAGIC\n").unwrap(),
            [],
            "the magic word does not count yet"
        );
        let acts = dialogue
            .take(format!("{nonce} stored\nMAGIC").as_bytes())
            .unwrap();
        assert_eq!(
            acts,
            [Act::Up {
                noise: "MAGIC\n".into()
            }]
        );
    }

    #[test]
    fn lines_that_come_byte_by_byte_are_found_and_the_magic_word_behind_them() {
        let (mut dialogue, nonce) = with_shell();
        let said = format!("Welcome\n{nonce} note /a: full\nmore\n{nonce} have /f\nMAGICbytes");
        let mut acts = Vec::new();
        for byte in said.as_bytes() {
            acts.extend(dialogue.take(&[*byte]).unwrap());
        }
        let noise = "Welcome\nmore\n".to_owned();
        assert_eq!(acts[0], Act::Up { noise });
        assert_eq!((acts.len(), dialogue.notes().len()), (6, 1));
    }

    #[test]
    fn an_executable_that_is_asked_for_twice_is_written_once() {
        let (mut dialogue, nonce) = with_shell();
        let asked = format!("{nonce} need 1 gzip abacus /a\n{nonce} need 2 plain abacus /b\n");
        assert_eq!(dialogue.take(asked.as_bytes()).unwrap().len(), 2);
        assert_eq!(dialogue.take(asked.as_bytes()).unwrap(), []);
    }

    #[test]
    fn a_host_of_another_architecture_gets_the_executable_for_it() {
        let (mut dialogue, nonce) = with_shell();
        let asked = format!("{nonce} need 1 plain quern /a\n");
        let acts = dialogue.take(asked.as_bytes()).unwrap();
        assert_eq!(acts, written(["5\n", "other"]));
        let (mut dialogue, nonce) = with_shell();
        let asked = format!("{nonce} need 1 plain loom /a\n");
        assert_eq!(failed(dialogue.take(asked.as_bytes())).stage, Stage::Deploy);
    }

    #[test]
    fn a_host_that_never_ends_its_notes_is_too_noisy() {
        let (mut dialogue, nonce) = with_shell();
        let note = format!("{nonce} note /a: full\n");
        let taken = (0..MAX_NOISE_BYTES).take_while(|_| dialogue.take(note.as_bytes()).is_ok());
        assert_eq!(taken.count(), MAX_NOISE_BYTES / note.len());
    }

    #[test]
    fn refusals_name_their_reason() {
        let (mut dialogue, nonce) = with_shell();
        let error = failed(dialogue.take(format!("{nonce} arch loom\n").as_bytes()));
        assert_eq!(
            error.to_string(),
            "cannot deploy: the host is loom, this executable is for abacus (name a folder that has pipebench-node-VERSION-loom: --remote-binary DIR)"
                .replace("VERSION", env!("CARGO_PKG_VERSION"))
        );
        let (mut dialogue, nonce) = with_shell();
        let error = failed(dialogue.take(
            format!("{nonce} note /a: full\n{nonce} note /b: noexec\n{nonce} none\n").as_bytes(),
        ));
        assert_eq!(error.text, "no folder is usable: /a: full; /b: noexec");
        let (mut dialogue, nonce) = with_shell();
        let short = format!("{nonce} need 3 plain abacus /c\n{nonce} short quota exceeded\n");
        let refusal = dialogue.take(short.as_bytes()).unwrap_err();
        assert_eq!(
            refusal,
            Refusal::Folder {
                index: 3,
                reason: "/c: quota exceeded".into()
            }
        );
        let mut dialogue = Dialogue::direct(b"MAGIC");
        let error = failed(dialogue.take(&vec![b'x'; MAX_NOISE_BYTES + 1]));
        assert_eq!(error.stage, Stage::Start);
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(cuts in prop::collection::vec(1usize..12, 0..30)) {
            let (mut dialogue, nonce) = with_shell();
            let all = format!("noise {nonce} have /f\nMAGMAGICrest");
            let (mut rest, mut up, mut bytes) = (all.as_bytes(), None, Vec::new());
            let mut cuts = cuts.into_iter();
            while !rest.is_empty() {
                let (head, tail) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
                rest = tail;
                for act in dialogue.take(head).unwrap() {
                    match act {
                        Act::Up { noise } => up = Some(noise),
                        Act::Bytes(more) => bytes.extend(more),
                        Act::Write(_) => prop_assert!(false),
                    }
                }
            }
            prop_assert_eq!((up.as_deref(), bytes.as_slice()), (Some("noise MAG"), &b"rest"[..]));
        }
    }
}
