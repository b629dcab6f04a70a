//! boto3 reads several items at once. Those that are stored are answered by the cache; the origin
//! is asked for the others alone, with a signature that botocore would have made.

use std::{net::SocketAddr, path::PathBuf, process::Command};

use crate::support::{
    directory::{TemporaryDirectory, installed, write_with_mode},
    enroute::Cache,
    origins::{DynamoDb, absent},
    process::free_address,
    secured::{certificates, origin_tls, tls},
};

const CREDENTIALS: &str = "[one]\naws_access_key_id = AKIDONE\naws_secret_access_key = one\n\
                           [two]\naws_access_key_id = AKIDTWO\naws_secret_access_key = two\n";
const EXPECTED: &str = "\
hit ('1=10,2=20',)
two of three ('1=10,2=20,3=30', 1)
with one that is absent ('3=30', 1) ('1=10',)
other key ('1=10,2=20', 2)
projection ('2 without their keys', 2)
projection with the key ('1=10,2=20',) ('2=20,4=40', 1)
consistent ('1=10,2=20', 2)
single 10
after a put ('1=11,2=20', 1) ('1=11,2=20',)
after a deletion ('1=11', 1) ('1=11',)
after the absent one is put ('1=11,9=90', 1) ('1=11,9=90',)
refused ValidationException
refused ResourceNotFoundException
of two tables ('1=11', {'long': 2})
all 48 48 True True
after all ResourceNotFoundException
";

#[test]
fn dynamodb_batches_are_completed_by_the_origin() {
    let Some(server) = DynamoDb::start() else { return };
    told("dynamodb", "", &server, &[]);
}

#[test]
fn dynamodb_batches_are_completed_over_tls_on_both_sides() {
    let Some(workshop) = certificates() else { return };
    let Some(server) = DynamoDb::start() else { return };
    let options = [tls(&workshop), origin_tls(&workshop)].concat();
    let files = ["localhost.pem", "localhost.key", "authority.pem"].map(|name| workshop.path(name));
    told("dynamodbs", &options, &server, &files);
}

/// Runs the script between a cache with these options and the server.
fn told(scheme: &str, options: &str, server: &DynamoDb, files: &[PathBuf]) {
    let directory = TemporaryDirectory::create();
    let credentials = directory.path().join("credentials");
    write_with_mode(&credentials, CREDENTIALS, 0o600);
    let origin: SocketAddr = free_address();
    let options = format!("credentials_file = \"{}\"\n{options}", credentials.display());
    let cache = Cache::start_all(&[(scheme, origin, &options)], "");
    let script = format!("{}/tests/clients/dynamodb_batches.py", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(installed("python/bin/python"))
        .arg(script)
        .arg(cache.address().to_string())
        .arg(origin.port().to_string())
        .arg(server.address().to_string())
        .args(files)
        .output();
    let Ok(output) = output else {
        absent::<()>("boto3 is not installed");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), EXPECTED, "{errors}");
    assert!(cache.hits() > 20.0);
}
