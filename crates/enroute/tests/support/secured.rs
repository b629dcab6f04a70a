//! A cache with TLS on one side or both, and clients that verify its certificate.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

use super::{
    directory::on_path,
    origins::{Redis, absent},
    process::{PATIENCE, free_address},
    workshop::{Workshop, workshop},
};

/// An authority, and certificates for `localhost`, and for a client.
pub fn certificates() -> Option<Workshop> {
    let workshop = workshop()?;
    workshop.certificate("authority", "ec");
    workshop.signed("localhost", "authority");
    workshop.signed("client", "authority");
    Some(workshop)
}

/// `NAME = { … }` with files of the workshop, for a configuration.
pub fn table(workshop: &Workshop, name: &str, files: &[(&str, &str)], more: &str) -> String {
    let path = |file: &str| workshop.path(file).display().to_string();
    let fields = files.iter().map(|(key, file)| format!("{key} = {:?}, ", path(file)));
    format!("{name} = {{ {}{more} }}\n", fields.collect::<String>())
}

/// The TLS options of a listener as `localhost`.
pub fn tls(workshop: &Workshop) -> String {
    table(workshop, "tls", &[("cert", "localhost.pem"), ("key", "localhost.key")], "")
}

/// The TLS options for an origin that is `localhost`.
pub fn origin_tls(workshop: &Workshop) -> String {
    table(workshop, "origin_tls", &[("ca", "authority.pem")], "name = \"localhost\"")
}

/// A redis-server with a plain address and the returned TLS address. Its certificate is `NAME.pem`,
/// and it requires client certificates if `strict`.
pub fn redis(workshop: &Workshop, name: &str, strict: bool) -> Option<(Redis, SocketAddr)> {
    redis_with(workshop, name, &["--tls-auth-clients", if strict { "yes" } else { "no" }])
}

/// As `redis`, with further options of redis-server.
pub fn redis_with(
    workshop: &Workshop,
    name: &str,
    options: &[&str],
) -> Option<(Redis, SocketAddr)> {
    let address = free_address();
    let path = |file: String| workshop.path(&file).display().to_string();
    let [port, certificate, key, authority] = [
        address.port().to_string(),
        path(format!("{name}.pem")),
        path(format!("{name}.key")),
        path("authority.pem".into()),
    ];
    let files = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &authority,
    ];
    Some((Redis::start_with(&[&files[..], options].concat())?, address))
}

/// The output of redis-cli, which connects with TLS and verifies `localhost`.
pub fn redis_cli(workshop: &Workshop, address: SocketAddr, words: &[&str]) -> Option<String> {
    let Some(program) = on_path("redis-cli") else { return absent("redis-cli is not on PATH") };
    let output = Command::new(program)
        .args(["-h", "localhost", "-p", &address.port().to_string(), "--tls", "--cacert"])
        .arg(workshop.path("authority.pem"))
        .args(words)
        .output()
        .expect("redis-cli starts");
    let said = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&said).trim().to_owned())
}

/// A client that trusts an authority of the workshop, and presents `identity` on request.
pub fn trusting(workshop: &Workshop, authority: &str, identity: Option<&str>) -> Arc<ClientConfig> {
    let certificate = |name: &str| {
        let pem = fs::read(workshop.path(&format!("{name}.pem"))).expect("a file");
        CertificateDer::from_pem_slice(&pem).expect("a certificate")
    };
    let mut roots = RootCertStore::empty();
    roots.add(certificate(authority)).expect("an authority");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(workshop.path(&format!("{name}.key")));
            let chain = vec![certificate(name)];
            builder.with_client_auth_cert(chain, key.expect("a key")).expect("a pair")
        }
    })
}

/// A server that presents the certificate `name`.
pub fn server(workshop: &Workshop, name: &str) -> Arc<ServerConfig> {
    let path = |kind: &str| workshop.path(&format!("{name}.{kind}"));
    let chain = CertificateDer::from_pem_file(path("pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(path("key")).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth();
    Arc::new(builder.with_single_cert(vec![chain], key).expect("a pair"))
}

/// A verified connection.
pub struct Secured(StreamOwned<ClientConnection, TcpStream>);

impl Secured {
    /// Connects to `address` and verifies the name `localhost`.
    pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Self> {
        Self::connect_to("localhost", address, config)
    }

    /// Connects to `address` and verifies the name `name`.
    pub fn connect_to(
        name: &'static str,
        address: SocketAddr,
        config: &Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(name).expect("a name");
        let tls = ClientConnection::new(Arc::clone(config), name).expect("a client");
        let mut secured = Self(StreamOwned::new(tls, stream));
        let StreamOwned { conn, sock } = &mut secured.0;
        while conn.is_handshaking() {
            conn.complete_io(sock)?;
        }
        Ok(secured)
    }

    /// Whether the handshake resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Sends Redis commands, one per line; reads as many bytes as `reply` has.
    pub fn try_ask(&mut self, words: &str, reply: &str) -> io::Result<String> {
        let mut bytes = String::new();
        for line in words.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            bytes += &format!("*{}\r\n", words.len());
            words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.write_all(bytes.as_bytes())?;
        self.0.flush()?;
        let mut heard = vec![0; reply.len()];
        self.0.read_exact(&mut heard)?;
        Ok(String::from_utf8_lossy(&heard).into_owned())
    }

    /// As `try_ask`; the reply has to be exactly `reply`.
    pub fn ask(&mut self, words: &str, reply: &str) {
        assert_eq!(self.try_ask(words, reply).expect("an open connection"), reply, "{words}");
    }
}
