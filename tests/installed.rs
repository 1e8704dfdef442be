//! The Debian package, installed: its account, its unit, and the configurations of `examples/` as docs/web.md says, with real web servers.

use std::path::Path;
use std::process::Command;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

/// Symptom: neither example started as it stood. lighttpd had no group, Apache no port and no module, and its account no rights.
#[test]
fn the_package_serves_by_its_unit_and_below_lighttpd_apache_and_nginx() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let made = Command::new(sources.join("release/dist"))
        .arg(PIPEBENCH)
        .arg(folder.path())
        .output()
        .expect("release/dist runs");
    assert!(made.status.success(), "{made:?}");
    let names = std::fs::read_dir(folder.path())
        .expect("a folder")
        .flatten();
    let package = names
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ext| ext == "deb"))
        .expect("a package");
    let words = [
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
    ];
    let output = Command::new("unshare")
        .args(words)
        .arg(sources.join("tests/installed/install.sh"))
        .arg(package)
        .arg(sources)
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.ends_with("install.sh: done\n"),
        "{said}"
    );
}
