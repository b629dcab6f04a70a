//! Faults of a rack: controller and server are killed or stopped, paths are cut or delayed; one or
//! two at a time.

use std::{
    path::Path,
    sync::RwLock,
    thread,
    time::{Duration, Instant},
};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::process::Signal;

use super::KEYS;
use crate::{
    rack::{
        self, PROGRAM, Rack, SWITCH,
        asking::{Asking, NetCache},
        paths::FAR_SERVER,
    },
    support::history::{Recorder, What},
};

const ATTACHED: [&str; 6] = ["--threshold", "2", "--sampled", "65536", "--entries", "32"];
/// Maximum time for which a packet is on a path.
const DRAINED: Duration = Duration::from_millis(100);
/// Number of kills of a server in a run, and the minimum interval between them.
const KILLS: u32 = 6;
const KILLED_EVERY_MIN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// Keeps its values when it is killed.
    Database,
    /// Loses its values when it is killed.
    Agent,
    Memcached,
}

/// The present faults of a rack, and the count of each kind.
pub(crate) struct Trouble<'a> {
    pub(crate) random: Pcg64Mcg,
    controller: u32,
    server: u32,
    what: Server,
    files: &'a Path,
    /// The time at which the server was last killed.
    killed: Instant,
    killed_every: Duration,
    pub(crate) counts: [usize; 4],
    pub(crate) pairs: Vec<[Fault; 2]>,
}

/// The temporary faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ControllerKilled,
    ControllerStopped,
    ServerKilled,
    ServerStopped,
    ClientsCut,
    ServersCut,
}

const FAULTS: [Fault; 6] = [
    Fault::ControllerKilled,
    Fault::ControllerStopped,
    Fault::ServerKilled,
    Fault::ServerStopped,
    Fault::ClientsCut,
    Fault::ServersCut,
];

impl<'a> Trouble<'a> {
    /// Starts controller and server. `None` without a server program.
    pub(crate) fn new(
        rack: &mut Rack,
        what: Server,
        files: &'a Path,
        seed: u64,
        span: Duration,
    ) -> Option<Self> {
        Some(Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            controller: rack.attach(&ATTACHED),
            server: start(rack, what, files)?,
            what,
            files,
            killed: Instant::now(),
            killed_every: (span / KILLS).max(KILLED_EVERY_MIN),
            counts: [0; 4],
            pairs: Vec::new(),
        })
    }

    /// Two faults that begin together and end one after the other.
    pub(crate) fn make_two(&mut self, rack: &mut Rack) {
        let mut drawn = || FAULTS[self.random.random_range(0..FAULTS.len())];
        let pair = [drawn(), drawn()];
        let hits = |one: Fault, other: Fault| pair.contains(&one) && pair.contains(&other);
        let is_impossible = pair[0] == pair[1]
            || hits(Fault::ControllerKilled, Fault::ControllerStopped)
            || hits(Fault::ServerKilled, Fault::ServerStopped)
            // Only the database keeps its values.
            || pair.contains(&Fault::ServerKilled)
                && (self.what != Server::Database || self.killed.elapsed() < self.killed_every);
        if is_impossible {
            return;
        }
        self.pairs.push(pair);
        for fault in pair {
            self.begin(rack, fault);
            thread::sleep(Duration::from_millis(self.random.random_range(0..100)));
        }
        for fault in pair {
            thread::sleep(Duration::from_millis(self.random.random_range(0..600)));
            self.end(rack, fault);
        }
    }

    fn begin(&mut self, rack: &mut Rack, fault: Fault) {
        match fault {
            Fault::ControllerKilled => rack.kill(self.controller),
            Fault::ControllerStopped => rack::signal(self.controller, Signal::STOP),
            Fault::ServerKilled => rack.kill(self.server),
            Fault::ServerStopped => rack::signal(self.server, Signal::STOP),
            Fault::ClientsCut => rack.path(0).cut(),
            Fault::ServersCut => rack.path(1).cut(),
        }
    }

    fn end(&mut self, rack: &mut Rack, fault: Fault) {
        match fault {
            Fault::ControllerKilled => self.controller = rack.attach(&ATTACHED),
            Fault::ControllerStopped => rack::signal(self.controller, Signal::CONT),
            Fault::ServerKilled => {
                self.server = start(rack, self.what, self.files).expect("it started before");
                self.killed = Instant::now();
            }
            Fault::ServerStopped => rack::signal(self.server, Signal::CONT),
            Fault::ClientsCut => rack.path(0).restore(),
            Fault::ServersCut => rack.path(1).restore(),
        }
    }

    pub(crate) fn make(&mut self, rack: &mut Rack, quiet: &RwLock<()>, recorder: &mut Recorder) {
        let pause = Duration::from_millis(self.random.random_range(0..200));
        let path = rack.path(self.random.random_range(0..2));
        let what = match self.random.random_range(0..20) {
            // memcached cannot keep its values.
            _ if self.what != Server::Memcached && self.killed.elapsed() > self.killed_every => {
                self.restart_server(rack, pause, quiet, recorder);
                1
            }
            0..2 => {
                rack.kill(self.controller);
                if self.random.random() {
                    // This controller is killed while it attaches.
                    let begun = rack.begin_to_attach(&ATTACHED);
                    thread::sleep(pause * 5);
                    rack.kill(begun);
                }
                self.controller = rack.attach(&ATTACHED);
                0
            }
            2..6 => {
                path.cut();
                thread::sleep(pause);
                path.restore();
                2
            }
            _ => {
                let delay = Duration::from_micros(self.random.random_range(0..3_000));
                path.set_delay(delay, delay);
                3
            }
        };
        self.counts[what] += 1;
    }

    fn restart_server(
        &mut self,
        rack: &mut Rack,
        pause: Duration,
        quiet: &RwLock<()>,
        recorder: &mut Recorder,
    ) {
        let mut restart = |rack: &mut Rack| {
            rack.kill(self.server);
            thread::sleep(pause);
            self.server = start(rack, self.what, self.files).expect("it started before");
        };
        if self.what == Server::Agent {
            // Its data are deleted; a retried write would be applied again.
            let _quiet = quiet.write().expect("no thread panicked");
            thread::sleep(DRAINED);
            recorder.record_deletes(0..KEYS, || {
                restart(rack);
                // A server that answers a write shows that the switch has no earlier value.
                let write = || NetCache::at(FAR_SERVER).ask(KEYS, What::Write(0));
                rack.within("x", || rack::wait("the agent serves", || write().is_some()));
            });
        } else {
            restart(rack);
        }
        self.killed = Instant::now();
    }
}

fn start(rack: &mut Rack, server: Server, files: &Path) -> Option<u32> {
    let listen = format!("{FAR_SERVER}:50000");
    let directory = files.to_str().expect("a path");
    let behind = ["--netcache", &listen, "--switch", SWITCH];
    Some(match server {
        Server::Agent => {
            let agent = ["switch", "agent", "--listen", &listen, "--switch", SWITCH];
            rack.start("y", PROGRAM, &agent)
        }
        Server::Database => {
            let redis = format!("{FAR_SERVER}:6379");
            let database = ["db", "--dir", directory, "--listen", &redis, "--memory", "64MiB"];
            rack.start("y", PROGRAM, &[&database[..], &["--sync", "always"], &behind].concat())
        }
        Server::Memcached => {
            let program = rack::memcached()?;
            let listen = ["-u", "nobody", "-l", FAR_SERVER, "-p", "11211", "-U", "11211"];
            rack.start("y", program, &listen)
        }
    })
}
