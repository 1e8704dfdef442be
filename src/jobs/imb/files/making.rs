//! Files before the measurement: created by their owner, and seen by all members.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::jobs::imb::PlayerError;
use crate::plan::collective::Algorithm;
use crate::ranks::{Group, World};

use super::items::laid;
use super::place::Place;

/// Bytes of the random mark of a new file, by which ranks on other hosts recognise it. The mark is in the file of the shared position.
const MARK_BYTES: usize = 16;

/// Creates a file, with contents if it is `readable`: the first member does, or each member for itself if it is `private`. All members can
/// see it then.
pub(super) fn make(
    world: &mut World,
    (private, readable): (bool, bool),
    group: &Group,
    place: &Place,
) -> Result<(), PlayerError> {
    let mut mark = [0; MARK_BYTES];
    world.team(group).barrier(Algorithm::Dissemination)?;
    if private || group.place() == 0 {
        let made = fresh(place, readable);
        mark = made.map_err(|error| place.failed("make", error))?;
        reset(place)?;
    }
    world
        .team(group)
        .broadcast(Algorithm::Binomial, 0, &mut mark)?;
    if !private && group.place() != 0 {
        // Another host can have a different file of that name.
        let mut seen = [0; MARK_BYTES];
        let read = File::open(&place.pointer).and_then(|file| file.read_exact_at(&mut seen, 8));
        if read.is_err() || seen != mark {
            return Err(PlayerError::NotShared {
                path: place.file.clone(),
            });
        }
    }
    world.team(group).barrier(Algorithm::Dissemination)?;
    Ok(())
}

/// Creates a file of its full size, and returns its mark.
fn fresh(place: &Place, readable: bool) -> io::Result<[u8; MARK_BYTES]> {
    for path in [&place.file, &place.pointer] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let create = |path: &Path| File::options().write(true).create_new(true).open(path);
    let mut file = create(&place.file)?;
    if readable {
        const PIECE: usize = 1 << 20;
        let mut at = 0;
        while at < place.size {
            let bytes = usize::try_from(place.size - at).unwrap_or(PIECE).min(PIECE);
            let mut piece = vec![0; bytes];
            laid(at, &mut piece);
            file.write_all(&piece)?;
            at += bytes as u64;
        }
        file.sync_all()?;
    } else {
        file.set_len(place.size)?;
    }
    let mut mark = [0; MARK_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut mark)?;
    let mut pointer = create(&place.pointer)?;
    pointer.write_all(&0_u64.to_le_bytes())?;
    pointer.write_all(&mark)?;
    Ok(mark)
}

/// Sets the shared position to the start.
pub(super) fn reset(place: &Place) -> Result<(), PlayerError> {
    let file = File::options().write(true).open(&place.pointer);
    let written = file.and_then(|file| file.write_all_at(&0_u64.to_le_bytes(), 0));
    written.map_err(|source| PlayerError::file("write", &place.pointer, source))
}
