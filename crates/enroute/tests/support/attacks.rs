//! Attacks by a client within TLS: HTTP/2 frames and HTTP/1.1 heads. `openssl s_client` sends them,
//! because a client library would correct them.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
};

use super::tls::Tls;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The ACK flag of `SETTINGS` and `PING`.
const ACK: u8 = 1;
/// `:method: POST`, `:scheme: https`, `:path: /`, by their indexes in HPACK's static table.
const REQUEST: &[u8] = &[0x83, 0x87, 0x84];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// An HTTP/2 header field as an HPACK literal, neither indexed nor compressed.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| {
        let mut length = vec![text.len().min(127) as u8];
        let mut rest = text.len().saturating_sub(127);
        while text.len() >= 127 {
            length.push((rest % 128) as u8 | if rest > 127 { 128 } else { 0 });
            rest /= 128;
            if rest == 0 {
                break;
            }
        }
        [&length[..], text.as_bytes()].concat()
    };
    [vec![0], text(name), text(value)].concat()
}

/// An HTTP/2 connection, frame by frame.
pub struct Http2(pub Tls);

impl Http2 {
    /// Connects with these settings.
    pub fn connect(address: SocketAddr, domain: &str, settings: &[u8]) -> Self {
        let mut client = Tls::connect(address, domain, "h2");
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, settings)].concat());
        Self(client)
    }

    /// Sends a request without a body.
    pub fn ask(&mut self, stream: u32, block: &[u8]) {
        self.0.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, block));
    }

    /// Returns the HEADERS and CONTINUATION frames of a request; a body follows unless the request
    /// `ends` there.
    pub fn begun(stream: u32, block: &[u8], ends: bool) -> Vec<u8> {
        let end = if ends { END_STREAM } else { 0 };
        let mut parts = block.chunks(16_000).peekable();
        let mut frames = Vec::new();
        while let Some(part) = parts.next() {
            let (kind, end) = if frames.is_empty() { (HEADERS, end) } else { (CONTINUATION, 0) };
            let flags = end | if parts.peek().is_none() { END_HEADERS } else { 0 };
            frames.extend(frame(kind, flags, stream, part));
        }
        frames
    }

    /// A part of a request's body.
    pub fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
        frame(DATA, 0, stream, bytes)
    }

    /// A frame of an unknown type, which is read and ignored.
    pub fn ignored(bytes: usize) -> Vec<u8> {
        const UNKNOWN: u8 = 0xfa;
        frame(UNKNOWN, 0, 0, &vec![0; bytes])
    }

    /// Increases the connection's window by this number of bytes.
    pub fn window(more: u32) -> Vec<u8> {
        frame(WINDOW_UPDATE, 0, 0, &more.to_be_bytes())
    }

    /// Reads a frame and answers it if it is a `PING`; false once the connection is closed.
    pub fn answers_a_frame(&mut self) -> bool {
        match self.0.frame() {
            Some((PING, 0, _, payload)) => self.0.send(&frame(PING, ACK, 0, &payload)),
            Some(_) => {}
            None => return false,
        }
        true
    }

    /// Waits until the peer has read everything that was sent.
    pub fn is_heard(&mut self) {
        self.0.send(&frame(PING, 0, 0, b"is heard"));
        let is_it = |(kind, flags, _, payload): (u8, u8, u32, Vec<u8>)| {
            kind == PING && flags & ACK != 0 && payload == b"is heard"
        };
        while !is_it(self.0.frame().expect("the connection stays open")) {}
    }
}

/// Result of a request without a body over HTTP/2: `Some(200)` for that status, `Some(0)` for
/// another status, `None` if its stream or the connection is closed.
pub fn ask_http2(address: SocketAddr, domain: &str, block: &[u8]) -> Option<u16> {
    const GOAWAY: u8 = 7;
    /// `:status: 200`, by its index in HPACK's static table.
    const OK: u8 = 0x88;
    let mut client = Http2::connect(address, domain, &[]);
    client.ask(1, block);
    loop {
        match client.0.frame()? {
            (HEADERS, _, 1, payload) => return Some(if payload[0] == OK { 200 } else { 0 }),
            (RST_STREAM, _, 1, _) | (GOAWAY, ..) => return None,
            _ => {}
        }
    }
}

/// Named attacks. Each ends with bytes that are no frame, so that a server that has accepted
/// everything before must close the connection.
pub fn of_http2() -> Vec<(&'static str, Vec<u8>)> {
    let header = |stream: u32| frame(HEADERS, END_HEADERS, stream, REQUEST);
    let many = |count: u32, of: &dyn Fn(u32) -> Vec<u8>| (0..count).flat_map(of).collect();
    let reset =
        |stream: u32| [header(stream), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat();
    let attacks: Vec<(&'static str, Vec<u8>)> = vec![
        ("settings of seven bytes", frame(SETTINGS, 0, 0, &[0; 7])),
        ("a frame of 16 MiB", [&[0xff, 0xff, 0xff, DATA, 0], &[0; 4][..]].concat()),
        ("headers on stream 0", header(0)),
        ("data on a stream that was not opened", frame(DATA, 0, 5, b"x")),
        ("an index outside of HPACK's table", frame(HEADERS, END_HEADERS, 1, &[0xff; 8])),
        ("a number without end in HPACK", frame(HEADERS, END_HEADERS, 1, &[0x7f, 0xff, 0xff])),
        ("a window beyond 2^31", many(2, &|_| frame(WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]))),
        ("streams opened and reset", many(3000, &|number| reset(2 * number + 1))),
        ("headers that go on and on", {
            let first = frame(HEADERS, 0, 1, REQUEST);
            [first, many(200, &|_| frame(CONTINUATION, 0, 1, &[0x40; 16_000]))].concat()
        }),
        ("settings again and again", many(20_000, &|_| frame(SETTINGS, 0, 0, &[]))),
    ];
    let whole =
        |bytes: Vec<u8>| [PREFACE, &frame(SETTINGS, 0, 0, &[]), &bytes, &[0xff; 64]].concat();
    let mut attacks: Vec<_> = attacks.into_iter().map(|(name, sent)| (name, whole(sent))).collect();
    attacks.push(("no preface", vec![0x5a; 10_000]));
    attacks
}

/// The attack of [`of_http1`] that a server may answer.
pub const BOTH_LENGTHS: &str = "both lengths";

/// Requests whose length two servers may interpret differently, or that do not end.
pub fn of_http1() -> Vec<(&'static str, Vec<u8>)> {
    let head = |lines: &str| format!("POST / HTTP/1.1\r\nHost: shop.example\r\n{lines}\r\n\r\n");
    [
        (BOTH_LENGTHS, head("Content-Length: 3\r\nTransfer-Encoding: chunked") + "0\r\n\r\nGET"),
        ("two lengths", head("Content-Length: 3\r\nContent-Length: 4") + "abcd"),
        ("a length below zero", head("Content-Length: -1")),
        ("a chunk of no number", head("Transfer-Encoding: chunked") + "zz\r\n\r\n"),
        ("a chunk of 2^64", head("Transfer-Encoding: chunked") + "fffffffffffffffff\r\n"),
        ("a name with a space", head("X y: z")),
        ("a bare line feed in a value", head("X: a\nb")),
        ("a line without end", "GET /".to_owned() + &"a".repeat(200_000)),
        ("a thousand headers", head(&vec!["a: b"; 1000].join("\r\n"))),
        ("no request at all", "\0\0\0\0\r\n\r\n".to_owned()),
    ]
    .map(|(name, sent)| (name, sent.into_bytes()))
    .into()
}

/// Sends `bytes` through `openssl s_client` with these options; returns the response, or `None` if
/// the server left the connection open.
pub fn send(directory: &Path, options: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    std::fs::write(directory.join("attack"), bytes).expect("writable");
    let command =
        format!("timeout 40 openssl s_client -quiet {options} <attack 2>/dev/null || exit $?");
    let output = Command::new("sh")
        .args(["-c", &command])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    // Exit status of `timeout` when it ended the program.
    (output.status.code() != Some(124)).then_some(output.stdout)
}
