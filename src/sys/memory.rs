//! Memory shared between the processes of a node, as safe types.
//!
//! Two kinds: [`Region`], a sealed memory file for blocks and handshakes, which has no name and so cannot be left over, or
//! private memory of a process; and [`NamedRegion`], the status segment that an outside process can read. Both give access as
//! 64-bit atomic words, and a region also as [`Span`]s of bytes; `buffer/` gives names to the layouts.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::plan::size::LARGE_PAGE_BYTES;

/// Mapped memory of fixed size: a memory file that forked children inherit, or private memory.
pub(crate) struct Region {
    map: MmapRaw,
    /// Unused bytes before the first used byte.
    skipped: usize,
    bytes: usize,
}

/// Names the oldest kernel, if this one is older.
fn explained(error: Errno) -> std::io::Error {
    match error {
        Errno::ENOSYS => std::io::Error::other(
            "this kernel is too old: memory files need Linux 3.17 or newer (memfd_create)",
        ),
        _ => error.into(),
    }
}

/// A part of a region that one process owns at a time. The handshake decides which process.
#[derive(Clone, Copy)]
pub(crate) struct Span<'region> {
    start: *mut u8,
    bytes: usize,
    _region: std::marker::PhantomData<&'region Region>,
}

impl Region {
    /// Makes a region of `bytes`, zeroed, that can neither shrink nor grow.
    pub(crate) fn new(name: &str, bytes: usize) -> std::io::Result<Self> {
        Self::of_pages(name, bytes, MFdFlags::empty())
    }

    /// Makes such a zeroed region of large pages that are reserved on this host, rounded up to whole pages. An error if there are not enough.
    pub(crate) fn reserved(name: &str, bytes: usize) -> std::io::Result<Self> {
        let flags = MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB;
        Self::of_pages(name, bytes.next_multiple_of(LARGE_PAGE_BYTES), flags)
    }

    fn of_pages(name: &str, bytes: usize, kind: MFdFlags) -> std::io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | kind;
        let file = File::from(memfd_create(name, flags).map_err(explained)?);
        file.set_len(bytes as u64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        // The mapping keeps the memory, so the descriptor can close.
        Ok(Self::whole(MmapRaw::map_raw(&file)?, bytes))
    }

    fn whole(map: MmapRaw, bytes: usize) -> Self {
        Self {
            map,
            skipped: 0,
            bytes,
        }
    }

    /// Makes a zeroed region of `bytes` that is private to this process: a forked child gets a copy.
    pub(crate) fn private(bytes: usize) -> std::io::Result<Self> {
        Ok(Self::whole(MmapMut::map_anon(bytes)?.into(), bytes))
    }

    /// Makes a private region of large pages, where the system gives them: sends from it then consist of few, long pieces.
    /// `bytes` is rounded up to whole large pages.
    pub(crate) fn private_large(bytes: usize) -> std::io::Result<Self> {
        let bytes = bytes.next_multiple_of(LARGE_PAGE_BYTES);
        let map = MmapMut::map_anon(bytes + LARGE_PAGE_BYTES)?;
        match map.advise(memmap2::Advice::HugePage) {
            Ok(()) | Err(_) => {} // Without large pages, it is ordinary memory.
        }
        let map = MmapRaw::from(map);
        let skipped = map.as_ptr().align_offset(LARGE_PAGE_BYTES);
        Ok(Self {
            map,
            skipped,
            bytes,
        })
    }

    /// Makes a private region of `count` stretches. Each has `head` bytes of its own. After them it shows the same `piece` bytes `repeats` times:
    /// one piece of memory for all stretches. `head` and `piece` are whole pages.
    pub(crate) fn repeating(
        count: usize,
        head: usize,
        piece: usize,
        repeats: usize,
    ) -> std::io::Result<Self> {
        let stretch = head + piece * repeats;
        // Most of it is mapped anew below, so it needs no memory.
        let map = MmapOptions::new()
            .len(count * stretch)
            .no_reserve_swap()
            .map_anon()?;
        let region = Self::whole(map.into(), count * stretch);
        let file =
            File::from(memfd_create("pipebench-piece", MFdFlags::MFD_CLOEXEC).map_err(explained)?);
        file.set_len(piece as u64)?;
        for place in 0..count * repeats {
            let offset = place / repeats * stretch + head + place % repeats * piece;
            // SAFETY: the range lies inside the region's own mapping, which nothing refers to yet, and takes the place of whole pages
            // of it; the region unmaps it with the rest.
            let mapped = unsafe {
                nix::libc::mmap(
                    region.address(offset).cast(),
                    piece,
                    nix::libc::PROT_READ | nix::libc::PROT_WRITE,
                    nix::libc::MAP_SHARED | nix::libc::MAP_FIXED,
                    std::os::fd::AsRawFd::as_raw_fd(&file),
                    0,
                )
            };
            if mapped == nix::libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(region)
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of byte `offset`, which must be inside the region.
    pub(super) fn address(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.bytes, "address outside of its region");
        // SAFETY: in range by the assertion, and the mapping covers the skipped and the used bytes.
        unsafe { self.map.as_mut_ptr().add(self.skipped + offset) }
    }

    /// `count` atomic words from byte `offset` on, which must be a multiple of eight and inside the region.
    pub(crate) fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(
            offset.is_multiple_of(8) && offset + count * 8 <= self.bytes(),
            "words outside of their region"
        );
        // SAFETY: in range by the assertion; the mapping is page aligned, so the words are aligned; any bit
        // pattern is a valid AtomicU64; the mapping lives as long as `self`; these bytes are never handed out
        // as a span by the layouts in buffer/, which keep words and blocks apart.
        unsafe { std::slice::from_raw_parts(self.address(offset).cast::<AtomicU64>(), count) }
    }

    /// The span of `bytes` bytes from byte `offset` on.
    pub(crate) fn span(&self, offset: usize, bytes: usize) -> Span<'_> {
        assert!(offset + bytes <= self.bytes(), "span outside of its region");
        Span {
            start: self.address(offset),
            bytes,
            _region: std::marker::PhantomData,
        }
    }

    /// Offset of `bytes` in the region; `None` if they are not in it.
    pub(crate) fn offset_of(&self, bytes: &[u8]) -> Option<usize> {
        let begin = self.address(0).addr();
        let offset = bytes.as_ptr().addr().checked_sub(begin)?;
        (offset + bytes.len() <= self.bytes).then_some(offset)
    }

    /// Faults in the pages of a range for writing, in the calling process: every process has its own page table, and first
    /// touches run at 2 GB/s. On kernels before 5.14, the pages fault in later, during the run.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) {
        const PAGE: usize = 4096;
        let first = offset / PAGE * PAGE;
        let end = (offset + bytes).min(self.bytes());
        if end <= first {
            return;
        }
        let start = self.address(first);
        // SAFETY: in range and page aligned; populating changes neither contents nor protection. After a failure, the pages fault
        // in on first touch.
        unsafe { nix::libc::madvise(start.cast(), end - first, nix::libc::MADV_POPULATE_WRITE) };
    }
}

impl Span<'_> {
    /// Length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The part of `bytes` bytes from byte `offset` on.
    pub(crate) fn part(self, offset: usize, bytes: usize) -> Self {
        assert!(offset + bytes <= self.bytes, "part outside of its span");
        // SAFETY: in range by the assertion.
        let start = unsafe { self.start.add(offset) };
        Self {
            start,
            bytes,
            ..self
        }
    }

    /// Address of the first byte, for the system calls in `sys`.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.start
    }

    /// Copies `source` to the start of the span.
    pub(crate) fn write(&self, source: &[u8]) {
        assert!(source.len() <= self.bytes, "source longer than its span");
        // SAFETY: in range; `source` is memory of this process, the span is shared, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), self.start, source.len()) };
    }

    /// CRC-32 (IEEE 802.3) of the whole span. As for every read, only the span's current owner may call it.
    pub(crate) fn checksum(&self) -> u32 {
        // SAFETY: mapped for its whole length as long as the region lives; no process writes it while the handshake gives it to the caller.
        crc32fast::hash(unsafe { std::slice::from_raw_parts(self.start, self.bytes) })
    }

    /// Copies the start of the span to `target`.
    pub(crate) fn read(&self, target: &mut [u8]) {
        assert!(target.len() <= self.bytes, "target longer than its span");
        // SAFETY: in range; `target` is memory of this process, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.start, target.as_mut_ptr(), target.len()) };
    }
}

/// A named segment in `/dev/shm` that an outside process can open. It holds words only. Dropping the handle that made it removes
/// the name. Forked children inherit the handle and never drop it, since they end with `_exit`.
pub(crate) struct NamedRegion {
    segment: shared_memory::Shmem,
}

impl NamedRegion {
    /// Makes a segment of `bytes`. An error if the name exists or there is not enough room: a page that does not exist at its
    /// first write would kill the writer with a signal.
    pub(crate) fn create(name: &str, bytes: usize) -> std::io::Result<Self> {
        let made = shared_memory::ShmemConf::new()
            .os_id(name)
            .size(bytes)
            .create();
        let segment = made.map_err(io_error)?;
        // If the function returns early, the drop of `segment` removes the name.
        let own = nix::sys::mman::shm_open(
            name,
            nix::fcntl::OFlag::O_RDWR,
            nix::sys::stat::Mode::empty(),
        )?;
        let length = i64::try_from(bytes).unwrap_or(i64::MAX);
        nix::fcntl::posix_fallocate(&own, 0, length)?;
        Ok(Self { segment })
    }

    /// Opens the segment that another process made.
    #[cfg(test)]
    pub(crate) fn open(name: &str) -> Result<Self, shared_memory::ShmemError> {
        Ok(Self {
            segment: shared_memory::ShmemConf::new().os_id(name).open()?,
        })
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.segment.len()
    }

    /// `count` atomic words from byte `offset` on, which must be a multiple of eight and inside the segment.
    pub(crate) fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(
            offset.is_multiple_of(8) && offset + count * 8 <= self.bytes(),
            "words outside of their segment"
        );
        // SAFETY: as for Region::words; this segment is only ever accessed as words.
        unsafe {
            std::slice::from_raw_parts(self.segment.as_ptr().add(offset).cast::<AtomicU64>(), count)
        }
    }
}

/// Error code of the system, if the library kept one.
fn io_error(error: shared_memory::ShmemError) -> std::io::Error {
    use shared_memory::ShmemError::{
        MapCreateFailed, MapOpenFailed, MappingIdExists, UnknownOsError,
    };
    match error {
        MappingIdExists => std::io::ErrorKind::AlreadyExists.into(),
        MapCreateFailed(code) | MapOpenFailed(code) | UnknownOsError(code) => {
            std::io::Error::from_raw_os_error(i32::try_from(code).unwrap_or(0))
        }
        other => std::io::Error::other(other),
    }
}

/// Copies the words of a segment, at most `limit_bytes` bytes. Returns them with the user id that owns the segment. The file is
/// read and never mapped: its owner can truncate it at any moment, which must not kill the reader.
pub(crate) fn read_segment(
    name: &str,
    limit_bytes: usize,
) -> std::io::Result<(Vec<AtomicU64>, u32)> {
    use std::io::{Error, ErrorKind, Read};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    if name.contains('/') {
        return Err(Error::from(ErrorKind::InvalidInput));
    }
    let file = File::options()
        .read(true)
        // Refuse a symbolic link, and do not wait at a pipe without a writer.
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(format!("{FOLDER}/{name}"))?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(Error::from(ErrorKind::InvalidData));
    }
    let limit = meta.len().min(limit_bytes as u64);
    let mut bytes = Vec::with_capacity(usize::try_from(limit).unwrap_or(0));
    file.take(limit).read_to_end(&mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    let words = words
        .iter()
        .map(|word| AtomicU64::new(u64::from_ne_bytes(*word)));
    Ok((words.collect(), meta.uid()))
}

/// User id that owns a segment, even if this process may not read the segment.
pub(crate) fn segment_user(name: &str) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::symlink_metadata(format!("{FOLDER}/{name}")).ok()?;
    meta.is_file().then(|| meta.uid())
}

/// Names of segments that begin with `prefix`: this user's first, then those of other users, sorted for each user. The number per
/// user and the total size per other user are limited, so that no user can keep a reader busy with junk.
pub(crate) fn segment_names(prefix: &str) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    const MOST: usize = 1024;
    const MOST_BYTES: u64 = 64 << 20;
    let Ok(entries) = std::fs::read_dir(FOLDER) else {
        return Vec::new();
    };
    let own = nix::unistd::geteuid().as_raw();
    let mut of_users: BTreeMap<(bool, u32), Vec<(String, u64)>> = BTreeMap::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let about = entry.metadata().ok().filter(|_| name.starts_with(prefix));
        if let Some(about) = about {
            let user = about.uid();
            let names = of_users.entry((user != own, user)).or_default();
            names.push((name, about.len()));
        }
    }
    let mut all = Vec::new();
    for ((is_other, _), mut names) in of_users {
        names.sort_unstable();
        let mut bytes = 0;
        let room = names.into_iter().take(MOST).take_while(|(_, length)| {
            bytes += length;
            !is_other || bytes <= MOST_BYTES
        });
        all.extend(room.map(|(name, _)| name));
    }
    all
}

/// Folder of the segments.
const FOLDER: &str = "/dev/shm";

/// Removes the name of a segment. A name that is gone is no error. False if the name still exists.
pub(crate) fn remove_name(name: &str) -> bool {
    matches!(
        nix::sys::mman::shm_unlink(name),
        Ok(()) | Err(nix::Error::ENOENT)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    /// Symptom: on an old kernel a run ended with "cannot make 780 KiB of buffers: function not implemented".
    #[test]
    fn a_kernel_without_memory_files_is_told_the_oldest_that_has_them() {
        let said = crate::sys::why(&explained(Errno::ENOSYS));
        assert!(said.contains("Linux 3.17 or newer"), "{said}");
        let said = crate::sys::why(&explained(Errno::ENOMEM));
        assert_eq!(said, "out of memory");
    }

    #[test]
    fn words_and_spans_of_a_region_hold_what_was_put_there() {
        let region = Region::new("test", 8192).unwrap();
        region.words(64, 2)[1].store(7, Ordering::SeqCst);
        assert_eq!(region.words(72, 1)[0].load(Ordering::SeqCst), 7);
        region.populate(4096, 4096);
        region.span(4096, 100).part(10, 5).write(b"hello");
        let mut back = [0; 5];
        region.span(4106, 5).read(&mut back);
        assert_eq!(&back, b"hello");
    }

    #[test]
    fn reserved_pages_are_there_or_refused_and_never_a_signal() {
        let enough = crate::sys::usage::free_reserved_bytes() >= LARGE_PAGE_BYTES as u64;
        match Region::reserved("test", 5000) {
            Ok(region) => {
                region.span(4000, 5).write(b"hello");
                assert_eq!(region.bytes(), LARGE_PAGE_BYTES);
            }
            Err(error) => assert!(!enough, "{error}"),
        }
        // More than any machine has.
        assert!(Region::reserved("test", 1 << 46).is_err());
    }

    #[test]
    fn private_memory_is_a_region_too_and_its_large_pages_are_aligned() {
        let region = Region::private_large(5000).unwrap();
        assert_eq!(region.bytes(), LARGE_PAGE_BYTES);
        assert!(region.address(0).addr().is_multiple_of(LARGE_PAGE_BYTES));
        region.populate(0, region.bytes());
        for region in [region, Region::private(8192).unwrap()] {
            region.span(8187, 5).write(b"hello");
            let mut back = [0; 5];
            region.span(8187, 5).read(&mut back);
            assert_eq!(&back, b"hello");
        }
    }

    #[test]
    #[should_panic(expected = "span outside")]
    fn a_span_cannot_leave_its_region() {
        Region::new("test", 4096).unwrap().span(4000, 97);
    }

    #[test]
    fn a_named_segment_is_seen_from_a_second_handle_and_goes_with_its_owner() {
        let name = format!("pipebench-unit-{}", std::process::id());
        let owner = NamedRegion::create(&name, 4096).unwrap();
        owner.words(0, 1)[0].store(42, Ordering::SeqCst);
        assert_eq!(
            NamedRegion::open(&name).unwrap().words(0, 1)[0].load(Ordering::SeqCst),
            42
        );
        drop(owner);
        assert!(NamedRegion::open(&name).is_err());
    }

    #[test]
    fn a_copy_of_a_segment_is_bounded_and_takes_no_links_or_pipes() {
        let name = format!("pipebench-unit-copy-{}", std::process::id());
        let owner = NamedRegion::create(&name, 4096).unwrap();
        owner.words(8, 1)[0].store(7, Ordering::SeqCst);
        let (words, user) = read_segment(&name, 64).unwrap();
        assert_eq!((words.len(), words[1].load(Ordering::SeqCst)), (8, 7));
        assert_eq!(segment_user(&name), Some(user));
        assert!(segment_names("pipebench-unit-copy-").contains(&name));
        assert!(read_segment("../etc/passwd", 64).is_err());
        let pipe = format!("/dev/shm/{name}-pipe");
        nix::unistd::mkfifo(pipe.as_str(), nix::sys::stat::Mode::S_IRUSR).unwrap();
        let read = read_segment(&format!("{name}-pipe"), 64);
        std::fs::remove_file(pipe).unwrap();
        assert!(read.is_err());
    }

    /// Regression test: files of another user filled the list, and this user's own runs were missing.
    #[test]
    fn segments_of_others_hide_none_of_ones_own() {
        use std::os::unix::fs::chown;
        if !nix::unistd::geteuid().is_root() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "needs root");
            eprintln!("SKIPPED: only root can give files to another user");
            return;
        }
        let prefix = format!("pipebench-unit-{}-", std::process::id());
        let path = |name: &str| format!("{FOLDER}/{name}");
        let own = format!("{prefix}own");
        File::create(path(&own)).unwrap();
        let others: Vec<String> = (0..1100)
            .map(|number| format!("{prefix}a{number:04}"))
            .collect();
        let large: Vec<String> = (0..3).map(|number| format!("{prefix}b{number}")).collect();
        for name in &others {
            File::create(path(name)).unwrap();
            chown(path(name), Some(65_534), None).unwrap();
        }
        for name in &large {
            File::create(path(name)).unwrap().set_len(60 << 20).unwrap();
            chown(path(name), Some(65_533), None).unwrap();
        }
        let names = segment_names(&prefix);
        for name in others.iter().chain(&large).chain([&own]) {
            std::fs::remove_file(path(name)).unwrap();
        }
        assert_eq!(names[0], own);
        let of = |kind: &str| {
            names
                .iter()
                .filter(|name| name.starts_with(&format!("{prefix}{kind}")))
                .count()
        };
        assert_eq!((of("a"), of("b")), (1024, 1));
    }
}
