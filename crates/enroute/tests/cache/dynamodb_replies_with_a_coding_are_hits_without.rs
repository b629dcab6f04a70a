//! An origin compresses its replies for clients that ask for it, by signed headers or others: what
//! is stored of them answers these clients and all others.

use std::process::Command;

use crate::support::{
    directory::{TemporaryDirectory, installed, write_with_mode},
    enroute::Cache,
    origins::absent,
    process::free_address,
};

const CREDENTIALS: &str = "[one]\naws_access_key_id = AKIDONE\naws_secret_access_key = one\n";
const EXPECTED: &str = "\
hit None ('a', 1000)
unsigned hit None ('b', 1000)
hit without gzip None ('a', 1000) True
nothing but gzip gzip ('a', 1000) False
boto3 ('a', 1000) True
items None [{\"id\": {\"S\": \"a\"}}, {\"id\": {\"S\": \"b\"}}]
one more None [{\"id\": {\"S\": \"a\"}}, {\"id\": {\"S\": \"b\"}}, {\"id\": {\"S\": \"c\"}}] True [('BatchGetItem', 'gzip, deflate')]
after a put False
";

#[test]
fn dynamodb_replies_with_a_coding_are_hits_without() {
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("credentials");
    write_with_mode(&file, CREDENTIALS, 0o600);
    let origin = free_address();
    let option = format!("credentials_file = \"{}\"", file.display());
    let cache = Cache::start_all(&[("dynamodb", origin, &option)], "");
    let script = format!("{}/tests/clients/dynamodb_gzip.py", env!("CARGO_MANIFEST_DIR"));
    let (address, port) = (cache.address().to_string(), origin.port().to_string());
    let output =
        Command::new(installed("python/bin/python")).args([&script, &address, &port]).output();
    let Ok(output) = output else {
        absent::<()>("boto3 is not installed");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), EXPECTED, "{errors}");
}
