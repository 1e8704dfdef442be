//! Transfers by a thread, while its rank computes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::sys::affinity;

/// Position in a file from which a buffer is read, or to which it is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum FileOffset {
    /// The file's current position.
    Current,
    /// This position; the file's position is moved there first.
    Seek(u64),
    /// This position; the file's position is not used.
    At(u64),
}

impl FileOffset {
    pub(super) fn transfer(
        self,
        file: &mut File,
        writes: bool,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        if let Self::Seek(at) = self {
            file.seek(SeekFrom::Start(at))?;
        }
        match (self, writes) {
            (Self::At(at), true) => file.write_all_at(buffer, at),
            (Self::At(at), false) => file.read_exact_at(buffer, at),
            (Self::Current | Self::Seek(_), true) => file.write_all(buffer),
            (Self::Current | Self::Seek(_), false) => file.read_exact(buffer),
        }
    }
}

/// A transfer that the thread does for its rank.
pub(super) struct Transfer {
    pub(super) file: File,
    pub(super) writes: bool,
    pub(super) offset: FileOffset,
    pub(super) buffer: Vec<u8>,
}

/// Result of a transfer: the buffer, and success or failure.
pub(super) type Done = (Vec<u8>, io::Result<()>);

/// The thread that does transfers while its rank computes. It ends when its rank drops this.
#[derive(Default)]
pub(super) struct TransferThread {
    line: Option<(Sender<Transfer>, Receiver<Done>)>,
}

impl TransferThread {
    pub(super) fn start() -> Self {
        let (out, transfers) = channel::<Transfer>();
        let (done, back) = channel();
        std::thread::spawn(move || {
            // The thread can leave the processor of its rank.
            affinity::roam();
            while let Ok(mut transfer) = transfers.recv() {
                let (file, buffer) = (&mut transfer.file, &mut transfer.buffer);
                let result = transfer.offset.transfer(file, transfer.writes, buffer);
                if done.send((transfer.buffer, result)).is_err() {
                    break;
                }
            }
        });
        Self {
            line: Some((out, back)),
        }
    }

    pub(super) fn send(&self, transfer: Transfer) {
        if let Some((out, _)) = &self.line {
            match out.send(transfer) {
                Ok(()) | Err(_) => {} // A later wait finds that the result is missing.
            }
        }
    }

    pub(super) fn wait(&mut self) -> Done {
        let gone = || (Vec::new(), Err(io::ErrorKind::BrokenPipe.into()));
        let line = self.line.as_ref();
        line.map_or_else(gone, |(_, back)| back.recv().unwrap_or_else(|_| gone()))
    }
}
