//! Cost of a remote key: full TLS 1.3 handshakes per second at an edge whose key is at a key
//! server, compared with the same edge with the same key in a file.
//!
//! The edge has a core of its own; its clients (`openssl s_time`) and the key server share the
//! other, so the key server's work is paid for by the client's side, as a machine of its own would.
//! The edge counts every full handshake.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::{
    figure::{Figure, Goal, Reading},
    process::{self, CLIENT, SERVER, Server, free_address},
    run::{Run, Side},
    servers::Database,
};

/// Clients at once, each with one connection after another.
const CLIENTS: usize = 8;

const POLICY: &str = "\
[[edge]]
name = \"edge1.example\"
[[edge.allow]]
keys = [\"*\"]
methods = [\"CertificateVerify\"]
";

/// Edges before one origin.
pub(super) struct Stage {
    pub(super) directory: PathBuf,
    pub(super) remote: Edge,
    local: Edge,
    _key_server: Server,
    _database: Database,
}

pub(super) struct Edge {
    pub(super) server: Server,
    admin: SocketAddr,
}

pub(super) fn handshakes(run: &Run) -> anyhow::Result<Vec<Figure>> {
    // No origin: only handshakes are measured.
    let stage = Stage::set(run, "127.0.0.1:9")?;
    let rounds = run.interleave("edge-handshakes", |side, _| {
        let edge = match side {
            Side::Ours => &stage.remote,
            Side::Peer => &stage.local,
        };
        edge.shake_hands(run.round().as_secs().max(1))
    })?;
    let (remote_us, local_us) = rounds.medians_of("edge_cpu_us");
    let note = format!(
        "the edge's CPU time for one: {remote_us:.0} µs, {local_us:.0} µs with its own key"
    );
    let (goal, medians) = (Goal::RatioMin(0.7), rounds.medians());
    let peer = "the same edge, key in a file";
    Ok(vec![Figure::compared("edge-handshakes", medians, "handshakes/s", peer, goal).note(note)])
}

impl Stage {
    pub(super) fn set(run: &Run, origin: &str) -> anyhow::Result<Self> {
        let directory = run.servers.directory("edge")?;
        certificates(&directory)?;
        fs::write(directory.join("policy.toml"), POLICY)?;
        fs::write(directory.join("kek"), "11".repeat(32))?;
        fs::set_permissions(directory.join("kek"), fs::Permissions::from_mode(0o600))?;
        let stored = run.servers.database(&["--memory", "64MiB"], CLIENT)?;
        let database = format!("redis://{}", stored.server.address);
        let mut import = run.servers.enroute_in(&directory);
        import.args(["keyserver", "import", "--database", &database, "--kek-file", "kek"]);
        let imported = import.arg("shop.example.key").output()?;
        let said = String::from_utf8_lossy(&imported.stderr).into_owned();
        ensure!(imported.status.success(), "cannot import the key: {said}");
        let at = free_address()?;
        let mut serve = run.servers.enroute_in(&directory);
        serve.args(["keyserver", "serve", "--listen", &at.to_string(), "--database", &database]);
        serve.args([
            "--certificate",
            "localhost.pem",
            "--key",
            "localhost.key",
            "--kek-file",
            "kek",
        ]);
        serve.args(["--edge-authorities", "ca.pem", "--policy", "policy.toml"]);
        serve.args(["--audit", "audit.log", "--workers", "1"]);
        let log = directory.join("keyserver.log");
        let key_server = Server::start(&mut serve, at, CLIENT, &log)?;
        Ok(Self {
            remote: Edge::start(run, &directory, "remote", &format!("keyserver:{at}"), origin)?,
            local: Edge::start(run, &directory, "local", "file:shop.example.key", origin)?,
            directory,
            _key_server: key_server,
            _database: stored,
        })
    }
}

impl Edge {
    fn start(
        run: &Run,
        directory: &Path,
        name: &str,
        key: &str,
        origin: &str,
    ) -> anyhow::Result<Self> {
        let (at, admin) = (free_address()?, free_address()?);
        let text = format!(
            "workers = 1\n[admin]\nlisten = \"{admin}\"\n[edge]\nlisten = \"{at}\"\n\
             [edge.identity]\ncertificate = \"edge1.example.pem\"\nkey = \"edge1.example.key\"\n\
             authorities = \"ca.pem\"\nkey_server_name = \"localhost\"\n[[edge.site]]\n\
             domain = \"shop.example\"\ncertificate = \"shop.example.pem\"\nkey = \"{key}\"\n\
             origin = \"http://{origin}\"\n"
        );
        let file = format!("{name}.toml");
        fs::write(directory.join(&file), text)?;
        let mut command = run.servers.enroute_in(directory);
        command.args(["edge", "--config", &file]);
        let log = directory.join(format!("{name}.log"));
        Ok(Self { server: Server::start(&mut command, at, SERVER, &log)?, admin })
    }

    /// Full handshakes a second over `seconds`, as the edge counts them.
    pub(super) fn shake_hands(&self, seconds: u64) -> anyhow::Result<Reading> {
        let (before, cpu_before, began) = (self.counted()?, self.server.cpu_us()?, Instant::now());
        let clients: Vec<_> = process::on(CLIENT, || {
            let start = |_| {
                let mut command = Command::new("openssl");
                command.args(["s_time", "-new", "-tls1_3", "-time", &seconds.to_string()]);
                command.args(["-connect", &self.server.address.to_string()]);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
            };
            (0..CLIENTS).map(start).collect::<Result<_, _>>()
        })?
        .context("cannot start openssl s_time")?;
        for client in clients {
            let ended = client.wait_with_output()?;
            let said = String::from_utf8_lossy(&ended.stderr);
            ensure!(ended.status.success(), "openssl s_time failed: {said}");
        }
        let elapsed = began.elapsed().as_secs_f64();
        let after = self.counted()?;
        let count = |name: &str| {
            let value = |stats: &Value| stats["edge"][name].as_f64().unwrap_or(f64::NAN);
            value(&after) - value(&before)
        };
        let full = count("handshakes_full");
        let failed = count("handshakes_without_key") + count("handshakes_resumed");
        ensure!(full > 0.0 && failed == 0.0, "{full} full handshakes, {failed} others: {after}");
        let cpu_us = (self.server.cpu_us()? - cpu_before) / full;
        Ok(Reading::new(full / elapsed).with("edge_cpu_us", cpu_us))
    }

    fn counted(&self) -> anyhow::Result<Value> {
        let mut stream = TcpStream::connect(self.admin)?;
        write!(stream, "GET /stats HTTP/1.1\r\nHost: {}\r\n\r\n", self.admin)?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let (_, body) = reply.split_once("\r\n\r\n").context("statistics without a body")?;
        Ok(serde_json::from_str(body)?)
    }
}

/// An authority, and certificates for both ends and for the site.
pub(super) fn certificates(directory: &Path) -> anyhow::Result<()> {
    let script = "
        new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
        openssl req -x509 $new -keyout ca.key -out ca.pem -days 2 -subj /CN=ca
        for name in localhost edge1.example shop.example; do
            echo subjectAltName=DNS:$name >extensions
            openssl req $new -keyout $name.key -out $name.csr -subj /CN=$name
            openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                -extfile extensions -out $name.pem
        done";
    let made = Command::new("sh").args(["-ec", script]).current_dir(directory).output()?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "openssl cannot create certificates: {said}");
    Ok(())
}
