//! A TLS connection that sends exactly the given bytes: HTTP/1.1 requests byte for byte, one after
//! another, and HTTP/2 frames.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use super::{edge::Answer, process::PATIENCE};

pub struct Tls(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Tls {
    /// Begins a TLS handshake for `domain`; `protocol` is `http/1.1` or `h2`. The handshake
    /// completes with the first data.
    pub fn connect(address: SocketAddr, domain: &str, protocol: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self::over(stream, domain, protocol)
    }

    /// As `connect`, with a complete handshake; `None` if it does not complete within this time,
    /// which is also the timeout of later reads.
    pub fn shake_hands(
        address: SocketAddr,
        domain: &str,
        protocol: &str,
        limit: Duration,
    ) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&address, limit).ok()?;
        stream.set_read_timeout(Some(limit)).ok()?;
        let mut tls = Self::over(stream, domain, protocol);
        let StreamOwned { conn, sock } = tls.0.get_mut();
        while conn.is_handshaking() {
            conn.complete_io(sock).ok()?;
        }
        Some(tls)
    }

    fn over(stream: TcpStream, domain: &str, protocol: &str) -> Self {
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified))
                .with_no_client_auth();
        config.alpn_protocols = vec![protocol.into()];
        let name = ServerName::try_from(domain.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        Self(BufReader::new(StreamOwned::new(connection, stream)))
    }

    /// Sets the timeout of reads and writes.
    pub fn wait_at_most(&self, limit: Duration) {
        let stream = self.0.get_ref().get_ref();
        stream.set_write_timeout(Some(limit)).expect("a timeout");
        stream.set_read_timeout(Some(limit)).expect("a timeout");
    }

    /// Sends as much as the peer reads.
    pub fn insist(&mut self, mut pieces: impl Iterator<Item = Vec<u8>>) {
        self.wait_at_most(Duration::from_secs(5));
        let mut takes = |piece: Vec<u8>| self.0.get_mut().write_all(&piece).is_ok();
        let all = pieces.all(&mut takes);
        if all {
            let _ = self.0.get_mut().flush();
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The peer may have refused the request in the middle.
        let _ = self.0.get_mut().write_all(bytes);
        let _ = self.0.get_mut().flush();
    }

    /// Sends a request without a body; returns the response.
    pub fn ask(&mut self, method: &str, path: &str, lines: &str) -> Answer {
        let lines = lines.lines().filter(|line| !line.is_empty());
        let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
        self.send(format!("{method} {path} HTTP/1.1\r\n{lines}\r\n").as_bytes());
        self.answer(method == "HEAD").unwrap_or_else(|| panic!("{method} {path}: no answer"))
    }

    /// The next HTTP/1.1 response; `None` if the connection is closed before.
    pub fn answer(&mut self, without_body: bool) -> Option<Answer> {
        let mut head = String::new();
        loop {
            let mut line = Vec::new();
            if self.0.read_until(b'\n', &mut line).ok()? == 0 {
                return None;
            }
            if line == b"\r\n" {
                break;
            }
            head += String::from_utf8_lossy(&line).trim_end_matches("\r\n");
            head += "\n";
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok())?;
        let mut answer = Answer { status, head, body: String::new() };
        if !without_body && !matches!(status, 204 | 304) {
            let length = answer.header("content-length").parse().unwrap_or(0);
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).ok()?;
            answer.body = String::from_utf8_lossy(&body).into_owned();
        }
        Some(answer)
    }

    /// The next HTTP/2 frame: type, flags, stream, payload.
    pub fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((head[3], head[4], stream, payload))
    }
}

#[derive(Debug)]
struct Unverified;

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
