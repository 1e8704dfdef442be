//! A relay between libssh2 and the SSH agent.
//!
//! libssh2 waits for the agent's signature within a call. An agent that is forwarded answers over the
//! network, and one that asks a person takes seconds. Meanwhile the relay lets calls of other sessions
//! in. Read next: `auth.rs`.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::alone::others_meanwhile;

/// The socket of a relay, in a folder that only this user can enter. Both vanish when it is dropped.
pub(crate) struct Relay {
    folder: PathBuf,
    listener: UnixListener,
}

impl Relay {
    pub(crate) fn new() -> io::Result<Relay> {
        static RELAYS: AtomicUsize = AtomicUsize::new(0);
        let number = RELAYS.fetch_add(1, Ordering::Relaxed);
        let name = format!("ssh-agent-relay-{}-{number}", process::id());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        match UnixListener::bind(socket_in(&folder)) {
            Ok(listener) => Ok(Relay { folder, listener }),
            Err(error) => {
                fs::remove_dir(&folder).ok();
                Err(error)
            }
        }
    }

    /// The path to connect to before [`Relay::serve`].
    pub(crate) fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Carries requests from the client that has connected to the agent, until either side ends.
    pub(crate) fn serve(self, agent: &Path) -> io::Result<()> {
        let (client, _) = self.listener.accept()?;
        let agent = UnixStream::connect(agent)?;
        let builder = thread::Builder::new().name("agent".to_owned());
        // An end of either side shows at the other side.
        builder.spawn(move || carry(client, agent).ok())?;
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        fs::remove_file(self.socket()).ok();
        fs::remove_dir(&self.folder).ok();
    }
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("socket")
}

fn carry(mut client: UnixStream, mut agent: UnixStream) -> io::Result<()> {
    const SIGN_REQUEST: u8 = 13;
    loop {
        let request = read_message(&mut client)?;
        let mut ask = || {
            agent.write_all(&request)?;
            read_message(&mut agent)
        };
        // libssh2 asks for signatures under the lock, and for the list of keys without it.
        let answer = match request.get(LENGTH_BYTES) {
            Some(&SIGN_REQUEST) => others_meanwhile(ask),
            _ => ask(),
        };
        client.write_all(&answer?)?;
    }
}

const LENGTH_BYTES: usize = 4;

/// Reads a message of the agent protocol, with its length.
fn read_message(from: &mut UnixStream) -> io::Result<Vec<u8>> {
    /// Limit of OpenSSH's agent.
    const MAX_BYTES: u32 = 256 << 10;
    let mut length = [0; LENGTH_BYTES];
    from.read_exact(&mut length)?;
    let bytes = u32::from_be_bytes(length);
    if bytes > MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = length.to_vec();
    from.take(u64::from(bytes)).read_to_end(&mut message)?;
    match message.len() - LENGTH_BYTES == bytes as usize {
        true => Ok(message),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::alone;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    /// Symptom: while an agent waited for a person, no session of any host could read or write.
    #[test]
    fn an_agent_that_takes_its_time_does_not_stop_other_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent");
        let listener = UnixListener::bind(&path).unwrap();
        let (others, other_was_in) = channel();
        let agent = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let request = read_message(&mut client).unwrap();
            // The agent does not sign before another session has made a call.
            let other = thread::spawn(move || alone(|| others.send(()).unwrap()));
            let was_in = other_was_in.recv_timeout(LONG);
            client.write_all(&[0, 0, 0, 1, 5]).unwrap();
            other.join().unwrap();
            (request, was_in)
        });
        let relay = Relay::new().unwrap();
        let (socket, own_folder) = (relay.socket(), relay.folder.clone());
        let mut client = UnixStream::connect(&socket).unwrap();
        relay.serve(&path).unwrap();
        assert!(!own_folder.exists());
        let answer = alone(|| {
            client.write_all(&[0, 0, 0, 2, 13, 7]).unwrap();
            read_message(&mut client).unwrap()
        });
        assert_eq!(answer, [0, 0, 0, 1, 5]);
        let (request, was_in) = agent.join().unwrap();
        assert_eq!(request, [0, 0, 0, 2, 13, 7]);
        assert!(was_in.is_ok());
        // The call had the lock again before it went on, and gave it back.
        alone(|| ());
    }
}
