//! The page and all stored sheets in a real browser, driven by the scripts of `tests/browser`; the pictures that they take stay in the build folder, to be looked at.

mod site;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use site::{SITE, Served, Site};

/// Runs a script of `tests/browser`. Its arguments are a folder for pictures and these. Returns the words after DONE, or why it failed.
fn drive(script: &str, arguments: &[&OsStr]) -> Result<String, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&pictures).expect("a folder");
    assert!(
        here.join("node_modules/axe-core").is_dir(),
        "tests/run installs it (npm ci in tests/browser)"
    );
    let output = Command::new("node")
        .arg(here.join(script))
        .arg(&pictures)
        .args(arguments)
        .output()
        .expect("node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    match said.trim().strip_prefix("DONE ") {
        Some(words) if output.status.success() => Ok(words.to_owned()),
        _ => Err(format!(
            "{said}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

#[test]
fn a_run_is_started_watched_cancelled_read_and_compared_in_a_browser() {
    let text = SITE.replace(
        "[limits]",
        "[allow]\nprofiles = [\"quick\", \"linktest\", \"imb\"]\n[limits]",
    );
    let kinds = "[groups.here]\nlinktest = [\"--no-pin\", \"-s64K\"]\nimb = [\"PingPong\", \"--msglog=4:8\"]";
    let text = text.replace("[groups.here]", kinds);
    let long = "[groups.\"a group whose name is far longer than a phone is wide\"]\nhosts = \"local:2\"\nfabric = \"here\"\n";
    let site = Site::new(&(text + long));
    let server = Served::start(&site);
    let url = format!("http://{}", server.address);
    let token = site.folder.path().join("token");
    let pid = server.pid().to_string();
    let arguments = [OsStr::new(&url), token.as_os_str(), OsStr::new(&pid)];
    let names =
        drive("site.mjs", &arguments).unwrap_or_else(|error| panic!("{error}\n{}", server.said()));
    // What the page says of runs is what their records say.
    for (name, state) in names.split(' ').zip(["ended", "cancelled", "ended"]) {
        assert_eq!(server.state(name)["state"], state, "{name}");
    }
}

#[test]
fn no_sheet_is_cut_faint_or_closed_to_a_screen_reader_on_a_phone_at_a_desk_or_on_paper() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let said = drive("sheets.mjs", &[golden.as_os_str()]);
    let sheets = said.unwrap_or_else(|error| panic!("{error}"));
    let sheets: usize = sheets.parse().expect("a number");
    assert!(sheets >= 18, "only {sheets} sheets");
}
