//! pymongo, redis-py and pymemcache: the same script prints the same directly and through the
//! cache.

use std::net::SocketAddr;
use std::process::Command;

use crate::support::directory::{installed, python};
use crate::support::enroute::{Cache, Enroute};
use crate::support::origins::{Memcached, Mongo, Redis, absent};
use crate::support::secured::{certificates, origin_tls, redis, tls};

#[test]
fn redis_py() {
    let (Some(direct), Some(behind)) = (Redis::start(), Redis::start()) else { return };
    let cache = Cache::start("redis", behind.address(), "");
    compare("redis_conformance.py", direct.address(), &cache, &[], &[]);
}

#[test]
fn redis_py_with_tls_to_the_cache_and_to_the_origin() {
    let (Some(workshop), Some(direct)) = (certificates(), Redis::start()) else { return };
    let Some((_behind, address)) = redis(&workshop, "localhost", false) else { return };
    let options = [tls(&workshop), origin_tls(&workshop)].concat();
    let cache = Cache::start_all(&[("rediss", address, &options)], "");
    let authority = workshop.path("authority.pem").display().to_string();
    compare("redis_conformance.py", direct.address(), &cache, &[], &[&authority]);
}

#[test]
fn pymongo_with_tls_to_the_cache() {
    let (Some(direct), Some(behind)) = (Mongo::start_java(), Mongo::start_java()) else { return };
    let Some(workshop) = certificates() else { return };
    let cache = Cache::start_all(&[("mongodb", behind.address(), &tls(&workshop))], "");
    let authority = workshop.path("authority.pem").display().to_string();
    compare("mongo_conformance.py", direct.address(), &cache, &[""], &[&authority]);
}

#[test]
fn pymongo_with_ferretdb() {
    let (Some(direct), Some(behind)) = (Mongo::start_ferretdb(), Mongo::start_ferretdb()) else {
        return;
    };
    let cache = Cache::start("mongodb", behind.address(), "");
    compare("mongo_conformance.py", direct.address(), &cache, &[""], &[]);
}

#[test]
fn pymongo_with_mongo_java_offering_compression() {
    let (Some(direct), Some(behind)) = (Mongo::start_java(), Mongo::start_java()) else { return };
    let cache = Cache::start("mongodb", behind.address(), "");
    compare("mongo_conformance.py", direct.address(), &cache, &["zstd,zlib,snappy"], &[]);
}

#[test]
fn pymongo_before_an_origin_with_tls() {
    let (Some(direct), Some(behind)) = (Mongo::start_java(), Mongo::start_java()) else { return };
    let Some(workshop) = certificates() else { return };
    // The origin with TLS is another cache.
    let inner = Cache::start_all(&[("mongodb", behind.address(), &tls(&workshop))], "");
    let outer = Enroute::start_with_config(
        &["cache"],
        &format!(
            "[[listener]]\nlisten = \"mongodb://127.0.0.1:0\"\n\
             origin = \"mongodb://localhost:{}/?tls=true&tlsCAFile={}\"\n",
            inner.address().port(),
            workshop.path("authority.pem").display()
        ),
    );
    let script = "mongo_conformance.py";
    let Some(expected) = run(script, direct.address(), &[""]) else { return };
    let told = run(script, outer.listen_address("mongodb"), &[""]).expect("it ran before");
    assert_eq!(told, expected);
    outer.stderr_line("(TLS)");
}

#[test]
fn pymemcache() {
    if !has_pymemcache() {
        return;
    }
    let (Some(direct), Some(behind)) = (Memcached::start(), Memcached::start()) else { return };
    let cache = Cache::start("memcached", behind.address(), "");
    compare("memcached_conformance.py", direct.address(), &cache, &[], &[]);
}

#[test]
fn pymemcache_before_three_servers() {
    let Some(direct) = Memcached::start().filter(|_| has_pymemcache()) else { return };
    let servers: Vec<_> = (0..3).map_while(|_| Memcached::start()).collect();
    let names: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let cache = Cache::start("memcached", names.join(","), "");
    compare("memcached_conformance.py", direct.address(), &cache, &["several"], &[]);
}

fn has_pymemcache() -> bool {
    let found = Command::new(installed("python/bin/python"))
        .args(["-c", "import pymemcache"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        absent::<()>("pymemcache is not installed");
    }
    found
}

/// The client of the cache gets additional arguments.
fn compare(script: &str, direct: SocketAddr, cache: &Cache, arguments: &[&str], more: &[&str]) {
    let Some(expected) = run(script, direct, arguments) else { return };
    let arguments = [arguments, more].concat();
    let told = run(script, cache.address(), &arguments).expect("it ran before");
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
    let path = format!("{}/tests/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python()?)
        .args([path, address.to_string()])
        .args(arguments)
        .output()
        .expect("python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} at {address}: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
