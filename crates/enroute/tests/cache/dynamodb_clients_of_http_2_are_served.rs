//! Clients of HTTP/2 (crate `h2`, and curl) are answered as those of HTTP/1.1, which the origin
//! speaks: with prior knowledge, and over TLS if they offer it.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, SystemTime},
};

use h2::client::{self, SendRequest};
use hyper::{Request, body::Bytes};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    runtime::Runtime,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use wire::{
    http1::{self, head},
    sigv4::{Credentials, Post, Verifier},
};

use crate::support::{
    directory::{TemporaryDirectory, write_with_mode},
    enroute::Cache,
    origins::absent,
    process::PATIENCE,
    raw::Raw,
    secured::{certificates, tls, trusting},
    workshop::Workshop,
};

const CREDENTIALS: &str = "[one]\naws_access_key_id = AKIDONE\naws_secret_access_key = one\n";

/// An origin that answers each request with what it has received, and keeps count.
struct Origin {
    address: SocketAddr,
    stage: Arc<Stage>,
}

#[derive(Default)]
struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    asked: usize,
    hosts: BTreeSet<String>,
    /// Requests of items whose name begins with "wait" are answered after it.
    released: bool,
    waiting: usize,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let stage = Arc::new(Stage::default());
        let theirs = Arc::clone(&stage);
        // They end with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let stage = Arc::clone(&theirs);
                thread::spawn(move || stage.answer(stream));
            }
        });
        Self { address, stage }
    }

    fn asked(&self) -> usize {
        self.stage.state.lock().expect("no panic").asked
    }

    fn waiting(&self) -> usize {
        self.stage.state.lock().expect("no panic").waiting
    }

    fn release(&self) {
        self.stage.state.lock().expect("no panic").released = true;
        self.stage.changed.notify_all();
    }
}

impl Stage {
    fn answer(&self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        loop {
            let limits = http1::Limits::default();
            let request = wire::dynamodb::request::decode(&bytes, &limits).expect("HTTP/1.1");
            let Some((message, taken)) = request else {
                let mut more = [0; 16 << 10];
                match stream.read(&mut more) {
                    Ok(count) if count > 0 => bytes.extend_from_slice(&more[..count]),
                    _ => return,
                }
                continue;
            };
            let body = String::from_utf8(message.body.into_owned()).expect("text");
            let host = message.request.head.one("host").expect("a host").to_vec();
            let mut state = self.state.lock().expect("no panic");
            state.asked += 1;
            state.hosts.insert(String::from_utf8(host).expect("text"));
            if body.contains("wait") {
                state.waiting += 1;
                state = self.changed.wait_while(state, |state| !state.released).expect("no panic");
                state.waiting -= 1;
            }
            let number = state.asked;
            drop(state);
            let more = if body.contains("long") { "x".repeat(900_000) } else { String::new() };
            let key = body.split("\"Key\":").nth(1).map_or("{}", |key| key.trim_end_matches('}'));
            let item = format!(
                "{{\"Item\":{key}}},\"n\":{{\"N\":\"{number}\"}},\"m\":{{\"S\":\"{more}\"}}}}}}"
            );
            let reply = format!(
                "HTTP/1.1 200 OK\r\nServer: origin\r\nContent-Type: application/x-amz-json-1.0\r\n\
                 Content-Length: {}\r\n\r\n{item}",
                item.len()
            );
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
            bytes.drain(..taken);
        }
    }
}

/// A cache with HTTP/2, before an origin.
struct Scene {
    origin: Origin,
    cache: Cache,
    _directory: TemporaryDirectory,
}

impl Scene {
    fn start(scheme: &str, options: &str, top: &str) -> Self {
        let origin = Origin::start();
        let directory = TemporaryDirectory::create();
        let file = directory.path().join("credentials");
        write_with_mode(&file, CREDENTIALS, 0o600);
        let options = format!("credentials_file = \"{}\"\n{options}", file.display());
        let cache = Cache::start_all(&[(scheme, origin.address, &options)], top);
        Self { origin, cache, _directory: directory }
    }

    async fn client(&self) -> SendRequest<Bytes> {
        let stream = tokio::net::TcpStream::connect(self.cache.address()).await;
        shake_hands(stream.expect("it listens")).await
    }

    /// A connection over TLS that offers these protocols.
    async fn secured(
        &self,
        workshop: &Workshop,
        offered: &[&[u8]],
    ) -> TlsStream<tokio::net::TcpStream> {
        let mut config = ClientConfig::clone(&trusting(workshop, "authority", None));
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let stream = tokio::net::TcpStream::connect(self.cache.address()).await;
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream.expect("up")).await;
        stream.expect("TLS")
    }
}

async fn shake_hands(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> SendRequest<Bytes> {
    let (client, connection) = client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    client
}

/// A signed request, and its body.
fn signed(operation: &str, body: &str) -> (Request<()>, Bytes) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let target = format!("DynamoDB_20120810.{operation}");
    let post = Post {
        host: "dynamodb.example:8001",
        target: &target,
        content_type: "application/x-amz-json-1.0",
        body: body.as_bytes(),
        access_key: "AKIDONE",
        region: "eu-central-1",
        service: "dynamodb",
    };
    let credentials = Credentials::parse(CREDENTIALS).expect("valid");
    let mut bytes = Vec::new();
    Verifier::default().write(&post, &credentials, now, &mut bytes).expect("known");
    let signed = head::request(&bytes, &http1::Limits::default()).expect("valid").expect("whole");
    let mut request = Request::post("http://dynamodb.example:8001/");
    for (name, value) in signed.head.headers.iter().filter(|(name, _)| *name != "host") {
        request = request.header(*name, *value);
    }
    (request.body(()).expect("a request"), Bytes::copy_from_slice(body.as_bytes()))
}

fn get(item: &str) -> (Request<()>, Bytes) {
    signed("GetItem", &format!("{{\"TableName\":\"t\",\"Key\":{{\"id\":{{\"S\":\"{item}\"}}}}}}"))
}

/// The body of the reply, and whether the cache has answered.
async fn ask(
    client: &SendRequest<Bytes>,
    (request, body): (Request<()>, Bytes),
) -> Result<(String, bool), h2::Error> {
    let mut client = client.clone().ready().await?;
    let (reply, mut stream) = client.send_request(request, false)?;
    stream.send_data(body, true)?;
    let reply = reply.await?;
    let of_cache = !reply.headers().contains_key("server");
    assert_eq!(reply.status(), 200);
    let (mut body, mut text) = (reply.into_body(), Vec::new());
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        text.extend_from_slice(&part);
    }
    Ok((String::from_utf8(text).expect("text"), of_cache))
}

/// The item of the reply, once the cache has answered.
async fn until_hit(client: &SendRequest<Bytes>, item: &str) -> String {
    let hit = async {
        loop {
            let (reply, of_cache) = ask(client, get(item)).await.expect("a reply");
            assert!(reply.contains(item), "{reply}");
            if of_cache {
                return reply;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, hit).await.expect("a hit")
}

fn run(test: impl Future<Output = ()>) {
    Runtime::new().expect("a runtime").block_on(test);
}

#[test]
fn dynamodb_clients_of_http_2_are_served() {
    let scene = Scene::start("dynamodb", "", "");
    run(async {
        let client = scene.client().await;
        let first = until_hit(&client, "a").await;
        let asked = scene.origin.asked();
        assert_eq!(ask(&client, get("a")).await.expect("a reply"), (first, true));
        assert_eq!(scene.origin.asked(), asked);
        // The same item by another client, and in HTTP/1.1.
        let other = scene.client().await;
        assert!(ask(&other, get("a")).await.expect("a reply").1);
        // A write closes it.
        let key = "{\"TableName\":\"t\",\"Key\":{\"id\":{\"S\":\"a\"}}}";
        assert!(!ask(&other, signed("DeleteItem", key)).await.expect("a reply").1);
        assert!(!ask(&client, get("a")).await.expect("a reply").1);
        let hosts = scene.origin.stage.state.lock().expect("no panic").hosts.clone();
        assert_eq!(hosts, BTreeSet::from(["dynamodb.example:8001".to_owned()]));
    });
}

#[test]
fn http_2_is_chosen_over_tls_if_the_client_offers_it() {
    let Some(workshop) = certificates() else { return };
    let scene = Scene::start("dynamodb", &tls(&workshop), "");
    run(async {
        let stream = scene.secured(&workshop, &[b"http/1.1", b"h2"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        until_hit(&shake_hands(stream).await, "a").await;
        // Without such an offer it is HTTP/1.1.
        for offered in [&[][..], &[&b"http/1.1"[..]]] {
            let mut stream = scene.secured(&workshop, offered).await;
            assert_eq!(stream.get_ref().1.alpn_protocol(), None);
            let request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(request).await.expect("sent");
            let mut reply = [0; 15];
            stream.read_exact(&mut reply).await.expect("a reply");
            assert_eq!(&reply, b"HTTP/1.1 200 OK");
        }
    });
}

#[test]
fn many_streams_of_http_2_get_their_own_replies() {
    let scene = Scene::start("dynamodb", "", "");
    run(async {
        let client = scene.client().await;
        ask(&client, get("first")).await.expect("a reply");
        let asked: Vec<_> = (0..300)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    let item =
                        format!("wait-{number:03}-{}", if number % 50 == 0 { "long" } else { "" });
                    let (reply, _) = ask(&client, get(&item)).await.expect("a reply");
                    assert!(reply.contains(&format!("\"{item}\"")), "{reply:.200}");
                    reply.len()
                })
            })
            .collect();
        let full = async {
            while scene.origin.waiting() < 32 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, full).await.expect("side by side");
        // One that is reset harms no other.
        let (mut reset, other) = (client.clone(), scene.client().await);
        drop(ask(&other, get("other")).await.expect("a reply"));
        reset = reset.ready().await.expect("open");
        scene.origin.release();
        let (request, _) = get("wait-reset");
        let (reply, mut stream) = reset.send_request(request, false).expect("sent");
        stream.send_reset(h2::Reason::CANCEL);
        drop(reply);
        for (number, asked) in asked.into_iter().enumerate() {
            let bytes = asked.await.expect("a reply");
            assert_eq!(bytes > 900_000, number % 50 == 0);
        }
        until_hit(&client, "after").await;
    });
}

/// A client that opens no window for replies takes nothing from others.
#[test]
fn a_client_of_http_2_that_reads_nothing_harms_no_other() {
    let scene = Scene::start("dynamodb", "", "");
    run(async {
        let stream = tokio::net::TcpStream::connect(scene.cache.address()).await;
        let mut builder = client::Builder::new();
        builder.initial_window_size(0);
        let (silent, connection) =
            builder.handshake::<_, Bytes>(stream.expect("it listens")).await.expect("HTTP/2");
        tokio::spawn(connection);
        let mut bodies = Vec::new();
        for number in 0..32 {
            let mut silent = silent.clone().ready().await.expect("open");
            let (request, body) = get(&format!("long-{number}"));
            let (reply, mut stream) = silent.send_request(request, false).expect("sent");
            stream.send_data(body, true).expect("sent");
            bodies.push(reply.await.expect("a reply").into_body());
        }
        let client = scene.client().await;
        until_hit(&client, "a").await;
        let (reply, _) = ask(&client, get("long")).await.expect("a reply");
        assert!(reply.len() > 900_000);
    });
}

#[test]
fn sigterm_lets_requests_of_http_2_be_completed() {
    let scene = Scene::start("dynamodb", "", "");
    let Scene { origin, cache, _directory } = scene;
    let address = cache.address();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let asking = thread::spawn(move || {
        run(async {
            let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
            let client = shake_hands(stream).await;
            begun.send(()).expect("the test waits");
            let (reply, _) = ask(&client, get("wait-for-it")).await.expect("a reply");
            assert!(reply.contains("wait-for-it"));
            // It was told to leave.
            let told = async {
                while client.clone().ready().await.is_ok() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(PATIENCE, told).await.expect("GOAWAY");
        });
    });
    has_begun.recv().expect("it begins");
    while origin.waiting() == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    let ending = thread::spawn(move || cache.terminate());
    thread::sleep(Duration::from_millis(200));
    origin.release();
    asking.join().expect("a reply");
    assert!(ending.join().expect("it ends").status.success());
}

/// A silent client of HTTP/1.1 is not taken for one of HTTP/2, however it begins.
#[test]
fn a_client_that_begins_late_is_one_of_http_1() {
    let scene = Scene::start("dynamodb", "", "");
    let mut client = Raw::connect(scene.cache.address());
    client.say("P");
    thread::sleep(Duration::from_millis(50));
    client.say("OST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}");
    client.hear("HTTP/1.1 200 OK\r\n");
    let mut client = Raw::connect(scene.cache.address());
    client.say("PRI * HTTP/2.0\r\n");
    // After two seconds it is one of HTTP/1.1, and told so.
    thread::sleep(Duration::from_millis(2_500));
    client.say("\r\nSM\r\n\r\n");
    // SETTINGS, then GOAWAY.
    client.hear([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    scene.cache.log_line("HTTP/2 with prior knowledge");
}

#[test]
fn curl_signs_and_speaks_http_2() {
    let version = Command::new("curl").arg("--version").output();
    let can = |output: &std::process::Output| output.stdout.windows(5).any(|word| word == b"HTTP2");
    if !version.as_ref().is_ok_and(can) {
        return absent("curl with HTTP/2 is not installed").unwrap_or_default();
    }
    let scene = Scene::start("dynamodb", "", "");
    let url = format!("http://{}/", scene.cache.address());
    let told = || {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--http2-prior-knowledge", "--include"])
            .args(["--aws-sigv4", "aws:amz:eu-central-1:dynamodb", "--user", "AKIDONE:one"])
            .args(["--header", "Content-Type: application/x-amz-json-1.0"])
            .args(["--header", "X-Amz-Target: DynamoDB_20120810.GetItem"])
            .args(["--data", "{\"TableName\":\"t\",\"Key\":{\"id\":{\"S\":\"a\"}}}", &url])
            .output()
            .expect("curl starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let first = told();
    assert!(first.starts_with("HTTP/2 200") && first.contains("server: origin"), "{first}");
    let started = std::time::Instant::now();
    while told().contains("server: origin") {
        assert!(started.elapsed() < PATIENCE, "no hit");
        thread::sleep(Duration::from_millis(20));
    }
}
