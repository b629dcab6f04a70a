#!/usr/bin/env python3
"""Checks SBOMs: each is valid CycloneDX, and lists exactly the crates that are linked into the
program or the wheel, with their licences. Arguments: the files."""

import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from sbom import linked


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    if error is not None:
        sys.exit(f"{path}: {error}")
    bom = json.loads(text)
    properties = {one["name"]: one["value"] for one in bom["metadata"]["properties"]}
    own = bom["metadata"]["component"]["name"]
    crates = linked(own, properties["cdx:rustc:sbom:target:triple"])
    expected = {crate for crate in crates if crate[0] != own}
    found = {(one["name"], one["version"]) for one in bom["components"]}
    if found != expected:
        sys.exit(f"{path}: missing {sorted(expected - found)}, too many {sorted(found - expected)}")
    unlicensed = [one["name"] for one in bom["components"] if not one.get("licenses")]
    if unlicensed:
        sys.exit(f"{path}: no licence of {unlicensed}")
    print(f"test-release: {path}: valid, lists the {len(found)} crates of {own}")
