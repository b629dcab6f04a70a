//! pymongo and redis-py: the same script, directly and through the cache, prints the same.

use std::net::SocketAddr;
use std::process::Command;

use crate::support::directory::installed;
use crate::support::enroute::Cache;
use crate::support::origins::{Mongo, Redis, absent};

#[test]
fn redis_py() {
    let (Some(direct), Some(behind)) = (Redis::start(), Redis::start()) else { return };
    let cache = Cache::start("redis", behind.address(), "");
    compare("redis_conformance.py", direct.address(), &cache, &[]);
}

#[test]
fn pymongo_with_ferretdb() {
    let (Some(direct), Some(behind)) = (Mongo::start_ferretdb(), Mongo::start_ferretdb()) else {
        return;
    };
    let cache = Cache::start("mongodb", behind.address(), "");
    compare("mongo_conformance.py", direct.address(), &cache, &[]);
}

#[test]
fn pymongo_with_mongo_java_offering_compression() {
    let (Some(direct), Some(behind)) = (Mongo::start_java(), Mongo::start_java()) else { return };
    let cache = Cache::start("mongodb", behind.address(), "");
    compare("mongo_conformance.py", direct.address(), &cache, &["zstd,zlib,snappy"]);
}

fn compare(script: &str, direct: SocketAddr, cache: &Cache, arguments: &[&str]) {
    let Some(expected) = run(script, direct, arguments) else { return };
    let told = run(script, cache.address(), arguments).expect("it ran before");
    for (told, expected) in told.lines().zip(expected.lines()) {
        assert_eq!(told, expected);
    }
    assert_eq!(told.lines().count(), expected.lines().count());
    let statistics = cache.statistics();
    assert!(statistics["hits"] >= 20.0, "{statistics:?}");
    eprintln!("{script}: {} answers, {statistics:?}", told.lines().count());
}

/// Returns the output of a script under `clients/`.
fn run(script: &str, address: SocketAddr, arguments: &[&str]) -> Option<String> {
    let python = installed("python/bin/python");
    if !python.is_file() {
        return absent("the Python clients are not installed");
    }
    let path = format!("{}/tests/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python)
        .args([path, address.to_string()])
        .args(arguments)
        .output()
        .expect("python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} at {address}: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
