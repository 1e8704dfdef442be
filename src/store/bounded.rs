//! Reads files of other users and programs: never beyond a limit, never an endless device, never without a timeout.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::libc;

use crate::sys::socket;
use crate::units::{show_bytes, show_ns};

/// Limit of a record and of a journal, in bytes.
pub(crate) const RECORD_BYTES: u64 = 64 << 20;
/// Limit of a text that a person writes, in bytes: lists of hosts, plans, options of a site.
pub(crate) const TEXT_BYTES: u64 = 4 << 20;
/// Limit of the description of a fabric that its subnet manager prints, in bytes.
pub(crate) const FABRIC_BYTES: u64 = 64 << 20;

/// Longest time for reading a pipe to its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads the text of a file in a folder to which others can write. Refuses anything but a regular file, a link to one included: it can lead to
/// a file that only this user can read.
pub(crate) fn kept(path: &Path, limit_bytes: u64) -> io::Result<String> {
    Ok(read(path, limit_bytes, true, PATIENCE)?.0)
}

/// Reads the text of a file that the user named, which can be a pipe.
pub(crate) fn given(path: &Path, limit_bytes: u64) -> io::Result<String> {
    Ok(read(path, limit_bytes, false, PATIENCE)?.0)
}

/// Reads the text of a regular file, or of any file, with the facts of the file that was read: its name can lead to another one a moment later.
pub(crate) fn with_facts(
    path: &Path,
    limit_bytes: u64,
    regular: bool,
) -> io::Result<(String, Metadata)> {
    read(path, limit_bytes, regular, PATIENCE)
}

/// Opens a file for reading. Does not wait for a process that writes to a pipe in its place.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.custom_flags(libc::O_NONBLOCK).read(true).open(path)
}

fn read(
    path: &Path,
    limit_bytes: u64,
    regular: bool,
    patience: Duration,
) -> io::Result<(String, Metadata)> {
    let began = Instant::now();
    let not_regular = || io::Error::other("it is not a regular file");
    let links = if regular { libc::O_NOFOLLOW } else { 0 };
    // Opening a pipe must not block if no process writes to it.
    let mut file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | links)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) if regular => not_regular(),
            _ => error,
        })?;
    let about = file.metadata()?;
    if regular && !about.is_file() {
        return Err(not_regular());
    }
    let too_long = || {
        let limit = show_bytes(limit_bytes);
        io::Error::other(format!("it is longer than {limit}"))
    };
    if about.is_file() && about.len() > limit_bytes {
        return Err(too_long());
    }
    // A file has the memory that it needs at once, and nothing for further growth.
    let mut text = Vec::with_capacity(usize::try_from(about.len()).unwrap_or(0));
    let mut bytes = vec![0; 64 << 10];
    // A pipe reads as end-of-file until a writer opens it. The kernel reports it as readable only if there is data or a real end.
    let mut readable = about.is_file();
    loop {
        let left = patience.saturating_sub(began.elapsed());
        if !about.is_file() && left.is_zero() {
            let limit = show_ns(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
            let what = format!("it did not end within {limit}");
            return Err(io::Error::other(what));
        }
        match file.read(&mut bytes) {
            Ok(0) if readable => break,
            Ok(got) if got > 0 => {
                text.extend_from_slice(&bytes[..got]);
                readable = true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(_) | Err(_) => readable = socket::readable(file.as_fd(), left)?,
        }
        if text.len() as u64 > limit_bytes {
            return Err(too_long());
        }
    }
    let text = String::from_utf8(text);
    let text = text.map_err(|_| io::Error::other("it is not UTF-8 text"))?;
    Ok((text, about))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_without_end_is_refused_at_the_limit() {
        for device in ["/dev/zero", "/dev/urandom"] {
            let why = given(Path::new(device), 1 << 20).unwrap_err().to_string();
            assert_eq!(why, "it is longer than 1 MiB", "{device}");
            let why = kept(Path::new(device), 1 << 20).unwrap_err().to_string();
            assert_eq!(why, "it is not a regular file", "{device}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(20 << 30).unwrap();
        let why = kept(&path, 64 << 20).unwrap_err().to_string();
        assert_eq!(why, "it is longer than 64 MiB");
    }

    #[test]
    fn a_link_is_followed_where_the_user_names_one_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(given(&link, 100).unwrap(), "x");
        let why = kept(&link, 100).unwrap_err().to_string();
        assert_eq!(why, "it is not a regular file");
    }

    #[test]
    fn a_pipe_is_read_where_the_user_names_one_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let why = kept(&path, 100).unwrap_err().to_string();
        assert_eq!(why, "it is not a regular file");
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut pipe = File::options().write(true).open(path).unwrap();
                pipe.write_all(b"n1\nn2\n").unwrap();
            }
        });
        // The writer's `open` returns when this side opens the pipe, so its text comes later.
        assert_eq!(given(&path, 100).unwrap(), "n1\nn2\n");
        writer.join().unwrap();
    }

    #[test]
    fn a_pipe_that_drips_for_ever_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Linux opens a pipe for both directions without waiting for another process.
        let both = File::options().read(true).write(true).open(&path).unwrap();
        let writer = std::thread::spawn(move || {
            let mut pipe = both;
            for _ in 0..40 {
                pipe.write_all(b"#").unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let why = read(&path, 1 << 20, false, Duration::from_millis(500));
        assert_eq!(why.unwrap_err().to_string(), "it did not end within 500 ms");
        assert!(!writer.is_finished(), "it was still dripping");
        writer.join().unwrap();
    }
}
