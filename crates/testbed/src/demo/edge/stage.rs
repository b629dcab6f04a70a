//! Set-up of the demonstration: files in its own directory, an origin, three processes.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use edge_tls::{Authority, KeyKind};

use super::{
    super::program::{Running, ourselves},
    filling::Filling,
    visitors,
};

/// The domain whose pages are visited; its key is one of many.
pub(super) const DOMAIN: &str = "shop.example";
/// Memory of the database; less than its data.
const MEMORY: &str = "32MiB";
/// Timeout for the start of a process.
const PATIENCE: Duration = Duration::from_secs(30);

/// The running processes. Dropping it ends them and removes the directory.
pub(super) struct Stage {
    directory: PathBuf,
    database: SocketAddr,
    key_server_at: SocketAddr,
    edge_at: SocketAddr,
    admin_at: SocketAddr,
    key_server: Option<Running>,
    others: Vec<Running>,
}

impl Stage {
    /// `stop` ends the filling of the database early, which is an error.
    pub(super) fn set(keys: usize, stop: &AtomicBool) -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("enroute-demo-{}", std::process::id()));
        // It contains private keys.
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let mut stage = Self {
            directory,
            database: free()?,
            key_server_at: free()?,
            edge_at: free()?,
            admin_at: free()?,
            key_server: None,
            others: Vec::new(),
        };
        let authority = Authority::new()?;
        stage.write("ca.pem", &authority.certificate()?)?;
        for name in ["localhost", "edge.example", DOMAIN] {
            let issued = authority.issue(name, KeyKind::EcdsaP256)?;
            stage.write(&format!("{name}.pem"), &issued.certificate)?;
            stage.write(&format!("{name}.key"), &issued.key)?;
        }
        let kek = edge_tls::random_hex(32)?;
        stage.write("kek", kek.as_bytes())?;
        stage.write("policy.toml", POLICY.as_bytes())?;
        let origin = origin()?;
        eprintln!("origin site: http://{origin}");
        stage.start_database()?;
        Filling { directory: &stage.directory, database: stage.database }.fill(keys, stop)?;
        stage.start_key_server()?;
        eprintln!("key server: https://{}", stage.key_server_at);
        stage.start_edge(origin)?;
        eprintln!("edge: https://{DOMAIN}:{}, metrics http://{}/", stage.port(), stage.admin_at);
        Ok(stage)
    }

    /// The port of the edge.
    pub(super) fn port(&self) -> u16 {
        self.edge_at.port()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn kill_key_server(&mut self) {
        self.key_server = None;
    }

    pub(super) fn start_key_server(&mut self) -> anyhow::Result<()> {
        let mut command = ourselves()?;
        command.args(["keyserver", "serve", "--listen", &self.key_server_at.to_string()]);
        command.args(["--database", &format!("redis://{}", self.database), "--kek-file", "kek"]);
        command.args(["--certificate", "localhost.pem", "--key", "localhost.key"]);
        command.args(["--edge-authorities", "ca.pem", "--policy", "policy.toml"]);
        command.args(["--audit", "audit.log"]);
        self.key_server = Some(self.start("key server", &mut command, self.key_server_at)?);
        Ok(())
    }

    fn start_edge(&mut self, origin: SocketAddr) -> anyhow::Result<()> {
        let text = format!(
            "[admin]\nlisten = \"{}\"\n[edge]\nlisten = \"{}\"\n[edge.content]\n\
             database = \"redis://{}\"\n[edge.identity]\n\
             certificate = \"edge.example.pem\"\nkey = \"edge.example.key\"\n\
             authorities = \"ca.pem\"\nkey_server_name = \"localhost\"\n[[edge.site]]\n\
             domain = \"{DOMAIN}\"\ncertificate = \"{DOMAIN}.pem\"\n\
             key = \"keyserver:{}\"\norigin = \"http://{origin}\"\n",
            self.admin_at, self.edge_at, self.database, self.key_server_at
        );
        self.write("edge.toml", text.as_bytes())?;
        let mut command = ourselves()?;
        command.args(["--log", "error", "edge", "--config", "edge.toml"]);
        let edge = self.start("edge", &mut command, self.edge_at)?;
        self.others.push(edge);
        Ok(())
    }

    fn start_database(&mut self) -> anyhow::Result<()> {
        let listen = self.database.to_string();
        let mut command = ourselves()?;
        command.args(["db", "--dir", "data", "--memory", MEMORY, "--listen", &listen]);
        let database = self.start("enroute db", &mut command, self.database)?;
        self.others.push(database);
        eprintln!("database: enroute db at {listen}, {MEMORY} of memory");
        Ok(())
    }

    /// Counters of the edge, by name.
    pub(super) fn counted(&self) -> anyhow::Result<impl Fn(&str) -> u64 + use<>> {
        let mut stream = TcpStream::connect(self.admin_at)?;
        write!(stream, "GET /stats HTTP/1.1\r\nHost: {}\r\n\r\n", self.admin_at)?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let (_, body) =
            reply.split_once("\r\n\r\n").context("GET /stats: expected a body, got none")?;
        let stats: serde_json::Value = serde_json::from_str(body)?;
        Ok(move |name: &str| stats["edge"][name].as_u64().unwrap_or_default())
    }

    fn write(&self, name: &str, text: &[u8]) -> anyhow::Result<()> {
        let path = self.path(name);
        // Some of the files are private keys.
        let file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Starts a process in the directory and waits until it listens.
    fn start(&self, name: &str, command: &mut Command, at: SocketAddr) -> anyhow::Result<Running> {
        let log = self.path(&format!("{}.log", name.replace(' ', "-")));
        let file = fs::File::create(&log)?;
        command.current_dir(&self.directory).stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file);
        let mut running = Running(command.spawn().with_context(|| format!("cannot start {name}"))?);
        let began = Instant::now();
        while TcpStream::connect(at).is_err() {
            if let Some(status) = running.0.try_wait()? {
                bail!("{name} ended ({status}): {}", fs::read_to_string(&log)?.trim());
            }
            ensure!(began.elapsed() < PATIENCE, "{name} does not listen on {at}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(running)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.key_server = None;
        self.others.clear();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const POLICY: &str = "\
[[edge]]
name = \"edge.example\"
[[edge.allow]]
keys = [\"*\"]
methods = [\"CertificateVerify\", \"ECDHE\"]
";

fn free() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// A site of a few pages over plain HTTP; its threads end with the process.
fn origin() -> anyhow::Result<SocketAddr> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = socket.local_addr()?;
    thread::spawn(move || {
        for client in socket.incoming().flatten() {
            thread::spawn(move || serve(client));
        }
    });
    Ok(address)
}

fn serve(mut client: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines();
    loop {
        let request = lines.next()?.ok()?;
        // The headers of the request are ignored.
        while !lines.next()?.ok()?.is_empty() {}
        let page = request.split(' ').nth(1).and_then(visitors::page);
        let (status, page) = page.map_or(("404 Not Found", String::new()), |page| ("200 OK", page));
        let length = page.len();
        write!(
            client,
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\ncontent-type: text/plain\r\n\
             cache-control: max-age=600\r\n\r\n{page}"
        )
        .ok()?;
    }
}
