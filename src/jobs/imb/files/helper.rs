//! What goes on with a transfer while its rank computes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::sys::affinity;

/// How a buffer goes to its place in a file, or comes from there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// Where the file's position is.
    Onward,
    /// The file's position is moved there first.
    Seek(u64),
    /// Without the file's position.
    At(u64),
}

impl Way {
    pub(super) fn go(self, file: &mut File, writes: bool, buffer: &mut [u8]) -> io::Result<()> {
        if let Self::Seek(at) = self {
            file.seek(SeekFrom::Start(at))?;
        }
        match (self, writes) {
            (Self::At(at), true) => file.write_all_at(buffer, at),
            (Self::At(at), false) => file.read_exact_at(buffer, at),
            (Self::Onward | Self::Seek(_), true) => file.write_all(buffer),
            (Self::Onward | Self::Seek(_), false) => file.read_exact(buffer),
        }
    }
}

/// What a thread does for a rank.
pub(super) struct Errand {
    pub(super) file: File,
    pub(super) writes: bool,
    pub(super) way: Way,
    pub(super) buffer: Vec<u8>,
}

/// What comes back: the buffer, and how it went.
pub(super) type Done = (Vec<u8>, io::Result<()>);

/// The thread that goes on with a transfer while its rank computes. It ends when its rank drops it.
#[derive(Default)]
pub(super) struct Helper {
    line: Option<(Sender<Errand>, Receiver<Done>)>,
}

impl Helper {
    pub(super) fn start() -> Self {
        let (out, errands) = channel::<Errand>();
        let (done, back) = channel();
        std::thread::spawn(move || {
            // Where its rank is not.
            affinity::roam();
            while let Ok(mut errand) = errands.recv() {
                let (file, buffer) = (&mut errand.file, &mut errand.buffer);
                let result = errand.way.go(file, errand.writes, buffer);
                if done.send((errand.buffer, result)).is_err() {
                    break;
                }
            }
        });
        Self {
            line: Some((out, back)),
        }
    }

    pub(super) fn send(&self, errand: Errand) {
        if let Some((out, _)) = &self.line {
            match out.send(errand) {
                Ok(()) | Err(_) => {} // It is missed when it is waited for.
            }
        }
    }

    pub(super) fn wait(&mut self) -> Done {
        let gone = || (Vec::new(), Err(io::ErrorKind::BrokenPipe.into()));
        let line = self.line.as_ref();
        line.map_or_else(gone, |(_, back)| back.recv().unwrap_or_else(|_| gone()))
    }
}
