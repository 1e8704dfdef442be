//! The page of a run as a PDF, which a Chromium that is installed prints.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::{exit, sys};

use super::process::{self, listen, random_digits};
use super::terminal::{fail, refuse};

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
    if to == Path::new("-") {
        return Err(refuse(&"--pdf -: name a file"));
    }
    let browsers = installed();
    if browsers.is_empty() {
        let text = "--pdf needs Chromium, which is not installed: open the page (--format html) in a browser and print it";
        return Err(fail(&text, exit::RESOURCE));
    }
    let stop = listen()?;
    // The browser wants its own profile, and the page as a file. Other users must not come before, nor read it.
    let name = format!("pipebench-pdf-{}", random_digits()?);
    let printed = std::env::temp_dir().canonicalize().and_then(|parent| {
        let folder = parent.join(name);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let printed = print_in(&folder, &browsers, page, &stop, to);
        // A file that the browser still wrote is in its way once at most: its processes have ended.
        let (Ok(()) | Err(_)) =
            fs::remove_dir_all(&folder).or_else(|_| fs::remove_dir_all(&folder));
        printed
    });
    printed.map(|()| exit::OK).map_err(|error| {
        let text = format!("cannot print {}: {}", to.display(), sys::why(&error));
        fail(&text, exit::NOT_WRITTEN)
    })
}

/// The browsers in the folders of PATH, the usual one first.
fn installed() -> Vec<PathBuf> {
    let of_name = |name: &&str| process::installed(name).next();
    BROWSERS.iter().filter_map(of_name).collect()
}

/// Prints with the first browser that can: some may not read the folder.
fn print_in(
    folder: &Path,
    browsers: &[PathBuf],
    page: &str,
    stop: &AtomicUsize,
    to: &Path,
) -> io::Result<()> {
    let source = folder.join("page.html");
    fs::write(&source, page)?;
    let made = folder.join("page.pdf");
    let option = |name: &str, path: &Path| {
        let mut word = OsString::from(name);
        word.push(path);
        word
    };
    for browser in browsers {
        let mut command = Command::new(browser);
        command
            .args(["--headless", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--no-pdf-header-footer"])
            .arg(option("--user-data-dir=", &folder.join("profile")))
            .arg(option("--print-to-pdf=", &made));
        if sys::process::own_user() == 0 {
            // Chromium refuses to start with its sandbox as root. The page loads nothing and runs no scripts.
            command.arg("--no-sandbox");
        }
        command.arg(address(&source));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A separate group, so that all processes of the browser can be ended.
        let child = command.process_group(0).spawn()?;
        if wait(child, stop)?.is_some_and(|status| status.success()) && made.is_file() {
            return fs::copy(&made, to).map(|_| ());
        }
    }
    Err(io::Error::other("Chromium printed nothing"))
}

/// Address of a file, with every byte that means something in an address encoded.
fn address(file: &Path) -> String {
    let encoded = file.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
            char::from(*byte).to_string()
        }
        other => format!("%{other:02X}"),
    });
    format!("file://{}", encoded.collect::<String>())
}

/// Waits until a browser has ended, or ends it: `None` if it took too long. Fails if the user interrupts it.
fn wait(mut child: Child, stop: &AtomicUsize) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + LONGEST;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let is_stopped = stop.load(Ordering::SeqCst) > 0;
        if is_stopped || Instant::now() >= until {
            let group = i32::try_from(child.id()).map_err(io::Error::other)?;
            killpg(Pid::from_raw(group), Signal::SIGKILL)?;
            child.wait()?;
            return match is_stopped {
                true => Err(io::Error::other("interrupted")),
                false => Ok(None),
            };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_its_file_whatever_the_name() {
        let address = address(Path::new("/tmp/a#b?c%41 d/page.html"));
        assert_eq!(address, "file:///tmp/a%23b%3Fc%2541%20d/page.html");
    }
}
