//! `pipebench --version`: one line; with `--verbose` also facts about this executable and its packages.
//!
//! `tests/release.rs` makes the list of licences from Cargo.lock, and checks it against Cargo.lock.

use crate::sys;

use super::process::own_program;
use super::terminal::tell;

/// Packages in the executable, with versions and licences.
const LICENCES: &str = include_str!("licences.txt");

/// Prints the version.
pub(super) fn print(verbose: bool) -> Result<u8, u8> {
    Ok(match verbose {
        false => tell(concat!("pipebench ", env!("CARGO_PKG_VERSION"), "\n")),
        true => tell(&describe(&own_program()?.digest)),
    })
}

fn describe(digest: &str) -> String {
    let compiler = env!("PIPEBENCH_COMPILER");
    let lines = [
        ("commit", env!("PIPEBENCH_COMMIT")),
        ("target", env!("PIPEBENCH_TARGET")),
        ("compiler", compiler),
        ("profile", env!("PIPEBENCH_PROFILE")),
        ("sha256", digest),
        ("licence", env!("CARGO_PKG_LICENSE")),
    ];
    let mut text = format!("pipebench {}\n", env!("CARGO_PKG_VERSION"));
    for (name, value) in lines {
        text += &format!("{name:9} {value}\n");
    }
    text += "\nThird-party packages with versions and licences:\n\n";
    text += LICENCES;
    // Libraries that come with the compiler are not in Cargo.lock.
    let rust = compiler.split(' ').nth(1).unwrap_or_default();
    for (name, version, licence) in [
        ("rust-library", rust, "MIT OR Apache-2.0"),
        ("glibc", &sys::facts::c_library(), "LGPL-2.1-or-later"),
        ("libgcc", "-", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    ] {
        text += &format!("{name:20} {version:11} {licence}\n");
    }
    text
}
