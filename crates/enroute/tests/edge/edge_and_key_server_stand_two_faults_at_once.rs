//! Two faults at a time, drawn from a printed seed, while clients request pages: the key server is
//! killed and restarted, or stopped (SIGSTOP), the disk of its audit log is full, the origin does
//! not respond, the path to it is cut in the middle of bodies, the edge is stopped. No client gets
//! another client's page, nor a wrong or incomplete page as a valid one; every signature is in the
//! audit log, whose chain is unbroken; and after the faults all clients are served. Clock steps are
//! not included: neither process can be given its own clock.
use std::{
    fmt::Write as _,
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io::Write as _,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    edge::{Answer, Asked, Edge, Origin},
    faults::{self, two_at_once},
    keyserver::{KeyServer, Site},
    origins::is_root,
    process::{Process, free_address, until},
    seeds,
    tls::Tls,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testbed::link::{Relay, RelayConfig, RelayHandle};

const SHOP: &str = "shop.example";
const CLIENTS: usize = 6;
/// Number of shared pages, and of private pages of each client.
const PAGES: u64 = 40;
/// Maximum length of a page.
const PAGE_BYTES_MAX: u64 = 60_000;
/// Maximum time for which a client waits for a byte.
const PATIENCE: Duration = Duration::from_secs(10);
const LIMITS: &str = "[edge.limits]\norigin_timeout = \"1s\"\nhandshake_timeout = \"3s\"\n";

#[derive(Debug, Clone, Copy)]
enum Fault {
    KeyServerKilled,
    KeyServerStopped,
    FullDisk,
    OriginSilent,
    PathCut,
    EdgeStopped,
}

const FAULTS: [Fault; 6] = [
    Fault::KeyServerKilled,
    Fault::KeyServerStopped,
    Fault::FullDisk,
    Fault::OriginSilent,
    Fault::PathCut,
    Fault::EdgeStopped,
];

/// A key server whose log is on a small disk, in a mount namespace that another process holds.
struct Keys<'s> {
    site: &'s Site,
    keeper: Process,
    address: String,
    server: Mutex<Option<KeyServer>>,
}

impl<'s> Keys<'s> {
    fn start(site: &'s Site) -> Self {
        site.sh("mkdir small");
        let script = "mount -t tmpfs -o size=24m none \"$1\" && echo mounted && exec sleep 100000";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(site.path("small"));
        let keeper = Process::start(&mut command);
        assert!(keeper.stdout_line("mounted").is_some(), "{}", keeper.stderr());
        let keys =
            Self { site, keeper, address: free_address().to_string(), server: Mutex::new(None) };
        keys.bring_up();
        keys
    }

    /// Returns the command that runs a program in that namespace, in the site's directory.
    fn enter(&self) -> String {
        let (keeper, directory) = (self.keeper.id(), self.site.path(""));
        let there = format!("sh -ec 'cd \"$0\" && exec \"$@\"' {}", directory.display());
        format!("exec nsenter --mount=/proc/{keeper}/ns/mnt {there}")
    }

    fn bring_up(&self) {
        let options = ["--audit", "small/audit.log", "--listen", &self.address];
        let server = self.site.serve_by_with(&self.enter(), &options);
        *self.server.lock().expect("not poisoned") = Some(server);
    }

    fn tell(&self, signal: &str) {
        if let Some(server) = &*self.server.lock().expect("not poisoned") {
            server.process().signal(signal);
        }
    }

    /// Returns the path of a file in its mount namespace.
    fn inside(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.keeper.id()));
        root.join(self.site.path("small").strip_prefix("/").expect("an absolute path")).join(name)
    }

    /// Returns the number of signatures in its log, and checks the chain.
    fn logged(&self) -> usize {
        let program = crate::support::enroute::program();
        let verify = format!("{} keyserver audit small/audit.log", program.display());
        let mut command = Command::new("sh");
        command.args(["-ec", &format!("{} {verify}", self.enter())]);
        let verified = Process::start(&mut command).wait();
        assert!(verified.status.success(), "{}", verified.stderr);
        let log = fs::read_to_string(self.inside("audit.log")).expect("the log");
        log.lines().filter(|line| line.contains("\"done\"")).count()
    }
}

/// Edge, key server and origin.
struct Machine<'s> {
    keys: Keys<'s>,
    relay: RelayHandle,
    silent: Arc<AtomicBool>,
    edge: Edge<'s>,
}

impl<'s> Machine<'s> {
    fn start(site: &'s Site, seed: u64) -> Self {
        site.certificate(SHOP, "ec");
        site.import(SHOP, &[]);
        let keys = Keys::start(site);
        let silent = Arc::new(AtomicBool::new(false));
        let is_silent = Arc::clone(&silent);
        let origin = Origin::start(move |asked| {
            while is_silent.load(SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            page(asked)
        });
        let mut config = RelayConfig::new(origin.address).round_trip(Duration::from_micros(500));
        // Bodies take a while, so that they are cut in the middle.
        config.down.bits_per_second = Some(200_000_000);
        config.handshake = false;
        config.seed = seed;
        let relay = Relay::start(config).expect("a relay");
        let key = format!("keyserver:{}", keys.address);
        let options = site.identity("500ms") + LIMITS;
        let edge = site.start(&options, &site.site_with_key(SHOP, relay.local_addr(), &key));
        Self { keys, relay, silent, edge }
    }

    /// Applies the fault for this time.
    fn suffer(&self, fault: Fault, lasts: Duration) {
        match fault {
            Fault::KeyServerKilled => {
                drop(self.keys.server.lock().expect("not poisoned").take());
                thread::sleep(lasts);
            }
            Fault::KeyServerStopped => {
                self.keys.tell("STOP");
                thread::sleep(lasts);
                self.keys.tell("CONT");
            }
            Fault::FullDisk => {
                let mut file = File::create(self.keys.inside("ballast")).expect("a file");
                let began = Instant::now();
                while began.elapsed() < lasts {
                    if file.write_all(&[1; 4 << 10]).is_err() {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                fs::remove_file(self.keys.inside("ballast")).expect("it is there");
            }
            Fault::OriginSilent => {
                self.silent.store(true, SeqCst);
                thread::sleep(lasts);
                self.silent.store(false, SeqCst);
            }
            Fault::PathCut => {
                self.relay.cut();
                thread::sleep(lasts);
                self.relay.restore();
            }
            Fault::EdgeStopped => {
                self.edge.enroute.process().stop();
                thread::sleep(lasts);
                self.edge.enroute.process().signal("CONT");
            }
        }
    }

    /// Ends the faults, and waits until new clients are served again.
    fn recover(&self, seen: &Seen) {
        if self.keys.server.lock().expect("not poisoned").is_none() {
            self.keys.bring_up();
        }
        until("all are served again", || {
            let answer = Visitor::new(CLIENTS, self.edge.address).ask("/shared/0", seen);
            answer.is_some_and(|answer| answer.status == 200)
        });
    }
}

/// The responses of the origin: a page contains its client, path and length, which determine its
/// end.
fn page(asked: &Asked) -> (u16, String, String) {
    let client = asked.header("cookie").trim_start_matches("client=");
    let is_shared = asked.path.starts_with("/shared");
    let (said, of) = match is_shared {
        true => ("cache-control: max-age=1", "all"),
        // Stored only to be revalidated: each client has a different one.
        false => ("cache-control: no-cache\netag: \"", client),
    };
    let lines = if is_shared { said.to_owned() } else { format!("{said}{of}\"") };
    (200, lines, text(&asked.path, of))
}

fn text(path: &str, of: &str) -> String {
    let mut text = format!("{path} of {of}\n");
    let number: u64 = path.rsplit('/').next().and_then(|part| part.parse().ok()).unwrap_or(0);
    let length = 100 + (number * 7_919) % PAGE_BYTES_MAX;
    while (text.len() as u64) < length {
        let at = text.len();
        let _ = write!(text, "{at} {path} {of};");
    }
    text
}

/// Observations of all clients.
#[derive(Debug, Default)]
struct Seen {
    shaken: AtomicU64,
    pages: AtomicU64,
    refused: AtomicU64,
    broken: AtomicU64,
}

/// A client, with or without a connection.
struct Visitor {
    number: usize,
    edge: SocketAddr,
    open: Option<Tls>,
}

impl Visitor {
    fn new(number: usize, edge: SocketAddr) -> Self {
        Self { number, edge, open: None }
    }

    /// Returns the response; the connection is kept if the response was complete.
    fn ask(&mut self, path: &str, seen: &Seen) -> Option<Answer> {
        if self.open.is_none() {
            self.open = Tls::shake_hands(self.edge, SHOP, "http/1.1", PATIENCE);
            seen.shaken.fetch_add(u64::from(self.open.is_some()), SeqCst);
        }
        let mut open = self.open.take()?;
        let cookie = format!("Cookie: client={}", self.number);
        open.send(format!("GET {path} HTTP/1.1\r\nHost: {SHOP}\r\n{cookie}\r\n\r\n").as_bytes());
        let answer = open.answer(false)?;
        self.open = Some(open);
        Some(answer)
    }

    /// Requests pages until the faults are over.
    fn run(mut self, seed: u64, over: &AtomicBool, seen: &Seen) {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ (self.number as u64) << 32);
        while !over.load(SeqCst) {
            let number = random.random_range(0..PAGES);
            let kind = if random.random_bool(0.5) { "shared" } else { "own" };
            let path = format!("/{kind}/{number}");
            match self.ask(&path, seen) {
                Some(answer) if answer.status == 200 => {
                    let number = self.number.to_string();
                    let of = if kind == "shared" { "all" } else { &number };
                    assert!(answer.body == text(&path, of), "client {number}: {path}: {answer:?}");
                    seen.pages.fetch_add(1, SeqCst);
                }
                Some(answer) => {
                    assert!([502, 503, 504].contains(&answer.status), "{path}: {answer:?}");
                    seen.refused.fetch_add(1, SeqCst);
                }
                None => {
                    seen.broken.fetch_add(1, SeqCst);
                    thread::sleep(Duration::from_millis(5));
                }
            }
            if random.random_ratio(1, 4) {
                self.open = None;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Name under which failed seeds are stored.
const NAME: &str = "edge_two_faults";

/// Runs at least `rounds` rounds of two faults, for at least `time`; `None` if a tool is not
/// installed.
fn stands(seed: u64, rounds: usize, time: Duration) -> Option<()> {
    if !is_root("a small file system of its own needs root") {
        return None;
    }
    let site = Site::create()?;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let machine = Machine::start(&site, seed);
    let (seen, began, mut round) = (Seen::default(), Instant::now(), 0);
    machine.recover(&seen);
    while round < rounds || began.elapsed() < time {
        let over = AtomicBool::new(false);
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| random.random()).collect();
        thread::scope(|scope| {
            for (number, seed) in seeds.into_iter().enumerate() {
                let (over, seen) = (&over, &seen);
                let visitor = Visitor::new(number, machine.edge.address);
                scope.spawn(move || visitor.run(seed, over, seen));
            }
            let suffer = |fault, lasts| machine.suffer(fault, lasts);
            two_at_once(&FAULTS, round, &mut random, suffer);
            machine.recover(&seen);
            over.store(true, SeqCst);
        });
        round += 1;
        if round % 10 == 0 {
            eprintln!("{round} rounds: {seen:?}");
        }
    }
    // Signatures that were used, as counted by the clients and by the edge.
    let signed = seen.shaken.load(SeqCst).max(machine.edge.counted("handshakes_full"));
    let logged = machine.keys.logged();
    eprintln!("{round} rounds: {seen:?}, {signed} signatures used, {logged} logged");
    assert!(logged as u64 >= signed, "{signed} signatures were used, and {logged} are in the log");
    let pages = seen.pages.load(SeqCst);
    assert!(pages >= 3 * round as u64, "only {pages} pages in {round} rounds");
    Some(())
}

#[test]
fn in_every_pair_of_them() {
    let rounds = faults::rounds(FAULTS.len());
    seeds::each(NAME, [1], |seed| stands(seed, rounds, Duration::ZERO));
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    let seed = RandomState::new().hash_one(0_u8);
    seeds::each(NAME, [seed], |seed| stands(seed, 30, Duration::from_secs(3_600)));
}
