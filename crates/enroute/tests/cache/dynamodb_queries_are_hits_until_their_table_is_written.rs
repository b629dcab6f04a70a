//! boto3 reads pages of a table: by the exact parameters they are hits, until anything of the table
//! is written.

use std::process::Command;

use crate::support::{
    directory::{TemporaryDirectory, installed},
    dynamodb_history::access_key,
    enroute::Cache,
    origins::{DynamoDb, absent},
};

const EXPECTED: &str = "\
query ('1,2,3', None)
index ('2,3', None)
scan ('1,2,3', None)
spelled ('2,3', True)
consistent ('1,2,3', False)
capacity ('1,2,3', False)
off ('1,2,3', False) ('1,2,3', False)
pages 1,2 2 ('3', None)
after a put ('2,3,1', False) ('1,2,3', False)
index ('2,3,1', None)
after one through the other listener ('2,3', False)
index ('2,3', None)
refused ConditionalCheckFailedException ('2,3', True)
after a statement ('3', False)
refused ValidationException
index ('3', None)
older [] hits True
";

#[test]
fn dynamodb_queries_are_hits_until_their_table_is_written() {
    let Some(origin) = DynamoDb::start() else { return };
    let directory = TemporaryDirectory::create();
    let with = access_key(&directory);
    let without = with.replace("cache_queries = true", "");
    let at = origin.address();
    let top = "[storage]\nauthorization_lease = \"5min\"\n";
    let cache = Cache::start_all(&[("dynamodb", at, &with), ("dynamodb", at, &without)], top);
    let script = format!("{}/tests/clients/dynamodb_queries.py", env!("CARGO_MANIFEST_DIR"));
    let addresses = cache.addresses().iter().map(ToString::to_string);
    let output = Command::new(installed("python/bin/python")).arg(script).args(addresses).output();
    let Ok(output) = output else {
        absent::<()>("boto3 is not installed");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), EXPECTED, "{errors}");
}
