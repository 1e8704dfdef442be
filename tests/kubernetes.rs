//! Checks the manifests and images of `examples/kubernetes/`. No cluster is needed: `tests/kubernetes/check.py` has the schema.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFESTS: [&str; 2] = ["daemonset.yaml", "job.yaml"];

fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    examples.join("kubernetes").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(example(name)).expect(name)
}

/// The faults of a manifest, a line each; empty if there is none.
#[track_caller]
fn faults(manifest: &Path) -> String {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("venv/bin/python3");
    let output = Command::new(&python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/kubernetes/check.py"
        ))
        .arg(manifest)
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "{}: {error}: tests/run installs it (tests/requirements.txt)",
                python.display()
            )
        });
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), said.is_empty(), "{said}{errors}");
    said
}

#[test]
fn the_manifests_are_as_the_schema_of_kubernetes_says() {
    for name in MANIFESTS {
        assert_eq!(faults(&example(name)), "");
        assert!(text(name).contains("\n      hostNetwork: true\n"), "{name}");
    }
}

/// The check that the manifests pass sees what makes Kubernetes refuse them, or run them in another way.
#[test]
fn a_manifest_with_a_fault_does_not_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let changed = folder.path().join("changed.yaml");
    for (name, old, new, fault) in [
        (
            "daemonset.yaml",
            "hostNetwork:",
            "hostNetwrok:",
            "Additional properties",
        ),
        (
            "daemonset.yaml",
            "apiVersion: apps/v1",
            "apiVersion: apps/v7",
            "find schema",
        ),
        (
            "daemonset.yaml",
            "matchLabels:\n      app: pipebench",
            "matchLabels:\n      app: other",
            "does not select",
        ),
        (
            "job.yaml",
            "parallelism: 4",
            "parallelism: four",
            "not of type 'integer'",
        ),
        (
            "job.yaml",
            "    app: pipebench-join",
            "    app: other",
            "does not select",
        ),
        (
            "job.yaml",
            "restartPolicy: Never",
            "restartPolicy: Always",
            "Never for a Job",
        ),
        (
            "job.yaml",
            "            - name: token",
            "            - name: tokens",
            "not those of the mounts",
        ),
        (
            "job.yaml",
            "defaultMode: 0400",
            "defaultMode: 0444",
            "only the owner",
        ),
        (
            "job.yaml",
            "mountPath: /run/pipebench",
            "mountPath: /run/other",
            "no volume is mounted",
        ),
    ] {
        let text = text(name);
        assert!(text.contains(old), "{name}: {old}");
        fs::write(&changed, text.replacen(old, new, 1)).expect("written");
        let found = faults(&changed);
        assert!(found.contains(fault), "{name}: {new}: {found:?}");
    }
}

#[test]
fn each_manifest_runs_the_image_of_its_containerfile() {
    for (name, containerfile) in [
        ("daemonset.yaml", "Containerfile"),
        ("job.yaml", "Containerfile.join"),
    ] {
        let manifest = text(name);
        let image = manifest
            .lines()
            .find_map(|line| line.trim().strip_prefix("image: "));
        let image = image.expect("an image");
        for file in [containerfile, "README.md"] {
            assert!(
                text(file).contains(&format!(" -t {image} ")),
                "{file}: {image}"
            );
        }
    }
    // An image from scratch has no shell: the executable starts by its path.
    let join = text("Containerfile.join");
    let instructions: Vec<&str> = join.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        instructions,
        [
            "FROM scratch",
            "COPY pipebench-node /pipebench-node",
            "ENTRYPOINT [\"/pipebench-node\", \"join\"]"
        ]
    );
    let executable = fs::metadata(env!("CARGO_BIN_EXE_pipebench-node")).expect("an executable");
    assert!(executable.len() < 15_000_000, "{} bytes", executable.len());
}
