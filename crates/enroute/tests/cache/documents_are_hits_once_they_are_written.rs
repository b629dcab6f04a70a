//! With population `on-write`, a document that PyMongo writes whole is served from storage without
//! having been read, as the same bytes that the origin returns.

use std::path::Path;
use std::process::Command;

use crate::support::directory::python;
use crate::support::enroute::Cache;
use crate::support::origins::Mongo;

#[test]
fn documents_of_mongo_java_server_are_hits_once_they_are_written() {
    if let Some(origin) = Mongo::start_java() {
        are_hits(&origin);
    }
}

#[test]
fn documents_of_ferretdb_are_hits_once_they_are_written() {
    if let Some(origin) = Mongo::start_ferretdb() {
        are_hits(&origin);
    }
}

/// What a session has stored before the first answer of the origin's watch is dropped when that
/// answer comes, which on a busy machine can be after the first write.
const ATTEMPTS: usize = 5;

fn are_hits(origin: &Mongo) {
    let Some(python) = python() else { return };
    let mut attempts = Vec::new();
    for _ in 0..ATTEMPTS {
        let (hits, expected) = written(&python, origin);
        if hits == expected {
            return;
        }
        attempts.push((hits, expected));
    }
    panic!("hits and expected hits: {attempts:?}");
}

/// The number of hits among the documents of the script, and how many there have to be.
fn written(python: &Path, origin: &Mongo) -> (f64, f64) {
    let cache = Cache::start("mongodb", origin.address(), "[storage]\npopulation = \"on-write\"\n");
    let script = format!("{}/tests/clients/mongo_on_write.py", env!("CARGO_MANIFEST_DIR"));
    let ports = [cache.address(), origin.address()].map(|address| address.port().to_string());
    let output = Command::new(python).arg(script).args(ports).output().expect("python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let expected = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    (cache.hits(), expected)
}
