//! The page of a run as a PDF, which a Chromium that is installed prints.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::{exit, sys};

use super::process::random_digits;
use super::terminal::fail;

/// Names of the browser, the usual one first.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// A browser that prints for longer is ended.
const LONGEST: Duration = Duration::from_secs(60);

/// Prints a page to a file; returns the exit code.
pub(super) fn print(page: &str, to: &Path) -> Result<u8, u8> {
    let Some(browser) = installed() else {
        let text = "--pdf needs Chromium, which is not installed: open the page (--format html) in a browser and print it";
        return Err(fail(&text, exit::RESOURCE));
    };
    // The browser wants its own profile, and the page as a file. Other users must not come before, nor read it.
    let folder = std::env::temp_dir().join(format!("pipebench-pdf-{}", random_digits()?));
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    let printed = made.and_then(|()| {
        let printed = print_in(&folder, &browser, page, to);
        let removed = fs::remove_dir_all(&folder);
        printed.and(removed)
    });
    printed.map(|()| exit::OK).map_err(|error| {
        let text = format!("cannot print {}: {}", to.display(), sys::why(&error));
        fail(&text, exit::NOT_WRITTEN)
    })
}

/// The first browser that is in a folder of PATH.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = BROWSERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|file| file.is_file())
}

fn print_in(folder: &Path, browser: &Path, page: &str, to: &Path) -> io::Result<()> {
    let source = folder.join("page.html");
    fs::write(&source, page)?;
    // An old file would look like a printed one.
    let made = folder.join("page.pdf");
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--no-pdf-header-footer"])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("--print-to-pdf={}", made.display()));
    if sys::process::own_user() == 0 {
        // Chromium refuses to start with its sandbox as root. The page loads nothing and runs no scripts.
        command.arg("--no-sandbox");
    }
    command.arg(format!("file://{}", source.display()));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let ended = wait(command.spawn()?)?;
    if !ended.success() || !made.is_file() {
        return Err(io::Error::other("Chromium printed nothing"));
    }
    fs::copy(&made, to).map(|_| ())
}

/// Waits until the browser has ended, or ends it.
fn wait(mut child: Child) -> io::Result<ExitStatus> {
    let until = Instant::now() + LONGEST;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other("Chromium did not finish within 60 s"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
