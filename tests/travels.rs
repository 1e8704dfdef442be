//! The executable that travels to hosts: its size on the way, and those for hosts of other architectures.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const NODE: &str = env!("CARGO_BIN_EXE_pipebench-node");

/// Runs a command that must succeed; returns what it printed.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("a program");
    let said = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert!(status.success(), "{command:?}: {status}\n{said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Executables for hosts, by their architectures: those that `make dist` has made, if PIPEBENCH_DIST names their folder, as in `tests/run all`.
/// Otherwise the one of this machine stands for each, with a digest of its own.
fn built(folder: &Path) -> [(&'static str, PathBuf); 2] {
    let made = std::env::var_os("PIPEBENCH_DIST").map(PathBuf::from);
    let own = fs::read(NODE).expect("an executable");
    ["x86_64", "aarch64"].map(|machine| {
        let name = format!("pipebench-node-{}-{machine}", env!("CARGO_PKG_VERSION"));
        let path = made.as_deref().unwrap_or(folder).join(name);
        if made.is_none() {
            fs::write(&path, [&own, machine.as_bytes()].concat()).expect("a copy");
        }
        (machine, path)
    })
}

/// Writes an executable script into a folder; returns its path.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    path
}

/// The sub-folder of this user in a folder that `--remote-dir` names.
fn own_folder(remote: &Path) -> PathBuf {
    remote.join(format!("pipebench-{}", nix::unistd::geteuid()))
}

/// The bytes of the only copy in such a folder.
fn the_copy(remote: &Path) -> Vec<u8> {
    let copies = fs::read_dir(own_folder(remote)).expect("a folder");
    let copies: Vec<PathBuf> = copies.map(|copy| copy.expect("a copy").path()).collect();
    let [copy] = &copies[..] else {
        panic!("{copies:?}")
    };
    fs::read(copy).expect("a copy")
}

const MOST_BYTES: u64 = 6_000_000;

/// Symptom: 20.9 MB travelled to each host.
#[test]
fn at_most_6_mb_travel_to_a_host() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let text = "shift; tee \"${0%/*}/came\" | \"$@\"";
    let shell = script(temporary.path(), "rsh", text);
    let mut command = Command::new(PIPEBENCH);
    command.args(["status", "n1", "--rsh"]).arg(shell);
    let remote = temporary.path().join("remote");
    output(command.arg("--remote-dir").arg(&remote));
    let came = fs::metadata(temporary.path().join("came")).expect("what came");
    assert!(came.len() <= MOST_BYTES, "{} bytes", came.len());
    let copy = the_copy(&remote);
    assert!(copy == fs::read(NODE).expect("an executable"));
}

#[test]
fn executables_for_hosts_are_small() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    for (machine, path) in built(temporary.path()) {
        let packed = Command::new("gzip").arg("-c").arg(&path).output();
        let bytes = packed.expect("gzip").stdout.len() as u64;
        assert!(
            (100_000..=MOST_BYTES).contains(&bytes),
            "{machine}: {bytes}"
        );
    }
}

/// Symptom: a cluster of x86_64 and aarch64 hosts could not be tested in one run. QEMU runs what `make dist` has made for the
/// other host up to its hello; it adds a thread to each process, which pipebench then refuses to fork.
#[test]
fn a_host_of_another_architecture_gets_and_starts_its_own_executable() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let built = built(temporary.path());
    let own = std::env::consts::ARCH;
    let other = built.iter().find(|(machine, _)| *machine != own);
    let (other, path) = other.expect("another");
    // The host is a shell for which `uname` is another program. It begins in the folder of the copy, since QEMU opens /proc/self/exe by the path
    // with which it was started.
    let uname = format!("[ $1 = -m ] && echo {other} || echo n2");
    script(temporary.path(), "uname", &uname);
    let copies = own_folder(temporary.path());
    fs::create_dir(&copies).expect("a folder");
    let at = copies.display();
    let text = format!("shift; cd {at}; PATH=${{0%/*}}:$PATH exec \"$@\"");
    let shell = script(temporary.path(), "rsh", &text);
    // The kernel starts QEMU for such files, in this namespace alone.
    let machine = match *other {
        "aarch64" => r"\xb7\x00",
        _ => r"\x3e\x00",
    };
    let registered = format!(
        "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
         printf %s ':other:M::{HEADER}{machine}:{MASK}:'\"$(command -v qemu-{other})\":F >/proc/sys/fs/binfmt_misc/register &&
         exec \"$@\""
    );
    let mut command = Command::new("unshare");
    let registered = match path.starts_with(temporary.path()) {
        true => "exec \"$@\"".to_owned(),
        false => registered,
    };
    command
        .args(
            "--user --map-root-user --mount --pid --fork --kill-child --mount-proc sh -c"
                .split(' '),
        )
        .arg(registered)
        .arg("sh")
        .args([PIPEBENCH, "status", "n2", "--rsh"])
        .arg(shell)
        .arg("--remote-dir")
        .arg(temporary.path())
        .arg("--remote-binary")
        .arg(path.parent().expect("a folder"));
    assert_eq!(output(&mut command), "no runs on n2\n");
    let copy = the_copy(temporary.path());
    assert!(copy == fs::read(path).expect("an executable"));
}

/// Beginning of an executable's file, as the kernel compares it: 64 bits, little-endian; neither the system nor the last bit of the type
/// matters.
const HEADER: &str = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00";
const MASK: &str =
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";
