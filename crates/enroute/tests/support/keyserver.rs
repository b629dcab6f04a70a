//! A key server with its environment: authority, certificates, keys, database, policy. Keys and
//! requests are made by third-party tools, openssl and curl.

use std::{net::SocketAddr, ops::Deref, process::Command};

use keyservice::{Client, ClientConfiguration};
use tokio::runtime::{Builder, Runtime};
use wire::ski::{KeyId, Operation, Request, Scheme, TranscriptHash};

use super::{
    database::Database,
    process::{Ended, PATIENCE, Process},
    workshop::{Workshop, workshop},
};

/// A policy that allows `edge1.example` everything.
pub const EVERYTHING: &str = "\
premaster_decryption = true
[[edge]]
name = \"edge1.example\"
[[edge.allow]]
keys = [\"*\"]
methods = [\"CertificateVerify\", \"ECDHE\", \"RSA\"]
";

/// A directory with everything that a key server needs.
pub struct Site {
    pub database: Database,
    workshop: Workshop,
}

impl Deref for Site {
    type Target = Workshop;

    fn deref(&self) -> &Workshop {
        &self.workshop
    }
}

/// A running `enroute keyserver serve`.
pub struct KeyServer {
    process: Process,
    pub address: SocketAddr,
}

impl Site {
    /// `None`, with the reason printed, if a tool is not installed.
    pub fn create() -> Option<Self> {
        let workshop = workshop()?;
        // The database keeps its keys when a test kills it.
        let site = Self { database: Database::start_with(&["--sync", "always"]), workshop };
        site.certificate("ca", "ec");
        site.signed("localhost", "ca");
        site.signed("edge1.example", "ca");
        site.write("kek", &format!("{}\n", "11".repeat(32)));
        site.write("policy.toml", EVERYTHING);
        Some(site)
    }

    /// Creates a private key `NAME.key` and its public half `NAME.pub`; `how` are genpkey's
    /// options.
    pub fn key(&self, name: &str, how: &str) {
        self.sh(&format!(
            "openssl genpkey {how} -out {name}.key && \
             openssl pkey -in {name}.key -pubout -out {name}.pub"
        ));
    }

    /// Public half of an ECDHE exchange on P-256, in the format of ServerKeyExchange.
    pub fn params(&self) -> Vec<u8> {
        self.key("exchange", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
        let spki = self.bytes("openssl pkey -pubin -in exchange.pub -outform DER");
        [&[3, 0, 23, 65], &spki[spki.len() - 65..]].concat()
    }

    /// Imports `NAME.key`; returns its ID.
    pub fn import(&self, name: &str, options: &[&str]) -> String {
        let file = format!("{name}.key");
        let ended = self.run(&[&["import"], &self.vault()[..], options, &[&file]].concat());
        assert!(ended.status.success(), "{}", ended.stderr);
        let id = ended.stdout[..64].to_owned();
        // The edge's ID of the key, computed by another tool.
        let expected = self.sh(&format!(
            "openssl pkey -in {name}.key -pubout -outform DER | openssl dgst -sha256 -r"
        ));
        assert_eq!(id, expected[..64]);
        id
    }

    /// The record of a key in the database; empty if there is none.
    pub fn record(&self, id: &str) -> Vec<u8> {
        let name = format!("enroute:key:{id}");
        redis::cmd("GET").arg(name).query(&mut self.database.connection()).expect("an answer")
    }

    /// Replaces the record of a key.
    pub fn set_record(&self, id: &str, record: &[u8]) {
        let (name, mut connection) = (format!("enroute:key:{id}"), self.database.connection());
        redis::cmd("SET").arg(name).arg(record).exec(&mut connection).expect("it is stored");
    }

    /// Options that name database and key-encryption keys.
    pub fn vault(&self) -> [&'static str; 4] {
        // Leaked: a few bytes for each test.
        let database = format!("redis://{}", self.database.address());
        ["--database", Box::leak(database.into_boxed_str()), "--kek-file", "kek"]
    }

    /// The command `enroute keyserver ARGUMENTS…`, not started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_enroute"));
        command.arg("keyserver").args(arguments).current_dir(self.path(""));
        command
    }

    /// Runs `enroute keyserver ARGUMENTS…` to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        Process::start(&mut self.command(arguments)).wait()
    }

    /// The usual options of `serve`, except those in `options`.
    fn serve_arguments<'a>(&self, options: &[&'a str]) -> Vec<&'a str> {
        let vault = self.vault();
        let usual = [
            ["--log", "debug"],
            ["--listen", "127.0.0.1:0"],
            ["--certificate", "localhost.pem"],
            ["--key", "localhost.key"],
            ["--edge-authorities", "ca.pem"],
            ["--policy", "policy.toml"],
            ["--audit", "audit.log"],
            [vault[0], vault[1]],
            [vault[2], vault[3]],
        ];
        let usual = usual.iter().filter(|option| !options.contains(&option[0])).flatten().copied();
        ["serve"].into_iter().chain(usual).chain(options.iter().copied()).collect()
    }

    /// Runs `enroute keyserver serve`, which is expected to fail.
    pub fn serve_in_vain(&self, options: &[&str]) -> Ended {
        self.run(&self.serve_arguments(options))
    }

    /// Starts `enroute keyserver serve` on a free port.
    pub fn serve(&self, options: &[&str]) -> KeyServer {
        KeyServer::started(Process::start(&mut self.command(&self.serve_arguments(options))))
    }

    /// As `serve`, from a shell that has executed `before`.
    pub fn serve_after(&self, before: &str) -> KeyServer {
        self.serve_by(&format!("{before}; exec"))
    }

    /// As `serve`, started by another program.
    pub fn serve_by(&self, starter: &str) -> KeyServer {
        self.serve_by_with(starter, &[])
    }

    /// As `serve_by`, with these options.
    pub fn serve_by_with(&self, starter: &str, options: &[&str]) -> KeyServer {
        let arguments = self.serve_arguments(options).join(" ");
        let program = env!("CARGO_BIN_EXE_enroute");
        let script = format!("{starter} {program} keyserver {arguments}");
        let mut command = Command::new("sh");
        command.args(["-ec", &script]).current_dir(self.path(""));
        KeyServer::started(Process::start(&mut command))
    }

    /// The lines of `[edge.identity]` for `edge1.example`, with this timeout.
    pub fn identity(&self, timeout: &str) -> String {
        let file = |name: &str| self.path(name).display().to_string();
        format!(
            "[edge.identity]\ncertificate = \"{}\"\nkey = \"{}\"\nauthorities = \"{}\"\n\
             key_server_name = \"localhost\"\ntimeout = \"{timeout}\"\n",
            file("edge1.example.pem"),
            file("edge1.example.key"),
            file("ca.pem")
        )
    }

    /// The configuration of the edge `edge1.example` for requests to `server` on `connections`
    /// connections.
    pub fn configuration(&self, server: &KeyServer, connections: usize) -> ClientConfiguration {
        ClientConfiguration {
            address: server.address.to_string(),
            server_name: Some("localhost".to_owned()),
            authorities: self.path("ca.pem"),
            certificate: self.path("edge1.example.pem"),
            key: self.path("edge1.example.key"),
            connections,
            patience: PATIENCE,
        }
    }

    pub fn client(&self, server: &KeyServer, connections: usize) -> Client {
        Client::new(self.configuration(server, connections)).expect("certificates")
    }

    /// POSTs `body` with curl as `edge`; returns the output and the status.
    pub fn post(&self, server: &KeyServer, edge: &str, body: &str) -> (String, u16) {
        self.curl(server, edge, &["--data-binary", body])
    }

    /// Runs curl with the certificates of `edge` and these options.
    pub fn curl(&self, server: &KeyServer, edge: &str, options: &[&str]) -> (String, u16) {
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "30", "-w", "\n%{http_code}", "--cacert", "ca.pem"])
            .args(["--cert", &format!("{edge}.pem"), "--key", &format!("{edge}.key")])
            .args(options)
            .arg(format!("https://localhost:{}/", server.address.port()))
            .current_dir(self.path(""))
            .output()
            .expect("curl");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').expect("a status");
        (body.to_owned(), status.parse().expect("a number"))
    }

    /// The decoded output in the reply to `body`. Panics if it is an error.
    pub fn output(&self, server: &KeyServer, body: &str) -> Vec<u8> {
        let (answer, status) = self.post(server, "edge1.example", body);
        assert_eq!(status, 200, "{answer}");
        wire::ski::response::decode(answer.as_bytes())
            .expect("SKI")
            .unwrap_or_else(|refusal| panic!("{refusal}: {}", server.process.stderr()))
    }

    /// The error in the reply to `body` from `edge`.
    pub fn refusal(&self, server: &KeyServer, edge: &str, body: &str) -> String {
        let (answer, status) = self.post(server, edge, body);
        assert_eq!(status, 200, "{answer}");
        let refusal = wire::ski::response::decode(answer.as_bytes()).expect("SKI");
        refusal.expect_err("an error").to_string()
    }
}

impl KeyServer {
    fn started(process: Process) -> Self {
        let line = process
            .stderr_line("listening on ")
            .unwrap_or_else(|| panic!("it does not listen: {}", process.stderr()));
        let address = line.trim_start_matches("listening on ").parse().expect("an address");
        Self { process, address }
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Makes it reload policy, keyring and audit log, and waits until it has.
    pub fn reload(&self) {
        let count = || self.process.stderr().matches("SIGHUP: policy").count();
        let before = count();
        self.process.signal("HUP");
        let started = std::time::Instant::now();
        while count() == before {
            assert!(started.elapsed() < PATIENCE, "no reload: {}", self.process.stderr());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    pub fn terminate(self) -> Ended {
        self.process.terminate()
    }

    /// Aborts it, as a failed assertion in a library would.
    pub fn abort(self) -> Ended {
        self.process.signal("ABRT");
        self.process.wait()
    }
}

/// A TLS 1.3 request of an edge.
pub fn request(id: &str, scheme: Scheme) -> Request {
    let transcript_hash = TranscriptHash::Sha256([7; 32]);
    Request {
        key: KeyId::decode(id).expect("an id"),
        server_name: None,
        operation: Operation::CertificateVerify { transcript_hash, scheme },
    }
}

/// The runtime for the connections of a [`Client`].
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Standard base64, without a dependency.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The body of a TLS 1.3 request.
pub fn verify_request(id: &str, scheme: &str, transcript_hash: &[u8]) -> String {
    format!(
        r#"{{"protocol":"TLS 1.3","method":"CertificateVerify","spki":"{id}","scheme":"{scheme}","input":"{}"}}"#,
        base64(transcript_hash)
    )
}

/// The body of a TLS 1.2 request to sign.
pub fn exchange_request(id: &str, hash: &str, input: &[u8]) -> String {
    format!(
        r#"{{"protocol":"TLS 1.2","method":"ECDHE","spki":"{id}","hash":"{hash}","input":"{}"}}"#,
        base64(input)
    )
}

/// The body of a request to decrypt.
pub fn premaster_request(id: &str, encrypted: &[u8]) -> String {
    format!(
        r#"{{"protocol":"TLS 1.2","method":"RSA","spki":"{id}","input":"{}"}}"#,
        base64(encrypted)
    )
}
