//! The executable of this process, and those of the same version that travel to hosts instead of it.
//!
//! Does not copy it to a host; read next `deploy.rs`.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Name of the executable for hosts that is built beside this one.
const NODE: &str = "pipebench-node";
/// Beginning of the names of executables for hosts in a folder; the architecture follows.
const NAMED: &str = concat!("pipebench-node-", env!("CARGO_PKG_VERSION"), "-");

/// An executable with its bytes and their identity.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path on this machine; local sessions run it from here.
    pub path: PathBuf,
    /// Its bytes, read once for all hosts; none if another executable travels instead.
    pub bytes: Arc<Vec<u8>>,
    /// SHA-256 of the bytes in lower-case hexadecimal digits.
    pub digest: String,
    /// The architecture it runs on, as `uname -m` names it.
    pub arch: String,
    /// Executables for hosts, at most one for each architecture.
    pub others: Vec<Program>,
    /// The folder that was searched for `others`.
    folder: Option<PathBuf>,
    /// The compressed bytes, once a host has needed them.
    packed: Arc<OnceLock<Arc<Vec<u8>>>>,
}

/// The reason why the executable cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The file is not readable.
    #[error("cannot read the executable {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the read.
        source: std::io::Error,
    },
    /// The folder of executables for other architectures is not readable.
    #[error("cannot read the folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the read.
        source: std::io::Error,
    },
    /// The kernel does not name the machine's architecture.
    #[error("cannot determine the machine's architecture: {0}")]
    Machine(nix::Error),
}

impl Program {
    /// An executable of these bytes, for an architecture as `uname -m` names it.
    pub fn new(path: PathBuf, bytes: Vec<u8>, arch: String) -> Program {
        Program {
            path,
            digest: digest_of(&bytes),
            bytes: Arc::new(bytes),
            arch,
            others: Vec::new(),
            folder: None,
            packed: Arc::default(),
        }
    }

    /// Reads the executable of this process, even if its file was replaced or removed since the start.
    pub fn current() -> Result<Program, ProgramError> {
        let itself = Path::new(ITSELF);
        let mut program = Program::read(itself)?;
        // In a process table the real name is clearer than `exe`, but it is used only while it still leads
        // to the same file.
        if let (Ok(named), Ok(link)) = (std::env::current_exe(), std::fs::metadata(itself))
            && std::fs::metadata(&named)
                .is_ok_and(|file| (file.dev(), file.ino()) == (link.dev(), link.ino()))
        {
            program.path = named;
        }
        Ok(program)
    }

    /// The command that runs the executable on this machine.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        let own = own_file().unwrap_or_default();
        command.env(KNOWN, format!("{own} {}", self.digest));
        command
    }

    /// Reads the executable at `path` and assumes that it is for this machine.
    pub fn read(path: &Path) -> Result<Program, ProgramError> {
        let bytes = std::fs::read(path).map_err(|source| ProgramError::Read {
            path: path.to_owned(),
            source,
        })?;
        let machine = nix::sys::utsname::uname().map_err(ProgramError::Machine)?;
        let arch = machine.machine().to_string_lossy().into_owned();
        Ok(Program::new(path.to_owned(), bytes, arch))
    }

    /// Adds the executable for hosts beside this one, if it contains `mark`: without the launching side it has a quarter of
    /// the size. One of another build is passed over.
    pub fn with_node(mut self, mark: &[u8]) -> Program {
        let path = self.path.with_file_name(NODE);
        if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(mark.len()).any(|window| window == mark)
        {
            let node = Program::new(path, bytes, self.arch.clone());
            self.others.push(node);
            self.bytes = Arc::default();
        }
        self
    }

    /// Adds the executables for other architectures in `folder`: the files `pipebench-node-VERSION-ARCH`.
    pub fn with_others(mut self, folder: &Path) -> Result<Program, ProgramError> {
        let failed = |source| ProgramError::Folder {
            path: folder.to_owned(),
            source,
        };
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let arch = name.and_then(|name| name.strip_prefix(NAMED));
            let is_arch = |arch: &&str| {
                *arch != self.arch && arch.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            };
            let Some(arch) = arch.filter(is_arch).map(str::to_owned) else {
                continue;
            };
            let bytes = std::fs::read(&path).map_err(|source| ProgramError::Read {
                path: path.clone(),
                source,
            })?;
            self.others.push(Program::new(path, bytes, arch));
        }
        self.others.sort_by(|one, other| one.arch.cmp(&other.arch));
        self.folder = Some(folder.to_owned());
        Ok(self)
    }

    /// The executable of this launch with this digest.
    pub fn of_digest(&self, digest: &str) -> Option<&Program> {
        self.all().find(|program| program.digest == digest)
    }

    /// The executables of this launch, this one first.
    fn all(&self) -> impl Iterator<Item = &Program> {
        std::iter::once(self).chain(&self.others)
    }

    /// The executable that travels to hosts of each architecture.
    pub(crate) fn for_hosts(&self) -> impl Iterator<Item = &Program> {
        let has_node = self.others.iter().any(|other| other.arch == self.arch);
        self.others.iter().chain((!has_node).then_some(self))
    }

    /// The digests of all executables of this launch, this one first, with blanks between.
    pub fn digests(&self) -> String {
        let digests: Vec<&str> = self.all().map(|one| one.digest.as_str()).collect();
        digests.join(" ")
    }

    /// The reason and the cure where a host of `arch` finds no executable.
    pub(crate) fn lacks(&self, arch: &str) -> (String, String) {
        match &self.folder {
            Some(folder) => {
                let file = folder.join(format!("{NAMED}{arch}"));
                let text = format!("the host is {arch}, and {} does not exist", file.display());
                (text, "`make dist` builds it".to_owned())
            }
            None => (
                format!("the host is {arch}, this executable is for {}", self.arch),
                format!("name a folder that has {NAMED}{arch}: --remote-binary DIR"),
            ),
        }
    }

    /// The bytes as gzip writes them. The first call compresses, calls at the same time wait for it.
    pub(crate) fn packed(&self) -> &Arc<Vec<u8>> {
        self.packed.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
            let written = encoder.write_all(&self.bytes);
            let packed = written.and_then(|()| encoder.finish());
            Arc::new(packed.expect("memory takes every byte"))
        })
    }
}

/// Level 9 makes the executable half a percent smaller than this one does, in more than twice the time.
const LEVEL: u32 = 6;

/// Environment variable by which a launching side tells the digest to programs that it starts on its own machine, with
/// what tells its executable's file from others: a thousand of them on one machine need not compute it.
const KNOWN: &str = "PIPEBENCH_KNOWN";
const ITSELF: &str = "/proc/self/exe";

/// Digest of the executable of this process, as [`Program::digest`], without keeping its bytes in memory.
pub fn own_digest() -> Result<String, ProgramError> {
    const PIECE_BYTES: usize = 64 << 10;
    if let Some(digest) = std::env::var(KNOWN).ok().as_deref().and_then(known) {
        return Ok(digest.to_owned());
    }
    let path = Path::new(ITSELF);
    let failed = |source| ProgramError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut digest, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hexadecimal(&digest.finalize())),
            Ok(got) => digest.update(&piece[..got]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// The digest in a value of [`KNOWN`], if it means the file of this process's executable.
fn known(text: &str) -> Option<&str> {
    let (file, digest) = text.split_once(' ')?;
    (own_file()? == file).then_some(digest)
}

/// Device, number and time of the last change of the file of this process's executable.
fn own_file() -> Option<String> {
    let file = std::fs::metadata(ITSELF).ok()?;
    let changed = (file.ctime(), file.ctime_nsec());
    Some(format!(
        "{}:{}:{}.{}",
        file.dev(),
        file.ino(),
        changed.0,
        changed.1
    ))
}

/// SHA-256 in lower-case hexadecimal digits.
pub fn digest_of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_executable_is_read_and_named() {
        let program = Program::current().unwrap();
        assert_eq!(own_digest().unwrap(), program.digest);
        assert_eq!(program.digest.len(), 64);
        assert!(program.bytes.starts_with(b"\x7fELF"));
        assert!(!program.arch.is_empty());
    }

    #[test]
    fn a_digest_of_another_file_is_not_believed() {
        let own = format!("{} abc", own_file().unwrap());
        assert_eq!(
            [&own, "0:0 abc", "abc"].map(known),
            [Some("abc"), None, None]
        );
    }

    #[test]
    fn a_digest_is_the_usual_one() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest_of(b""), empty);
    }

    /// Symptom: a cluster of x86_64 and aarch64 hosts could not be tested in one run.
    #[test]
    fn executables_of_this_version_for_other_architectures_are_found_in_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| std::fs::write(folder.path().join(name), name).unwrap();
        let own = Program::new("p".into(), b"own".to_vec(), "abacus".to_owned());
        put(&format!("{NAMED}loom"));
        for other in ["abacus", "loom-linux.tar.gz", "loom.sha256"] {
            put(&format!("{NAMED}{other}"));
        }
        put("pipebench-0.0.1-quern");
        let program = own.clone().with_others(folder.path()).unwrap();
        let known: Vec<&str> = program.for_hosts().map(|one| one.arch.as_str()).collect();
        assert_eq!(known, ["loom", "abacus"]);
        let loom = digest_of(format!("{NAMED}loom").as_bytes());
        assert_eq!(program.of_digest(&loom).unwrap().arch, "loom");
        assert_eq!(program.digests(), format!("{} {loom}", own.digest));
        assert!(program.of_digest("").is_none() && own.of_digest(&loom).is_none());
        let (text, _) = program.lacks("quern");
        let looked_for = format!("{}/{NAMED}quern does not exist", folder.path().display());
        assert!(text.ends_with(&looked_for), "{text}");
        let error = own.with_others(Path::new("/nonexistent")).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("cannot read the folder /nonexistent: "),
            "{said}"
        );
    }

    /// Symptom: 20.9 MB travelled to each host, most of it for the launching side.
    #[test]
    fn the_executable_for_hosts_travels_if_it_is_of_the_same_build() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipebench");
        let own = Program::new(path, b"whole".to_vec(), "abacus".to_owned());
        let travels = |mark: &[u8]| {
            let program = own.clone().with_node(mark);
            let bytes = program.for_hosts().map(|one| one.bytes.to_vec());
            bytes.collect::<Vec<_>>()
        };
        assert_eq!(travels(b"build 7"), [b"whole"]);
        std::fs::write(folder.path().join(NODE), "small, build 7, end").unwrap();
        assert_eq!(travels(b"build 8"), [b"whole"]);
        assert_eq!(travels(b"build 7"), [b"small, build 7, end"]);
    }

    #[test]
    fn the_executable_is_compressed_once_for_all_hosts() {
        let program = Program::new("p".into(), vec![7; 100_000], "abacus".to_owned());
        let packed = program.clone().packed().clone();
        assert!(Arc::ptr_eq(&packed, program.packed()) && packed.len() < 1_000);
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(packed.as_slice());
        decoder.read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, *program.bytes);
    }

    #[test]
    fn a_missing_executable_is_named() {
        let error = Program::read(Path::new("/nonexistent/program")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot read the executable /nonexistent/program: ")
        );
    }
}
