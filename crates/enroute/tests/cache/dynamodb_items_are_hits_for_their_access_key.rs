//! boto3 signs, the cache verifies: an item is answered from storage for the access key that read
//! it, until it is written.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use crate::support::{
    directory::{TemporaryDirectory, installed},
    enroute::{Cache, Enroute},
    origins::{DynamoDb, absent},
    process::free_address,
};

const CREDENTIALS: &str = "[one]\naws_access_key_id = AKIDONE\naws_secret_access_key = one\n\
                           [two]\naws_access_key_id = AKIDTWO\naws_secret_access_key = two\n";
const EXPECTED: &str = "\
hit 1
hit by another spelling ('1', True)
consistent ('1', False)
forged ('1', False)
with a token ('1', False)
other key ('1', False)
hit of the other key 1
projection 1
after a put ('2', False) ('2', False) ('2', False)
hit 2
refused ConditionalCheckFailedException
after a refused put ('2', True)
after an update ('4', False)
hit 4
after a batch (None, False)
hit None
after a transaction ('5', False)
hit 5
after a statement ('6', False)
hit 6
after all ResourceNotFoundException
";

#[test]
fn dynamodb_items_are_hits_for_their_access_key() {
    let Some(origin) = DynamoDb::start() else { return };
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("credentials");
    write(&file, CREDENTIALS, 0o600);
    let option = format!("credentials_file = \"{}\"", file.display());
    let cache = Cache::start_all(&[("dynamodb", origin.address(), &option)], "");
    cache.log_line("(no feed: the bound is `ttl`)");
    let script = format!("{}/tests/clients/dynamodb_hits.py", env!("CARGO_MANIFEST_DIR"));
    let address = cache.address().to_string();
    let output = Command::new(installed("python/bin/python")).args([&script, &address]).output();
    let Ok(output) = output else {
        absent::<()>("boto3 is not installed");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), EXPECTED, "{errors}");
    assert_eq!(cache.hits(), 10.0);
}

#[test]
fn a_file_of_secrets_that_others_can_read_is_refused() {
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("credentials");
    let told = |text: &str, mode: u32| {
        write(&file, text, mode);
        let listen = ["--listen", "dynamodb://127.0.0.1:0"];
        let origin = format!("dynamodb://{}", free_address());
        let file = file.display().to_string();
        let more = ["--origin", &origin, "--credentials-file", &file];
        let ended = Enroute::start(&[&["cache"], &listen[..], &more[..]].concat()).wait();
        assert!(!ended.status.success());
        ended.stderr
    };
    let stderr = told(CREDENTIALS, 0o644);
    assert!(stderr.contains("chmod 600"), "{stderr}");
    let stderr = told("[one]\naws_secret_access_key = hidden\n", 0o600);
    assert!(stderr.contains("profile `one`") && !stderr.contains("hidden"), "{stderr}");
}

fn write(file: &Path, text: &str, mode: u32) {
    fs::write(file, text).expect("a writable directory");
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("its owner");
}
