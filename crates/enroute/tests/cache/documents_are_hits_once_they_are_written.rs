//! With population `on-write`, a document that PyMongo writes whole is served from storage without
//! having been read, as the same bytes that the origin returns.

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

fn are_hits(origin: &Mongo) {
    let Some(python) = python() else { return };
    let cache = Cache::start("mongodb", origin.address(), "[storage]\npopulation = \"on-write\"\n");
    let script = format!("{}/tests/clients/mongo_on_write.py", env!("CARGO_MANIFEST_DIR"));
    let ports = [cache.address(), origin.address()].map(|address| address.port().to_string());
    let output = Command::new(python).arg(script).args(ports).output().expect("python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let compared = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>();
    let statistics = cache.statistics();
    assert_eq!(Ok(statistics["hits"]), compared, "{statistics:?}");
}
