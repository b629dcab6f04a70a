//! The traffic between edge and key server: a request is one TLS record, and the first of many
//! replies are sent before the last is signed.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use crate::support::keyserver::{Site, request, runtime};
use keyservice::{Client, ClientConfiguration};
use wire::ski::Scheme;

/// Maximum number of signatures that a key server makes before it sends the replies.
const TURNS: usize = 32;
/// TLS record type of application data.
const APPLICATION_DATA: u8 = 23;

/// A relay between an edge and `server` that counts records.
struct Relay {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
}

impl Relay {
    /// For one connection. It ends with the test process.
    fn start(server: SocketAddr) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let relay = Self {
            address: socket.local_addr().expect("bound"),
            asked: Arc::default(),
            answered: Arc::default(),
        };
        let (asked, answered) = (Arc::clone(&relay.asked), Arc::clone(&relay.answered));
        thread::spawn(move || {
            let (edge, _) = socket.accept().expect("an edge");
            let server = TcpStream::connect(server).expect("a key server");
            let both = (edge.try_clone().expect("another"), server.try_clone().expect("another"));
            thread::spawn(move || pass(server, edge, &answered));
            pass(both.0, both.1, &asked);
        });
        relay
    }
}

/// Forwards records until one side closes.
fn pass(mut from: TcpStream, mut to: TcpStream, count: &AtomicUsize) -> Option<()> {
    to.set_nodelay(true).ok()?;
    loop {
        let mut head = [0; 5];
        from.read_exact(&mut head).ok()?;
        let mut record = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        from.read_exact(&mut record).ok()?;
        count.fetch_add(usize::from(head[0] == APPLICATION_DATA), SeqCst);
        to.write_all(&[&head[..], &record].concat()).ok()?;
    }
}

#[test]
fn a_request_is_one_record_and_answers_leave_in_turn() {
    let Some(site) = Site::create() else { return };
    site.key("one", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    let request = request(&site.import("one", &[]), Scheme::EcdsaP256Sha256);
    let server = site.serve(&["--workers", "1"]);
    let relay = Relay::start(server.address);
    let relayed = ClientConfiguration {
        address: relay.address.to_string(),
        ..site.configuration(&server, 1)
    };
    let (runtime, client) = (runtime(), Client::new(relayed).expect("certificates"));
    let ask = async || client.ask(&request).await.expect("a signature");
    runtime.block_on(async {
        // The connection is established, and everything that is sent only once was sent.
        for _ in 0..5 {
            ask().await;
        }
        let before = relay.asked.load(SeqCst);
        for _ in 0..50 {
            ask().await;
        }
        let records = relay.asked.load(SeqCst) - before;
        // A few records belong to the connection itself.
        assert!((50..60).contains(&records), "{records} records for 50 requests");

        let before = relay.answered.load(SeqCst);
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..20 * TURNS {
            let (client, request) = (client.clone(), request.clone());
            all.spawn(async move { client.ask(&request).await.expect("a signature") });
        }
        all.join_all().await;
        let records = relay.answered.load(SeqCst) - before;
        assert!(records >= 20, "{records} records for {} answers", 20 * TURNS);
    });
}
