//! One read of an encrypted connection returns everything that has arrived, up to the size of the
//! buffer, instead of the 4 KiB that rustls reads at once. No byte is lost between two reads, and
//! an incomplete record is accounted for.

use std::{
    env, fs,
    io::Write,
    net::{TcpListener, TcpStream},
    process::{self, Command},
    sync::Arc,
    thread,
    time::Duration,
};

use reactor::{Channel, Events, Reactor, Socket};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

const RECORDS: usize = 2_000;
const RECORD_BYTES: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

type Client = StreamOwned<ClientConnection, TcpStream>;

/// A certificate and its key; `None` without openssl.
fn certificate(name: &str) -> Option<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let directory = env::temp_dir().join(format!("enroute-{name}-{}", process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
                   -subj /CN=localhost -addext subjectAltName=DNS:localhost \
                   -addext basicConstraints=critical,CA:FALSE -keyout key -out certificate";
    let made = Command::new("sh").args(["-c", command]).current_dir(&directory).output();
    let made = made.is_ok_and(|output| output.status.success()).then(|| {
        let certificate = CertificateDer::from_pem_file(directory.join("certificate"));
        let key = PrivateKeyDer::from_pem_file(directory.join("key"));
        (certificate.expect("a certificate"), key.expect("a key"))
    });
    fs::remove_dir_all(&directory).expect("it was made");
    if made.is_none() {
        eprintln!("skipped: no openssl");
    }
    made
}

/// Both ends of a connection before the handshake, and the server's socket.
fn ends(name: &str) -> Option<(Client, Channel, TcpStream, Reactor)> {
    let (certificate, key) = certificate(name)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("an authority");
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a pair");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let tls = ClientConnection::new(Arc::new(client), name).expect("a client");
    let client = StreamOwned::new(tls, stream);
    let (stream, _) = listener.accept().expect("a client");
    let arrived = stream.try_clone().expect("a descriptor");
    let reactor = Reactor::new().expect("an epoll");
    let socket = Socket::new(stream, &reactor, 0).expect("a socket");
    let tls = ServerConnection::new(Arc::new(server)).expect("a server");
    Some((client, Channel::new(socket, Some(tls.into())), arrived, reactor))
}

/// Reads until `done` is true, which receives the length of each read; `None` if nothing was read.
fn read_until(
    channel: &mut Channel,
    reactor: &Reactor,
    mut done: impl FnMut(&Channel, Option<&[u8]>) -> bool,
) {
    let (mut events, mut buffer) = (Events::with_capacity(1), vec![0; 64 << 10]);
    loop {
        let count = channel.read(&mut buffer).expect("an open connection");
        if done(channel, count.map(|count| &buffer[..count])) {
            return;
        }
        if count.is_none() {
            reactor.wait(&mut events, Some(PATIENCE)).expect("an epoll");
            assert!(events.iter().next().is_some(), "nothing happens for {PATIENCE:?}");
            events.iter().for_each(|(_, possible)| channel.notice(possible));
        }
    }
}

#[test]
fn all_that_has_arrived_is_read_at_once() {
    let Some((mut client, mut channel, arrived, reactor)) = ends("long") else { return };
    let client = thread::spawn(move || {
        for record in 0..RECORDS {
            client.write_all(&[record as u8; RECORD_BYTES]).expect("a reader");
        }
        client.conn.send_close_notify();
        client.flush().expect("a reader");
        client
    });
    let (mut heard, mut longest) = (Vec::new(), 0);
    read_until(&mut channel, &reactor, |_, data| {
        let Some(data) = data else { return false };
        longest = longest.max(data.len());
        heard.extend_from_slice(data);
        // The next read returns what fits in the socket buffers, or all the rest.
        let (mut peeked, mut before) = (vec![0; 64 << 10], usize::MAX);
        while let Ok(count) = arrived.peek(&mut peeked)
            && count != before
        {
            before = count;
            thread::sleep(Duration::from_millis(5));
        }
        data.is_empty()
    });
    drop(client.join().expect("it has written all"));
    let sent = (0..RECORDS).flat_map(|record| [record as u8; RECORD_BYTES]);
    assert!(heard.iter().copied().eq(sent), "{} bytes, or others than were sent", heard.len());
    assert!(longest > 16 << 10, "at most {longest} bytes at once");
}

#[test]
fn an_incomplete_record_is_counted() {
    let Some((mut client, mut channel, _, reactor)) = ends("incomplete") else { return };
    let client = thread::spawn(move || {
        while client.conn.is_handshaking() {
            client.conn.complete_io(&mut client.sock).expect("a handshake");
        }
        client
    });
    read_until(&mut channel, &reactor, |channel, data| data.is_none() && !channel.is_handshaking());
    let mut client = client.join().expect("a handshake");
    let mut record = Vec::new();
    client.conn.writer().write_all(&[b'x'; 16_000]).expect("a buffer");
    client.conn.write_tls(&mut record).expect("a buffer");
    let (part, rest) = record.split_at(15_000);
    assert_eq!(channel.held_bytes(), 0);
    client.sock.write_all(part).expect("a reader");
    read_until(&mut channel, &reactor, |channel, data| {
        assert!(data.is_none(), "no record is complete");
        channel.held_bytes() >= part.len()
    });
    client.sock.write_all(rest).expect("a reader");
    read_until(&mut channel, &reactor, |_, data| data.is_some_and(|data| data.len() == 16_000));
    assert_eq!(channel.held_bytes(), 0);
}
