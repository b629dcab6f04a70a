//! boto3 writes at DynamoDB Local and reads through the cache: a write that bypasses the cache is
//! seen, because the streams of the tables report it; while they are not read, nothing is served.

use std::{net::SocketAddr, process::Command};

use testbed::link::{Relay, RelayConfig};

use crate::support::{
    directory::{TemporaryDirectory, installed},
    dynamodb_history::with_feed,
    dynamodb_streams::{Fault, Streams},
    enroute::Cache,
    origins::{DynamoDb, absent},
    process::until,
};

/// What the script prints; `None` if it is not installed.
fn run(cache: &Cache, origin: SocketAddr, what: &str) -> Option<String> {
    let script = format!("{}/tests/clients/dynamodb_feed.py", env!("CARGO_MANIFEST_DIR"));
    let (address, origin) = (cache.address().to_string(), origin.to_string());
    let python = installed("python/bin/python");
    let Ok(output) = Command::new(python).args([&script, &address, &origin, what]).output() else {
        return absent("boto3 is not installed");
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}\n{}", cache.process().stderr());
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn writes_around_the_dynamodb_cache_are_seen_through_the_feed() {
    let Some(origin) = DynamoDb::start() else { return };
    let directory = TemporaryDirectory::create();
    let options = with_feed(&directory, None) + "\ninclude = [\"orders\", \"plain\", \"missing\"]";
    let cache = Cache::start_all(&[("dynamodb", origin.address(), &options)], "");
    cache.log_line("5s (feed, and the delay of its streams, which DynamoDB does not state;");
    let told = cache.log_line("reads of table missing are forwarded");
    assert!(told.contains("aws dynamodb update-table --table-name missing"), "{told}");
    let Some(told) = run(&cache, origin.address(), "writes") else { return };
    let expected = "seen\n\
                    without a stream, and of another region [('0', False), ('101', False)]\n\
                    still a hit ('101', True)\n";
    assert_eq!(told, expected);
    cache.log_line(
        "reads of table plain are forwarded and nothing of it is cached: it has no stream",
    );
    let statistics = cache.statistics();
    assert!(statistics["why-not.excluded"] >= 40.0, "{statistics:?}");
    let told = run(&cache, origin.address(), "streams").expect("installed");
    assert!(told.contains("without a stream {('3', False)}\nwith another stream\n"), "{told}");
    assert!(cache.terminate().status.success());
}

#[test]
fn a_cut_and_a_restart_of_dynamodb_lose_nothing_unseen() {
    let Some(mut origin) = DynamoDb::start() else { return };
    let directory = TemporaryDirectory::create();
    let relay = Relay::start(RelayConfig::new(origin.address())).expect("a relay");
    let options = with_feed(&directory, None);
    let cache = Cache::start_all(&[("dynamodb", relay.local_addr(), &options)], "");
    if run(&cache, origin.address(), "store").is_none() {
        return;
    }
    relay.cut();
    cache.log_line("feed lost, nothing is cached");
    relay.restore();
    run(&cache, origin.address(), "replace");
    origin.bring_down();
    let told = run(&cache, origin.address(), "down").expect("installed");
    assert_eq!(told, "still unavailable True\n");
    origin.bring_up();
    let told = run(&cache, origin.address(), "restarted").expect("installed");
    let expected = "ResourceNotFoundException\nan item of before (None, False)\n";
    assert_eq!(told, expected);
}

/// What DynamoDB Local does not do: its iterators do not expire, and it keeps its records.
#[test]
fn expired_iterators_and_lost_records_lose_no_write() {
    for fault in [Fault::Expires, Fault::Trims] {
        let Some(origin) = DynamoDb::start() else { return };
        let streams = Streams::start(origin.address(), fault);
        let directory = TemporaryDirectory::create();
        let options = with_feed(&directory, Some(streams.address));
        let cache = Cache::start_all(&[("dynamodb", origin.address(), &options)], "");
        if run(&cache, origin.address(), "store").is_none() {
            return;
        }
        streams.arm();
        run(&cache, origin.address(), "replace");
        until("the fault has occurred", || streams.is_spent());
        assert_eq!(streams.dropped() > 0, fault == Fault::Trims);
    }
}
