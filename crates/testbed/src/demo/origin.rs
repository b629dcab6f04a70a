//! The embedded origin: a database of a hundred phrases with the part of the MongoDB protocol that
//! the demo uses.
//!
//! Tests do not use it: they run against real servers (`origins/`).

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use wire::mongo::{
    bson::Writer,
    frame::{self, Limits},
    request::Request,
    response,
};

use super::KEYS;

/// A listening origin; its threads end with the process.
pub(super) struct Origin {
    address: SocketAddr,
    finds: Arc<AtomicU64>,
}

impl Origin {
    pub(super) fn start() -> io::Result<Self> {
        let socket = super::listen_locally()?;
        let address = socket.local_addr()?;
        let finds = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&finds);
        thread::Builder::new().name("origin".into()).spawn(move || {
            for client in socket.incoming().flatten() {
                let finds = Arc::clone(&counted);
                let serve = move || {
                    // A client that disconnects ends only its own thread.
                    let _ = serve(client, &finds);
                };
                let _ = thread::Builder::new().name("origin".into()).spawn(serve);
            }
        })?;
        Ok(Self { address, finds })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of `find` commands received.
    pub(super) fn finds(&self) -> u64 {
        self.finds.load(Relaxed)
    }
}

fn serve(mut client: TcpStream, finds: &AtomicU64) -> anyhow::Result<()> {
    client.set_nodelay(true)?;
    let (mut buffer, mut filled) = (vec![0; 64 << 10], 0);
    loop {
        let read = client.read(&mut buffer[filled..])?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
        let mut taken = 0;
        while let Some((frame, length)) = frame::decode(&buffer[taken..filled], &Limits::default())?
        {
            if let Some(request) = Request::parse(&frame)? {
                finds.fetch_add(u64::from(request.name == "find"), Relaxed);
                let mut reply = Vec::new();
                let body = answer(&request)?;
                let write = if request.legacy { response::legacy_reply } else { response::reply };
                write(&mut reply, 0, request.header.request_id, &body);
                client.write_all(&reply)?;
            }
            taken += length;
        }
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
    }
}

fn answer(request: &Request<'_>) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    let key = match request.name {
        "find" => request.body.element("filter")?.and_then(|filter| filter.document()),
        _ => None,
    };
    let key = match key {
        Some(filter) => filter.element("_id")?.and_then(|id| id.integer()),
        None => None,
    };
    Writer::write(&mut body, |reply| {
        match request.name {
            "find" => cursor(reply, "demo.randomPhrases", |batch| {
                if let Some(key) = key.filter(|key| (1..=i64::from(KEYS)).contains(key)) {
                    batch.push(|document, name| {
                        document.nested(name, |document| {
                            document.i64("_id", key);
                            document.str("phrase", &phrase(key));
                        });
                    });
                }
            }),
            "listCollections" => cursor(reply, "demo.$cmd.listCollections", |batch| {
                batch.push(|document, name| {
                    document.nested(name, |document| {
                        document.str("name", "randomPhrases");
                        document.str("type", "collection");
                    });
                });
            }),
            "hello" | "isMaster" | "ismaster" => {
                reply.bool("isWritablePrimary", true);
                reply.bool("ismaster", true);
                reply.i32("maxBsonObjectSize", 16 << 20);
                reply.i32("maxMessageSizeBytes", 48_000_000);
                reply.i32("maxWriteBatchSize", 100_000);
                reply.i32("minWireVersion", 0);
                reply.i32("maxWireVersion", 21);
            }
            _ => {}
        }
        reply.f64("ok", 1.0);
    });
    Ok(body)
}

fn cursor(
    reply: &mut Writer<'_>,
    namespace: &str,
    batch: impl FnOnce(&mut wire::mongo::bson::ArrayWriter<'_, '_>),
) {
    reply.nested("cursor", |cursor| {
        cursor.array("firstBatch", batch);
        cursor.i64("id", 0);
        cursor.str("ns", namespace);
    });
}

/// The phrase under `key`: the same in every run, with the length of the paper's phrases.
pub(super) fn phrase(key: i64) -> String {
    const WORDS: [&str; 8] =
        ["river", "window", "seven", "copper", "north", "paper", "quiet", "signal"];
    let mut number = key as usize * 2_654_435_761;
    let mut word = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        WORDS[(number >> 60) % WORDS.len()]
    };
    (0..12).map(|_| word()).collect::<Vec<_>>().join(" ")
}
