//! A database that stops replying without closing its connection fails the requests in flight. The
//! next request uses a new connection, and ignores late replies on the old one.

use crate::support::keyserver::runtime;
use keyservice::database::{Database, Place};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use wire::resp::Reply;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Whether a PING arrives before the connection is closed.
async fn hears_ping(stream: &mut TcpStream) -> bool {
    let mut request = [0; PING.len()];
    stream.read_exact(&mut request).await.is_ok_and(|_| request == PING)
}

#[test]
fn a_silent_connection_is_left() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("redis://{}", listener.local_addr().expect("bound"));
        let place = Place::new(address.parse().expect("an address"), None, None).expect("no TLS");
        let database = Database::new(place);

        let (told, mut silent) = tokio::join!(database.ask(&[b"PING"]), async {
            let mut silent = listener.accept().await.expect("a connection").0;
            assert!(hears_ping(&mut silent).await);
            silent
        });
        let told = format!("{:#}", told.expect_err("it is silent"));
        assert!(told.contains("no reply within"), "{told}");

        // The peer may have vanished without closing: nothing more is sent there.
        let (reply, ()) = tokio::join!(database.ask(&[b"PING"]), async {
            // This fails if the connection is closed already.
            let _ = silent.write_all(b"+late\r\n").await;
            assert!(!hears_ping(&mut silent).await, "it asks where it was not answered");
            let mut fresh = listener.accept().await.expect("a connection").0;
            assert!(hears_ping(&mut fresh).await);
            fresh.write_all(b"+fresh\r\n").await.expect("it waits");
        });
        assert_eq!(reply.expect("a reply"), Reply::Bytes(b"fresh".to_vec()));
    });
}
