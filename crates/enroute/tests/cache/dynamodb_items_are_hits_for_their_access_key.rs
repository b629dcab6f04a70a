//! boto3 signs, the cache verifies: an item is answered from storage for the access key that read
//! it, until it is written.

use std::process::Command;

use crate::support::{
    directory::{TemporaryDirectory, installed, write_with_mode},
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

const RELOADED: &str = "\
hit of one
removed: hit of one False, of two True
back: hit of one True, of two True
another secret: hit of one False, by the new secret True
mistake 422
mistake: by the new secret True
readable 422
readable: by the new secret True
new key: True
group: hit of two True, of a key outside False
unknown 422
two groups 422
mistakes: hit of one True, of two True
no member: hit of one True
";

#[test]
fn dynamodb_items_are_hits_for_their_access_key() {
    let Some(origin) = DynamoDb::start() else { return };
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("credentials");
    write_with_mode(&file, CREDENTIALS, 0o600);
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

/// And their groups; of clients that stay connected.
#[test]
fn access_keys_are_read_again_on_sighup() {
    let Some(origin) = DynamoDb::start() else { return };
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("credentials");
    write_with_mode(&file, CREDENTIALS, 0o600);
    let option = format!("credentials_file = \"{}\"", file.display());
    let admin = free_address().to_string();
    let top = format!("[admin]\nlisten = \"{admin}\"\n[storage]\nauthorization_lease = \"5min\"\n");
    let cache = Cache::start_all(&[("dynamodb", origin.address(), &option)], &top);
    let script = format!("{}/tests/clients/dynamodb_reload.py", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(installed("python/bin/python"));
    command.args([&script, &cache.address().to_string()]);
    command.args([&file.display().to_string(), &cache.process().id().to_string(), &admin]);
    let Ok(output) = command.output() else {
        absent::<()>("boto3 is not installed");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    let log = cache.process().stderr();
    assert_eq!(String::from_utf8_lossy(&output.stdout), RELOADED, "{errors}\n{log}");
    // A mistake, and a file that others can read, change nothing.
    assert_eq!(log.matches("reload failed").count(), 4, "{log}");
    assert!(!log.contains("guess"), "{log}");
}

#[test]
fn a_file_of_secrets_that_others_can_read_is_refused() {
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("credentials");
    let told = |text: &str, mode: u32| {
        write_with_mode(&file, text, mode);
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
