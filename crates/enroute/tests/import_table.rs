//! Compares the tiers of ARCHITECTURE.md with `cargo metadata`.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// Each crate, and the crates of this repository that it may import.
const TABLE: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("policy", &[]),
    ("store", &[]),
    ("notation", &[]),
    ("telemetry", &[]),
    ("cache", &["notation", "policy", "store", "telemetry", "wire"]),
    ("acl", &["notation", "wire"]),
    ("db", &["acl", "notation", "store", "telemetry", "wire"]),
    ("fabric", &["policy"]),
    ("switch", &["policy", "wire"]),
    ("state", &["acl", "policy", "telemetry", "wire"]),
    ("keyserver", &["wire"]),
    ("content", &["store"]),
    ("edge-tls", &[]),
    ("intercept", &[]),
    ("reactor", &[]),
    ("endpoint", &["reactor", "telemetry", "wire"]),
    ("platform", &["policy", "reactor"]),
    ("resp-client", &["wire"]),
    (
        "keyservice",
        &["endpoint", "keyserver", "notation", "platform", "resp-client", "telemetry", "wire"],
    ),
    ("shards", &["db", "platform", "store"]),
    ("top", &["endpoint", "platform", "telemetry"]),
    (
        "testbed",
        &["edge-tls", "fabric", "keyserver", "notation", "policy", "reactor", "switch", "wire"],
    ),
    ("fabric-python", &["fabric", "testbed"]),
    (
        "enroute",
        &[
            "acl",
            "cache",
            "content",
            "db",
            "edge-tls",
            "endpoint",
            "intercept",
            "keyserver",
            "keyservice",
            "notation",
            "platform",
            "reactor",
            "resp-client",
            "shards",
            "state",
            "store",
            "switch",
            "telemetry",
            "testbed",
            "top",
            "wire",
        ],
    ),
    // Outside of the tiers: it runs the binary.
    ("bench", &[]),
];

#[test]
fn crates_import_only_what_the_table_allows() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let imports = imports(&metadata);

    let table: BTreeMap<&str, BTreeSet<&str>> =
        TABLE.iter().map(|(name, allowed)| (*name, allowed.iter().copied().collect())).collect();
    for (name, imported) in &imports {
        let allowed = table.get(name.as_str());
        let allowed = allowed.unwrap_or_else(|| panic!("crate {name} is not in the table"));
        for import in imported {
            assert!(allowed.contains(import.as_str()), "{name} imports {import}: not allowed");
        }
    }
    assert_eq!(imports.len(), TABLE.len(), "a crate of the table is gone");
}

/// For each crate of the workspace, the workspace crates that it depends on outside its tests.
fn imports(metadata: &serde_json::Value) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata["packages"].as_array().expect("packages");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let imported = dependencies
                .iter()
                .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
                .map(|dependency| text(&dependency["name"]))
                .filter(|name| ours.contains(name))
                .collect();
            (text(&package["name"]), imported)
        })
        .collect()
}
