//! RSA operations are queued; ECDSA operations that arrive later on the same connection do not wait
//! for them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use crate::support::keyserver::{Site, request, runtime};
use crate::support::process::until;
use keyservice::{Client, ClientError as Error};
use wire::ski::{Request, Scheme};

/// At more than a millisecond each, they take far longer than all ECDSA operations.
const RSA_REQUESTS: usize = 100;
const ECDSA_REQUESTS: usize = 5;
/// Few enough to be answered well within the drain timeout of a key server.
const OUTSTANDING: usize = 30;
/// Maximum number of attempts: on a busy machine a thread may wake very late.
const TRIES: usize = 10;

#[test]
fn ecdsa_overtakes_rsa() {
    let Some(site) = Site::create() else { return };
    site.key("ecdsa", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    site.key("rsa", "-algorithm RSA -pkeyopt rsa_keygen_bits:4096");
    let ecdsa = request(&site.import("ecdsa", &[]), Scheme::EcdsaP256Sha256);
    let rsa = request(&site.import("rsa", &[]), Scheme::RsaPssSha256);
    let server = site.serve(&["--workers", "1", "--slow-workers", "1"]);
    let (runtime, client) = (runtime(), site.client(&server, 1));
    runtime.block_on(async {
        // Both keys are parsed.
        for request in [&ecdsa, &rsa] {
            client.ask(request).await.expect("a signature");
        }
    });
    // If ECDSA had to wait for RSA, it would never be first.
    let overtakes = |_| runtime.block_on(is_overtaken(&client, &rsa, &ecdsa));
    assert!((0..TRIES).any(overtakes), "ECDSA was answered after all of RSA");
}

/// A key server that is stopped completes the operations that it has accepted.
#[test]
fn what_was_asked_before_the_end_is_answered() {
    let Some(site) = Site::create() else { return };
    site.key("rsa", "-algorithm RSA -pkeyopt rsa_keygen_bits:4096");
    let rsa = request(&site.import("rsa", &[]), Scheme::RsaPssSha256);
    let all = |_| all_are_answered(&site, &rsa);
    assert!((0..TRIES).any(all), "a request was not answered, in each of {TRIES} attempts");
}

/// Whether a stopped server answered all outstanding requests. On a busy machine it may not: a
/// request that is sent late finds no server, and one that waits too long is dropped.
fn all_are_answered(site: &Site, rsa: &Request) -> bool {
    let server = site.serve(&["--workers", "1", "--slow-workers", "1"]);
    let (runtime, client) = (runtime(), site.client(&server, 1));
    let all = runtime.block_on(async {
        client.ask(rsa).await.expect("a signature");
        let mut flood = tokio::task::JoinSet::new();
        for _ in 0..OUTSTANDING {
            let (client, rsa) = (client.clone(), rsa.clone());
            flood.spawn(async move { client.ask(&rsa).await });
        }
        // When one is answered most have arrived: they were sent at once.
        flood.join_next().await.expect("some").expect("no panic").expect("a signature");
        server.process().signal("TERM");
        let mut all = true;
        while let Some(ended) = flood.join_next().await {
            match ended.expect("no panic") {
                Ok(_) => {}
                Err(Error::Unreachable { .. } | Error::TimedOut(_)) => all = false,
                Err(error) => panic!("{error}"),
            }
        }
        all
    });
    until("it has ended", || server.process().has_ended());
    all
}

/// Whether RSA operations were still running when all ECDSA requests, sent later, were answered.
async fn is_overtaken(client: &Client, rsa: &Request, ecdsa: &Request) -> bool {
    let answered = Arc::new(AtomicUsize::new(0));
    let mut flood = tokio::task::JoinSet::new();
    for _ in 0..RSA_REQUESTS {
        let (client, rsa, answered) = (client.clone(), rsa.clone(), Arc::clone(&answered));
        flood.spawn(async move {
            client.ask(&rsa).await.expect("a signature");
            answered.fetch_add(1, SeqCst);
        });
    }
    // When one is answered all have arrived: they were sent at once.
    flood.join_next().await.expect("some").expect("a signature");
    for _ in 0..ECDSA_REQUESTS {
        client.ask(ecdsa).await.expect("a signature");
    }
    let overtaken = RSA_REQUESTS - answered.load(SeqCst);
    while let Some(ended) = flood.join_next().await {
        ended.expect("a signature");
    }
    assert_eq!(answered.load(SeqCst), RSA_REQUESTS);
    overtaken > 0
}
