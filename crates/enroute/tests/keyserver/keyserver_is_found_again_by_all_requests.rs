//! While the key server is unreachable, one request tries to connect and the others fail at once.
//! After a success, requests that arrive while a connection is being made wait for it.

use std::{future::poll_fn, net::SocketAddr, pin::pin, task::Poll};

use crate::support::keyserver::{Site, request, runtime};
use keyservice::{Client, ClientConfiguration};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use wire::ski::Scheme;

/// Relays between edge and key server until it is aborted.
fn join(mut edge: TcpStream, server: SocketAddr) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut server = TcpStream::connect(server).await.expect("a key server");
        // In whatever way it ends.
        let _ = copy_bidirectional(&mut edge, &mut server).await;
    })
}

#[test]
fn one_looks_for_it_and_then_all_wait() {
    let Some(site) = Site::create() else { return };
    site.key("one", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    let request = request(&site.import("one", &[]), Scheme::EcdsaP256Sha256);
    let server = site.serve(&[]);
    runtime().block_on(async {
        let place = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = place.local_addr().expect("bound").to_string();
        let configuration = ClientConfiguration { address, ..site.configuration(&server, 1) };
        let client = Client::new(configuration).expect("certificates");
        let ask = || {
            let (client, request) = (client.clone(), request.clone());
            tokio::spawn(async move { client.ask(&request).await })
        };
        let connected = async || place.accept().await.expect("a connection").0;
        // The first request has failed.
        let first = ask();
        let _silent = connected().await;
        first.abort();
        assert!(first.await.is_err_and(|error| error.is_cancelled()));
        let search = ask();
        let found = connected().await;
        let told = client.ask(&request).await.expect_err("it is being looked for").to_string();
        assert!(told.contains("the last attempt failed"), "{told}");
        let joined = join(found, server.address);
        search.await.expect("no panic").expect("a signature");

        // The connection breaks; the next attempt is not delayed by a failed one.
        joined.abort();
        let search = ask();
        let found = connected().await;
        let mut next = pin!(client.ask(&request));
        let told = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await;
        assert!(told.is_pending(), "the request does not wait: {told:?}");
        join(found, server.address);
        search.await.expect("no panic").expect("a signature");
        next.await.expect("a signature");
    });
}
