//! A process on this machine lends access keys: what they have signed is a hit until they expire.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use time::{OffsetDateTime, macros::format_description};
use wire::sigv4::{Credentials, Post, Verifier};

use crate::support::{
    dynamodb_history::{ask, connect},
    enroute::Cache,
    process::PATIENCE,
};

const ITEM: &str = "{\"Item\":{\"id\":{\"S\":\"a\"}}}";

/// A server of HTTP/1.1 that answers each request with what `answer` returns.
fn serve(answer: impl Fn() -> Option<String> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let answer = Arc::new(answer);
    // They end with the process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || converse(stream, &*answer));
        }
    });
    address
}

fn converse(mut stream: TcpStream, answer: &dyn Fn() -> Option<String>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::Read::read_exact(&mut reader, &mut vec![0; length]).ok()?;
        let body = answer()?;
        let kind = "Content-Type: application/x-amz-json-1.0";
        let head = format!("HTTP/1.1 200 OK\r\nServer: origin\r\n{kind}\r\n");
        let reply = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(reply.as_bytes()).ok()?;
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

/// An answer that lends this access key for some seconds.
fn lent(access_key: &str, seconds: u64) -> String {
    let until = OffsetDateTime::from_unix_timestamp((now().as_secs() + seconds) as i64);
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    let until = until.expect("a time").format(form).expect("text");
    format!(
        "{{\"AccessKeyId\":\"{access_key}\",\"SecretAccessKey\":\"hidden\",\"Token\":\"token\",\
         \"Expiration\":\"{until}\"}}"
    )
}

/// Whether the cache answers a request that this access key has signed.
fn is_hit(cache: &Cache, access_key: &str, seen: &Mutex<u64>) -> bool {
    let known = format!(
        "aws_access_key_id = {access_key}\naws_secret_access_key = hidden\naws_session_token = token"
    );
    let post = Post {
        host: "localhost",
        target: "DynamoDB_20120810.GetItem",
        content_type: "application/x-amz-json-1.0",
        body: b"{\"TableName\":\"t\",\"Key\":{\"id\":{\"S\":\"a\"}}}",
        access_key,
        region: "eu-central-1",
        service: "dynamodb",
    };
    let (known, mut request) = (Credentials::parse(&known).expect("valid"), Vec::new());
    Verifier::default().write(&post, &known, now(), &mut request).expect("known");
    let before = *seen.lock().expect("no panic");
    let mut stream = connect(cache.address()).expect("it listens");
    assert_eq!(ask(&mut stream, &request).expect("a reply"), (200, ITEM.to_owned()));
    *seen.lock().expect("no panic") == before
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn dynamodb_access_keys_are_lent_until_they_expire() {
    let seen = Arc::new(Mutex::new(0_u64));
    let counted = Arc::clone(&seen);
    let origin = serve(move || {
        *counted.lock().expect("no panic") += 1;
        Some(ITEM.to_owned())
    });
    let lends = Arc::new(Mutex::new(Some(("FIRST", 3600))));
    let theirs = Arc::clone(&lends);
    let lender = serve(move || {
        let (access_key, seconds) = (*theirs.lock().expect("no panic"))?;
        Some(lent(access_key, seconds))
    });
    let option = format!("credentials_url = \"http://{lender}/role\"");
    let cache = Cache::start_all(&[("dynamodb", origin, &option)], "");
    until("a hit", || is_hit(&cache, "FIRST", &seen));
    assert!(!is_hit(&cache, "OTHER", &seen));
    drop(cache);

    // It is asked again before the key expires, and the key before it still counts.
    *lends.lock().expect("no panic") = Some(("FIRST", 8));
    let cache = Cache::start_all(&[("dynamodb", origin, &option)], "");
    until("a hit", || is_hit(&cache, "FIRST", &seen));
    *lends.lock().expect("no panic") = Some(("SECOND", 8));
    until("a hit of the next", || is_hit(&cache, "SECOND", &seen));
    // Without an answer what was lent counts until it expires, and no longer.
    *lends.lock().expect("no panic") = None;
    cache.log_line("no access key was lent by");
    until("no hit of the first", || !is_hit(&cache, "FIRST", &seen));
    until("no hit of the second", || !is_hit(&cache, "SECOND", &seen));
    assert!(!is_hit(&cache, "SECOND", &seen));
    // It may answer again.
    *lends.lock().expect("no panic") = Some(("SECOND", 3600));
    until("a hit again", || is_hit(&cache, "SECOND", &seen));
    let log = cache.process().stderr();
    assert!(!log.contains("hidden") && !log.contains("token\""), "{log}");
}
