//! boto3 runs the same script at a DynamoDB Local directly and at another through the cache: it is
//! told the same.

use std::net::SocketAddr;
use std::process::Command;

use crate::support::directory::installed;
use crate::support::enroute::Cache;
use crate::support::origins::{DynamoDb, absent};
use crate::support::raw::Raw;

#[test]
fn dynamodb_answers_are_the_same_through_the_cache() {
    let (Some(direct), Some(behind)) = (DynamoDb::start(), DynamoDb::start()) else { return };
    let cache = Cache::start("dynamodb", behind.address(), "");
    let Some(expected) = told(direct.address()) else { return };
    let told = told(cache.address()).expect("it ran before");
    for (told, expected) in told.lines().zip(expected.lines()) {
        assert_eq!(told, expected);
    }
    assert_eq!(told.lines().count(), expected.lines().count());
}

#[test]
fn an_origin_that_is_down_is_an_error_of_dynamodb() {
    let nothing = crate::support::process::free_address();
    let cache = Cache::start("dynamodb", nothing, "");
    let mut client = Raw::connect(cache.address());
    client.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}");
    client.hear("HTTP/1.1 503 Service Unavailable\r\n");
}

/// What boto3 is told at `address`.
fn told(address: SocketAddr) -> Option<String> {
    let python = installed("python/bin/python");
    let has_library = |output: std::process::Output| output.status.success();
    let import = Command::new(&python).args(["-c", "import boto3"]).output();
    if !import.is_ok_and(has_library) {
        return absent("boto3 is not installed");
    }
    let script = format!("{}/tests/clients/dynamodb_conformance.py", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python)
        .args([&script, &address.to_string(), "AKIDEXAMPLE", "secret"])
        .output()
        .expect("python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} at {address}: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
