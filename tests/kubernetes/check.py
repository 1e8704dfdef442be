"""Checks manifests against the schema of Kubernetes, and what a schema cannot know: references within a manifest.

Usage: check.py FILE... Prints one line for each fault; the exit code is 1 if there is one.
"""

import sys

import kubernetes_validate
import yaml

# The oldest version that has a schema here, and the newest.
VERSIONS = ["1.25", "1.37"]


def faults(manifest):
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            yield f"{version}: {error.message}"
            return
    spec = manifest["spec"]
    template = spec["template"]
    labels = template["metadata"]["labels"]
    pod = template["spec"]

    # A Job makes its own selector; other kinds find their pods by the labels of the template.
    selectors = [spec["selector"]] if "selector" in spec else []
    if ("selector" in spec) == (manifest["kind"] == "Job"):
        yield "a Job has no selector, and every other kind has one"
    terms = pod.get("affinity", {}).get("podAntiAffinity", {})
    for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution", []):
        selectors.append(term["labelSelector"])
    for selector in selectors:
        if not selector["matchLabels"].items() <= labels.items():
            yield f"{selector['matchLabels']} does not select the pods of the template, {labels}"
    if (pod.get("restartPolicy", "Always") == "Always") == (manifest["kind"] == "Job"):
        yield "restartPolicy: Never for a Job, Always for every other kind"

    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    mounts = [mount for container in pod["containers"] for mount in container.get("volumeMounts", [])]
    if volumes != {mount["name"] for mount in mounts}:
        yield f"volumes {sorted(volumes)} are not those of the mounts"
    for volume in pod.get("volumes", []):
        if "secret" in volume and volume["secret"].get("defaultMode") != 0o400:
            yield f"volume {volume['name']}: only the owner may read a secret (defaultMode: 0400)"
    for container in pod["containers"]:
        words = container.get("args", [])
        for option, path in zip(words, words[1:]):
            if option == "--token-file" and path not in {mount["mountPath"] for mount in mounts}:
                yield f"{option} {path}: no volume is mounted there"


found = []
for path in sys.argv[1:]:
    with open(path) as file:
        found += [f"{path}: {fault}" for fault in faults(yaml.safe_load(file))]
print("\n".join(found))
sys.exit(1 if found else 0)
