//! Tests the API against its own description with a client that makes random requests: the description must contain every answer.

mod site;

use std::path::Path;
use std::process::Command;

use site::{BEARER, SITE, Served, Site};

#[test]
fn the_api_is_as_its_description_says() {
    let site = Site::new(
        &SITE
            .replace("names =", "private = true\nnames =")
            .replace("starts-per-minute = 100", "starts-per-minute = 100000"),
    );
    let server = Served::start(&site);
    let client = Path::new(env!("CARGO_TARGET_TMPDIR")).join("venv/bin/schemathesis");
    assert!(
        client.is_file(),
        "{}: tests/run installs it (tests/requirements.txt)",
        client.display()
    );
    // Which groups a site has is in its own answer: a random text is none.
    let token = [("Authorization", BEARER)];
    let described = server.ask("GET", "/api/v1/openapi.json", &token, "");
    let mut described = described.json();
    let fields = &mut described["components"]["schemas"]["Fields"]["properties"];
    for (name, value) in [("group", "here"), ("time", "1s"), ("hosts", "")] {
        fields[name]["enum"] = [value].into();
    }
    let file = site.folder.path().join("described.json");
    std::fs::write(&file, described.to_string()).expect("a file");
    let output = Command::new(client)
        .arg("--config-file")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/openapi/schemathesis.toml"
        ))
        .arg("run")
        .arg(file)
        .args(["--url", &format!("http://{}/api/v1", server.address)])
        .args(["--header", &format!("Authorization: {BEARER}")])
        // The site can refuse a valid request that exceeds its limits. After ten guessed tokens the answer is 429, not 401.
        .args([
            "--checks",
            "all",
            "--exclude-checks",
            "positive_data_acceptance,ignored_auth",
        ])
        .args([
            "--max-examples",
            "40",
            "--seed",
            "1",
            "--workers",
            "1",
            "--no-color",
            "--request-timeout",
            "30",
        ])
        .env("HOME", site.folder.path())
        .current_dir(site.folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}\n{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        server.said()
    );
    assert!(!site.names().is_empty(), "{said}");
    for name in site.names() {
        server.post(&format!("/api/v1/runs/{name}/cancel"), "");
    }
    assert_eq!(
        server
            .ask("GET", "/api/v1/runs", &[("Authorization", BEARER)], "")
            .status,
        200
    );
}
