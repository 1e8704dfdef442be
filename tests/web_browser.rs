//! The page in a real browser, driven by `tests/browser/site.mjs`; the pictures it takes stay in the build folder, to be looked at.

mod site;

use std::path::Path;
use std::process::Command;

use site::{SITE, Served, Site};

#[test]
fn a_run_is_started_watched_cancelled_read_and_compared_in_a_browser() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&pictures).expect("a folder");
    assert!(
        here.join("node_modules/playwright-core").is_dir(),
        "tests/run installs it (npm ci in tests/browser)"
    );
    let output = Command::new("node")
        .arg(here.join("site.mjs"))
        .arg(format!("http://{}", server.address))
        .arg(site.folder.path().join("token"))
        .arg(&pictures)
        .output()
        .expect("node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("DONE"),
        "{said}\n{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        server.said()
    );
    // What the page says of runs is what their records say.
    let names: Vec<&str> = said.trim().split(' ').skip(1).collect();
    for (name, state) in names.iter().zip(["ended", "cancelled", "ended"]) {
        assert_eq!(server.state(name)["state"], state, "{name}");
    }
}
