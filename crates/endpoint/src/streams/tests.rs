//! A client of HTTP/2 (crate `h2`) and a service of HTTP/1.1 (hyper) in one process.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, time::Duration};

use h2::{
    Reason,
    client::{self, SendRequest},
};
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::UnixStream,
    sync::Notify,
    task::{JoinHandle, LocalSet, spawn_local},
    time::{sleep, timeout},
};

use super::{Limits, serve};

/// Longer than any condition takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the service has seen.
#[derive(Default)]
struct Seen {
    /// Connections that were opened, and those that are open.
    opened: usize,
    open: usize,
    /// Requests: method, target, Host and body.
    requests: Vec<String>,
    /// Headers of the last request.
    headers: BTreeSet<String>,
    /// Requests that are being answered.
    under_way: usize,
    under_way_max: usize,
    /// No connection can be opened.
    full: bool,
}

/// A service, and a client of it.
#[derive(Clone, Default)]
struct Stage {
    seen: Rc<RefCell<Seen>>,
    /// `/wait` is answered after it.
    go_on: Rc<Notify>,
    end: Rc<Notify>,
}

impl Stage {
    /// The end of a new connection to the service.
    fn open(&self) -> std::io::Result<UnixStream> {
        if self.seen.borrow().full {
            return Err(std::io::ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = UnixStream::pair()?;
        let stage = self.clone();
        {
            let mut seen = self.seen.borrow_mut();
            (seen.opened, seen.open) = (seen.opened + 1, seen.open + 1);
        }
        spawn_local(async move {
            let asked = stage.clone();
            let answer = service_fn(move |request| asked.clone().answer(request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(theirs), answer).await;
            stage.seen.borrow_mut().open -= 1;
        });
        Ok(ours)
    }

    async fn answer(self, request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
        let _under_way = UnderWay::begin(&self.seen);
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let host = head.headers["host"].to_str().expect("text");
        let line = format!("{} {} {host} {}", head.method, head.uri, body.escape_ascii());
        let headers = head.headers.iter().map(|(name, value)| format!("{name}: {value:?}"));
        self.seen.borrow_mut().headers = headers.collect();
        self.seen.borrow_mut().requests.push(line.clone());
        let answer = match head.uri.path() {
            "/wait" => {
                self.go_on.notified().await;
                line.into_bytes()
            }
            "/long" => vec![b'x'; 8 << 20],
            _ => line.into_bytes(),
        };
        let mut reply = Response::new(Full::new(answer.into()));
        if head.uri.path() == "/close" {
            reply.headers_mut().insert("connection", "close".parse().expect("a value"));
        }
        reply.headers_mut().insert("keep-alive", "timeout=5".parse().expect("a value"));
        Ok(reply)
    }

    /// The bytes of a client, and what becomes of its connection.
    fn connect(&self, limits: &Limits) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
        let (ours, theirs) = duplex(256 << 10);
        let (stage, limits) = (self.clone(), limits.clone());
        let served = spawn_local(async move {
            let end = Rc::clone(&stage.end);
            let open = move || stage.open();
            serve(TokioIo::new(theirs), &limits, open, end.notified()).await
        });
        (ours, served)
    }

    /// A client, and what becomes of its connection.
    async fn client(&self, limits: &Limits) -> (SendRequest<Bytes>, JoinHandle<hyper::Result<()>>) {
        let (stream, served) = self.connect(limits);
        let (client, connection) = client::handshake(stream).await.expect("HTTP/2");
        spawn_local(connection);
        (client, served)
    }

    async fn until(&self, holds: impl Fn(&Seen) -> bool) {
        let waited = async {
            while !holds(&self.seen.borrow()) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, waited).await.expect("it holds in time");
    }
}

/// A request that the service is answering.
struct UnderWay(Rc<RefCell<Seen>>);

impl UnderWay {
    fn begin(seen: &Rc<RefCell<Seen>>) -> Self {
        let mut now = seen.borrow_mut();
        now.under_way += 1;
        now.under_way_max = now.under_way_max.max(now.under_way);
        Self(Rc::clone(seen))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.borrow_mut().under_way -= 1;
    }
}

/// The body of the reply to a request, or why there is none.
async fn ask(
    client: &SendRequest<Bytes>,
    request: Request<()>,
    body: &'static [u8],
) -> Result<String, h2::Error> {
    let mut client = client.clone().ready().await?;
    let (reply, mut stream) = client.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(Bytes::from_static(body), true)?;
    }
    let reply = reply.await?;
    let about_connections = ["connection", "keep-alive", "transfer-encoding", "upgrade"];
    assert!(about_connections.iter().all(|name| !reply.headers().contains_key(*name)));
    let (mut body, mut text) = (reply.into_body(), Vec::new());
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        text.extend_from_slice(&part);
    }
    Ok(String::from_utf8(text).expect("text"))
}

fn post(uri: &str) -> Request<()> {
    Request::post(uri).body(()).expect("a request")
}

fn staged<T>(test: impl AsyncFn(Stage) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), test(Stage::default()))
}

/// Waits until a client has been told to leave: it may be gone before the last of it is sent.
async fn ended(served: JoinHandle<hyper::Result<()>>) {
    let _in_order = timeout(PATIENCE, served).await.expect("it ends").expect("no panic");
}

/// Why a stream was reset.
fn reason(result: Result<String, h2::Error>) -> Option<Reason> {
    result.expect_err("it is reset").reason()
}

#[test]
fn a_request_continues_in_http_1_with_its_headers() {
    staged(async |stage| {
        let (client, _) = stage.client(&Limits::default()).await;
        let mut request = post("http://Dynamo.example:8001/?a=b");
        request.headers_mut().insert("x-amz-date", "20150830T123600Z".parse().expect("a value"));
        request.headers_mut().insert("te", "trailers".parse().expect("a value"));
        request.headers_mut().insert("content-length", "4".parse().expect("a value"));
        let reply = ask(&client, request, b"body").await.expect("a reply");
        assert_eq!(reply, "POST /?a=b Dynamo.example:8001 body");
        let expected = [
            "content-length: \"4\"",
            "host: \"Dynamo.example:8001\"",
            "x-amz-date: \"20150830T123600Z\"",
        ];
        let headers = stage.seen.borrow().headers.clone();
        assert_eq!(headers, expected.map(str::to_owned).into());
        // A body without a length, and one that is empty.
        let reply = ask(&client, post("http://a/"), b"chunk").await.expect("a reply");
        assert_eq!(reply, "POST / a chunk");
        assert_eq!(ask(&client, post("http://a/"), b"").await.expect("a reply"), "POST / a ");
        let head = Request::head("http://a/").body(()).expect("a request");
        assert_eq!(ask(&client, head, b"").await.expect("a reply"), "");
        // One after another: all on one connection.
        assert_eq!(stage.seen.borrow().opened, 1);
    });
}

#[test]
fn a_connection_that_the_service_has_ended_is_not_used_again() {
    staged(async |stage| {
        let (client, _) = stage.client(&Limits::default()).await;
        for opened in 1..=3 {
            let reply = ask(&client, post("http://a/close"), b"").await.expect("a reply");
            assert_eq!(reply, "POST /close a ");
            stage.until(|seen| (seen.opened, seen.open) == (opened, 0)).await;
        }
    });
}

#[test]
fn a_host_is_stated_once() {
    staged(async |stage| {
        let (client, _) = stage.client(&Limits::default()).await;
        let with_host = |host: &str| {
            let mut request = post("http://a:1/");
            request.headers_mut().insert("host", host.parse().expect("a value"));
            request
        };
        assert_eq!(ask(&client, with_host("a:1"), b"").await.expect("a reply"), "POST / a:1 ");
        let other = ask(&client, with_host("b:1"), b"").await;
        assert_eq!(reason(other), Some(Reason::PROTOCOL_ERROR));
        let user = ask(&client, post("http://user@a:1/"), b"").await;
        assert_eq!(reason(user), Some(Reason::PROTOCOL_ERROR));
        let connect = Request::builder().method(Method::CONNECT).uri("a:1");
        let connect = ask(&client, connect.body(()).expect("a request"), b"").await;
        assert_eq!(reason(connect), Some(Reason::PROTOCOL_ERROR));
        assert_eq!(stage.seen.borrow().requests.len(), 1);
    });
}

#[test]
fn streams_are_answered_side_by_side_up_to_the_limit() {
    staged(async |stage| {
        let limits = Limits { streams_max: 5, ..Limits::default() };
        let (client, _) = stage.client(&limits).await;
        // The client knows the limit after a first reply.
        ask(&client, post("http://a/"), b"").await.expect("a reply");
        let asked = (0..40).map(|number| {
            let client = client.clone();
            spawn_local(async move {
                let request = post(&format!("http://a/wait?{number}"));
                ask(&client, request, b"body").await.expect("a reply")
            })
        });
        let asked: Vec<_> = asked.collect();
        stage.until(|seen| seen.under_way == 5).await;
        for (number, asked) in asked.into_iter().enumerate() {
            while !asked.is_finished() {
                stage.go_on.notify_waiters();
                sleep(Duration::from_millis(1)).await;
            }
            let reply = asked.await.expect("no panic");
            assert_eq!(reply, format!("POST /wait?{number} a body"));
        }
        let seen = stage.seen.borrow();
        assert_eq!((seen.under_way_max, seen.opened), (5, 5));
    });
}

#[test]
fn a_stream_that_is_reset_closes_its_connection_alone() {
    staged(async |stage| {
        let (client, _) = stage.client(&Limits::default()).await;
        let other = client.clone();
        let other = spawn_local(async move { ask(&other, post("http://a/wait?other"), b"").await });
        stage.until(|seen| seen.under_way == 1).await;
        let mut asking = client.clone().ready().await.expect("open");
        let (reply, mut stream) =
            asking.send_request(post("http://a/wait?reset"), true).expect("sent");
        stage.until(|seen| seen.under_way == 2).await;
        stream.send_reset(Reason::CANCEL);
        drop(reply);
        // The service sees that nothing waits for the reply.
        stage.until(|seen| (seen.under_way, seen.open) == (1, 1)).await;
        stage.go_on.notify_waiters();
        assert_eq!(other.await.expect("no panic").expect("a reply"), "POST /wait?other a ");
        assert_eq!(ask(&client, post("http://a/"), b"").await.expect("a reply"), "POST / a ");
        assert_eq!(stage.seen.borrow().opened, 2);
    });
}

#[test]
fn a_reply_that_is_not_read_to_its_end_ends_its_connection() {
    staged(async |stage| {
        let (client, _) = stage.client(&Limits::default()).await;
        let mut asking = client.clone().ready().await.expect("open");
        let (reply, _) = asking.send_request(post("http://a/long"), true).expect("sent");
        let mut body = reply.await.expect("a reply").into_body();
        body.data().await.expect("data").expect("data");
        drop(body);
        stage.until(|seen| seen.open == 0).await;
        assert_eq!(ask(&client, post("http://a/"), b"").await.expect("a reply"), "POST / a ");
    });
}

#[test]
fn what_cannot_be_connected_may_be_tried_again() {
    staged(async |stage| {
        let (client, _) = stage.client(&Limits::default()).await;
        stage.seen.borrow_mut().full = true;
        let refused = ask(&client, post("http://a/"), b"").await;
        assert_eq!(reason(refused), Some(Reason::REFUSED_STREAM));
        stage.seen.borrow_mut().full = false;
        assert_eq!(ask(&client, post("http://a/"), b"").await.expect("a reply"), "POST / a ");
    });
}

#[test]
fn headers_have_a_limit() {
    staged(async |stage| {
        let limits = Limits { header_bytes_max: 4 << 10, ..Limits::default() };
        let (client, _) = stage.client(&limits).await;
        let mut request = post("http://a/");
        request.headers_mut().insert("x", "x".repeat(8 << 10).parse().expect("a value"));
        let mut asking = client.clone().ready().await.expect("open");
        let sent = asking.send_request(request, true);
        let refused = match sent {
            Ok((reply, _)) => reply.await.map(|reply| reply.status().as_u16()),
            Err(error) => Err(error),
        };
        assert!(!matches!(refused, Ok(200)), "{refused:?}");
        assert_eq!(stage.seen.borrow().requests.len(), 0);
    });
}

#[test]
fn at_the_end_requests_under_way_are_completed() {
    staged(async |stage| {
        let (client, served) = stage.client(&Limits::default()).await;
        let asking = client.clone();
        let asked = spawn_local(async move { ask(&asking, post("http://a/wait"), b"").await });
        stage.until(|seen| seen.under_way == 1).await;
        stage.end.notify_one();
        // The client is told to leave: it sends no more requests on this connection.
        let refused = async {
            while client.clone().ready().await.is_ok()
                && ask(&client, post("http://a/"), b"").await.is_ok()
            {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, refused).await.expect("it is told");
        stage.go_on.notify_waiters();
        assert_eq!(asked.await.expect("no panic").expect("a reply"), "POST /wait a ");
        ended(served).await;
        stage.until(|seen| seen.open == 0).await;
    });
}

#[test]
fn a_client_that_leaves_lets_go_of_all_connections() {
    staged(async |stage| {
        let (client, served) = stage.client(&Limits::default()).await;
        ask(&client, post("http://a/"), b"").await.expect("a reply");
        // GOAWAY.
        drop(client);
        ended(served).await;
        stage.until(|seen| seen.open == 0).await;
    });
}

#[test]
fn idle_clients_are_told_to_leave() {
    staged(async |stage| {
        let short = Duration::from_millis(20);
        let limits = Limits { first_request: short, idle: PATIENCE, ..Limits::default() };
        let (_silent, served) = stage.client(&limits).await;
        ended(served).await;

        let limits = Limits { first_request: short, idle: short, ..Limits::default() };
        let (client, served) = stage.client(&limits).await;
        // It is answered.
        let asking = client.clone();
        let asked = spawn_local(async move { ask(&asking, post("http://a/wait"), b"").await });
        stage.until(|seen| seen.under_way == 1).await;
        sleep(5 * short).await;
        assert!(!served.is_finished());
        stage.go_on.notify_waiters();
        assert_eq!(asked.await.expect("no panic").expect("a reply"), "POST /wait a ");
        ended(served).await;
    });
}

/// `SETTINGS` without any, and `HEADERS` that begin and end stream 1.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const HEADERS: [u8; 9] = [0, 0, 12, 1, 5, 0, 0, 0, 1];
/// `GET http://a/long`: fields of the static table, and values of `:authority` and `:path`.
const GET_LONG: &[u8; 12] = b"\x82\x86\x41\x01a\x44\x05/long";

#[test]
fn a_client_that_reads_nothing_is_closed() {
    staged(async |stage| {
        let limits = Limits { ping: Duration::from_millis(50), ..Limits::default() };
        let (mut stream, served) = stage.connect(&limits);
        let begun = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &SETTINGS, &HEADERS, GET_LONG];
        stream.write_all(&begun.concat()).await.expect("sent");
        stage.until(|seen| seen.requests.len() == 1).await;
        assert_eq!(stage.seen.borrow().requests[0], "GET /long a ");
        let ended = timeout(PATIENCE, served).await.expect("it ends").expect("no panic");
        assert!(ended.expect_err("it was late").is_timeout());
        stage.until(|seen| seen.open == 0).await;
        // No more of the 8 MiB was kept for it than the windows of HTTP/2 allow.
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("all");
        assert!(bytes.len() < 128 << 10, "{} bytes", bytes.len());
    });
}
