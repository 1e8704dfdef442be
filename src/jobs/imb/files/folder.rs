//! The folder of a run's files: created for this run alone, held by its ranks, and removed with all its contents. If all processes of a
//! host were killed at once, none was left to remove it. The next run of this user on that host removes it.

use std::fs::{self, DirEntry, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::sys::{facts, process};

use super::PlayerError;

const PREFIX: &str = "pipebench-io-";
const TOKEN_DIGITS: usize = 16;
/// Prefix of the file by which ranks of a host hold a folder. The host's boot id follows, since locks of another host are not necessarily
/// visible here.
const HELD: &str = ".held-";
/// Upper limit of the time between creating a file and locking it, in seconds.
const YOUNG_S: i64 = 60;

/// Path of the folder of a run, below a folder of the user.
pub(crate) fn folder(path: &Path, token: &str) -> PathBuf {
    let name: String = token.chars().take(TOKEN_DIGITS).collect();
    path.join(format!("{PREFIX}{name}"))
}

/// Claim on the folder of a run: while it exists, the folder is no leftover.
#[derive(Debug)]
pub(crate) struct Held(File);

/// Creates the folder of a run, for this user alone, or accepts it if another rank has created it. Other users cannot put anything there.
/// It also removes folders next to it that killed runs have left.
pub(crate) fn make(folder: &Path) -> Result<Held, PlayerError> {
    let failed = |source| PlayerError::file("make", folder, source);
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = fs::symlink_metadata(folder).map_err(failed)?;
            if !is_own(&there) {
                return Err(failed(error));
            }
        }
        made => made.map_err(failed)?,
    }
    let name = held_name();
    let file = File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(folder.join(&name));
    let held = Held(file.map_err(failed)?);
    // On a file system without locks the state of other runs is unknown.
    if held.0.lock_shared().is_ok() {
        sweep(folder, &name, &held);
    }
    Ok(held)
}

fn is_own(meta: &fs::Metadata) -> bool {
    meta.is_dir() && meta.uid() == process::own_user() && meta.mode() & 0o077 == 0
}

fn held_name() -> String {
    format!("{HELD}{}", facts::boot_id())
}

fn sweep(own: &Path, held_name: &str, held: &Held) {
    let entries = own.parent().map(fs::read_dir);
    let entries = entries.into_iter().flatten().flatten().flatten();
    // Ages are by the clock of the file system.
    let Ok(now_s) = held.0.metadata().map(|meta| meta.mtime()) else {
        return;
    };
    for entry in entries.filter(|entry| entry.path() != own) {
        // The file stays locked until the folder is gone.
        if let Some(_file) = leftover(&entry, held_name, now_s) {
            match fs::remove_dir_all(entry.path()) {
                Ok(()) | Err(_) => {} // The next run tries again.
            }
        }
    }
}

/// The locked file of a run's folder that no process holds any more and that no other host has held. `None` for all other entries.
fn leftover(entry: &DirEntry, held_name: &str, now_s: i64) -> Option<File> {
    let name = entry.file_name().into_string().ok()?;
    let token = name.strip_prefix(PREFIX)?;
    let is_token =
        token.len() == TOKEN_DIGITS && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_token || !is_own(&fs::symlink_metadata(entry.path()).ok()?) {
        return None;
    }
    let names = fs::read_dir(entry.path()).ok()?.flatten();
    let names = names.filter_map(|inner| inner.file_name().into_string().ok());
    let holders: Vec<String> = names.filter(|name| name.starts_with(HELD)).collect();
    if holders != [held_name] {
        return None;
    }
    // Over NFS an exclusive lock needs a file that is open for writing.
    let path = entry.path().join(held_name);
    let file = File::options().read(true).append(true).open(path).ok()?;
    let is_old = now_s - file.metadata().ok()?.mtime() >= YOUNG_S;
    (is_old && file.try_lock().is_ok()).then_some(file)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_killed_runs_have_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let age = |file: &File| {
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - Duration::from_secs(120)).unwrap();
        };
        let other = |token: &str, holder: &str, is_old: bool| {
            let folder = folder(place.path(), token);
            fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
            fs::write(folder.join("IMB_out"), "x").unwrap();
            let file = File::create(folder.join(holder)).unwrap();
            if is_old {
                age(&file);
            }
            (folder, file)
        };
        let (killed, _) = other("0000000000000001", &held_name(), true);
        let (running, file) = other("0000000000000002", &held_name(), true);
        file.lock_shared().unwrap();
        let (elsewhere, _) = other("0000000000000003", ".held-another", true);
        let (both, _) = other("0000000000000004", ".held-another", true);
        fs::write(both.join(held_name()), "").unwrap();
        let (young, _) = other("0000000000000005", &held_name(), false);
        let (stranger, _) = other("notes", &held_name(), true);

        let own = folder(place.path(), "0123456789abcdef0123");
        assert!(own.ends_with("pipebench-io-0123456789abcdef"));
        let held = make(&own).unwrap();
        assert!(!killed.exists());
        for kept in [&running, &elsewhere, &both, &young, &stranger, &own] {
            assert!(kept.exists(), "{}", kept.display());
        }
        // A second rank holds it too; when both are gone it is a leftover.
        let second = make(&own).unwrap();
        drop(held);
        let file = File::options().append(true).open(own.join(held_name()));
        age(&file.unwrap());
        let next = folder(place.path(), "fedcba9876543210");
        make(&next).unwrap();
        assert!(own.exists());
        drop(second);
        make(&next).unwrap();
        assert!(!own.exists() && next.exists());
    }

    #[test]
    fn a_folder_of_somebody_else_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let own = folder(place.path(), "0123456789abcdef");
        fs::DirBuilder::new().mode(0o755).create(&own).unwrap();
        assert!(make(&own).is_err());
    }
}
