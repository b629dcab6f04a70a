#!/usr/bin/env python3
"""Writes the SBOM of the program, or of the wheel, to standard output. Arguments: what
cargo-cyclonedx has written, and the target.

cargo-cyclonedx lists some crates that are not in the program: it reads `cargo metadata`, which also
counts the features that only tests ask for. What `cargo tree` does not list is removed. So is the
name of the folder of the build.
"""

import json
import os
import subprocess
import sys


FEATURES = {"enroute": ["--features", "edge"]}


def linked(crate, triple):
    """Name and version of each crate that is linked into the program or library of this one."""
    tree = subprocess.run(
        ["cargo", "tree", "--locked", "-p", crate, *FEATURES.get(crate, []), "--edges", "normal",
         "--target", triple, "--prefix", "none", "--format", "{p}"],
        check=True, capture_output=True, text=True,
    ).stdout
    crates = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    return {(name, version.removeprefix("v")) for name, version in crates}


def main(path, triple):
    with open(path, encoding="utf-8") as file:
        bom = json.loads(file.read().replace("file://" + os.getcwd(), "file:///enroute"))
    crates = linked(bom["metadata"]["component"]["name"], triple)
    bom["components"] = [one for one in bom["components"] if (one["name"], one["version"]) in crates]
    kept = {one["bom-ref"] for one in [bom["metadata"]["component"], *bom["components"]]}
    bom["dependencies"] = [
        {**one, "dependsOn": [other for other in one.get("dependsOn", []) if other in kept]}
        for one in bom["dependencies"] if one["ref"] in kept
    ]
    json.dump(bom, sys.stdout, indent=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
