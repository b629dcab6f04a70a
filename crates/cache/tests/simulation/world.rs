//! Sessions between simulated clients and a simulated origin, from one seed.
//!
//! In every step one event happens: a client sends a request, a chunk of a connection's bytes moves
//! one hop, the origin executes a request of some connection, time passes, or a connection breaks.
//! The order between connections is random; the order within a connection is kept. The origin may
//! still execute the requests of a broken connection until the quarantine has elapsed.
//!
//! The oracle is the origin's history. A read is correct if it returns a value that the key had at
//! some moment between request and reply, encoded as the origin would have encoded it.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use cache::{
    Session, Side,
    lease::Ticket,
    session::{self, Afterlife, Loss, Verify},
    storage::{self, MemoryStorage, Population, Storage},
};

use crate::{
    origin::Origin,
    protocol::{Ask, Asking, Protocol},
    random::Random,
};

const SEATS: usize = 8;
/// For this long the origin may execute requests of a broken connection.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(5);
/// Maximum number of requests that a client has in flight.
const PIPELINE: usize = 5;

struct Seat<P: Protocol> {
    session: Session<P::Filter>,
    client: P::Client,
    asked: VecDeque<(u64, Ask)>,
    client_out: Vec<u8>,
    client_in: Vec<u8>,
    link: Option<Connection<P>>,
    /// The client has disconnected; the session waits for the origin's replies to its writes.
    gone: bool,
}

/// The origin's side of a connection.
struct Connection<P: Protocol> {
    server: P::Server,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The time at which the connection was cut; `Duration::MAX` if it was not.
    cut_at: Duration,
}

impl<P: Protocol> Connection<P> {
    fn new() -> Self {
        let cut_at = Duration::MAX;
        Self { server: P::Server::default(), input: Vec::new(), output: Vec::new(), cut_at }
    }
}

pub(crate) struct World<P: Protocol> {
    random: Random,
    storage: MemoryStorage,
    session_config: Arc<session::Config>,
    seats: Vec<Seat<P>>,
    tickets: u64,
    cut: Vec<Connection<P>>,
    origin: Origin,
    values: u32,
    reads: usize,
    /// One in this many connection faults and writes of whole databases happens.
    calm: usize,
    /// One in this many writes of a key happens.
    idle: usize,
    /// No more faults and requests: the run comes to its end.
    ending: bool,
}

/// Counters that show that a run was not idle.
pub(crate) struct Seen {
    pub(crate) reads: usize,
    pub(crate) hits: u64,
    pub(crate) verified: u64,
}

/// Runs the simulation of `seed` with this quarantine; panics if a read or the final state is
/// wrong.
pub(crate) fn run<P: Protocol>(seed: u64, steps: usize, quarantine: Duration) -> Seen {
    let mut random = Random::new(seed);
    let calm = [1, 10, 100][random.below(3)];
    let idle = [1, 4, 16][random.below(3)];
    let mut memory = storage::Config::default().memory;
    memory.items_max = [3, 64][random.below(2)];
    let config = storage::Config {
        memory,
        population: [Population::OnMiss, Population::OnWrite][random.below(2)],
        quarantine,
        ..storage::Config::default()
    };
    let session_config = session::Config {
        buffered_bytes_max: [1 << 20, 200][random.below(2)],
        captured_bytes_max: [1 << 20, 150][random.below(2)],
        pipeline_max: [4_096, 3][random.below(2)],
        held_writes_max: [1_024, 1][random.below(2)],
        authorization_lease: Duration::from_secs([1, 30][random.below(2)]),
        verify: Verify::share([0.0, 0.3][random.below(2)]).map(Arc::new),
        ..session::Config::default()
    };
    let mut world = World::<P> {
        storage: MemoryStorage::new(config, seed),
        session_config: Arc::new(session_config),
        random,
        seats: Vec::new(),
        tickets: 0,
        cut: Vec::new(),
        origin: Origin::new(),
        values: 0,
        reads: 0,
        calm,
        idle,
        ending: false,
    };
    for _ in 0..SEATS {
        let seat = world.seat();
        world.seats.push(seat);
    }
    for _ in 0..steps {
        world.step();
    }
    world.end();
    let stats = world.storage.stats();
    assert_eq!(stats.differed.value(), 0, "an entry differs from the value at the origin");
    Seen { reads: world.reads, hits: stats.hits.value(), verified: stats.verified.value() }
}

impl<P: Protocol> World<P> {
    fn seat(&mut self) -> Seat<P> {
        self.tickets += 1;
        let filter = P::filter(&mut self.random);
        Seat {
            session: Session::new(filter, Arc::clone(&self.session_config), Ticket(self.tickets)),
            client: P::Client::default(),
            asked: VecDeque::new(),
            client_out: Vec::new(),
            client_in: Vec::new(),
            link: None,
            gone: false,
        }
    }

    fn step(&mut self) {
        let at = self.random.below(self.seats.len());
        match self.random.below(100) {
            0..12 => self.ask(at),
            12..18 => self.hurry(at),
            18..30 => self.client_to_session(at),
            30..48 => self.session_to_origin(at),
            48..62 => self.serve(at),
            62..80 => self.origin_to_session(at),
            80..94 => self.session_to_client(at),
            94..97 => self.pass_time(),
            97 | 98 => self.serve_cut(),
            _ if self.ending || !self.random.one_in(2 * self.calm) => {}
            _ if self.random.one_in(2) => self.cut_client(at),
            _ => self.cut_origin(at),
        }
        self.wake();
        self.let_go();
    }

    /// Closes the sessions of disconnected clients once their writes are answered.
    fn let_go(&mut self) {
        let done = |seat: &Seat<P>| seat.gone && !seat.session.awaits_writes();
        while let Some(at) = self.seats.iter().position(done) {
            self.close(at);
        }
    }

    fn close(&mut self, at: usize) {
        let mut old = self.seats.swap_remove(at);
        old.session.close(&mut self.storage, self.origin.now);
        self.leave_behind(old.link);
    }

    fn ask(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        if self.ending || seat.gone || seat.asked.len() >= PIPELINE {
            return;
        }
        let out = &mut seat.client_out;
        let mut asking = Asking {
            random: &mut self.random,
            until: self.origin.now + QUARANTINE,
            calm: self.calm,
            idle: self.idle,
            values: &mut self.values,
        };
        let asks = P::ask(&mut seat.client, &mut asking, out);
        let moment = self.origin.moment;
        seat.asked.extend(asks.into_iter().map(|ask| (moment, ask)));
    }

    /// One client's requests are sent and answered before anything else happens.
    fn hurry(&mut self, at: usize) {
        for _ in 0..4 {
            self.ask(at);
            self.client_to_session(at);
            self.wake();
            self.session_to_origin(at);
            (0..4).for_each(|_| self.serve(at));
            self.origin_to_session(at);
            self.wake();
            self.session_to_client(at);
        }
    }

    fn client_to_session(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        let now = self.origin.now;
        if seat.gone {
            return;
        }
        if seat.session.can_proceed() {
            seat.session.proceed(&mut self.storage, now).expect("well-formed");
        }
        if seat.session.wants(Side::Client) {
            let piece = piece(&mut seat.client_out, &mut self.random);
            let received = seat.session.receive(Side::Client, &piece, &mut self.storage, now);
            received.expect("clients keep to the protocol");
        }
    }

    fn session_to_origin(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        if seat.session.is_written(Side::Server) {
            return;
        }
        if seat.link.is_none() {
            if !self.ending && self.random.one_in(10 * self.calm) {
                let now = self.origin.now;
                if seat.session.origin_unreachable(
                    "the origin cannot be reached",
                    &mut self.storage,
                    now,
                ) == Afterlife::Close
                {
                    self.part(at);
                }
                return;
            }
            seat.link = Some(Connection::new());
            seat.session.origin_connected(self.origin.now);
        }
        let output = seat.session.output(Side::Server);
        let count = length(output.len(), &mut self.random);
        let input = seat.link.as_mut().map(|link| &mut link.input).expect("just connected");
        input.extend_from_slice(&output.bytes()[..count]);
        output.advance(count);
    }

    fn serve(&mut self, at: usize) {
        if let Some(link) = &mut self.seats[at].link {
            let (server, input, out) = (&mut link.server, &mut link.input, &mut link.output);
            P::serve(server, input, &mut self.origin, &mut self.random, out);
        }
    }

    fn origin_to_session(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        let Some(link) = &mut seat.link else { return };
        if !link.output.is_empty() && seat.session.wants(Side::Server) {
            let piece = piece(&mut link.output, &mut self.random);
            let now = self.origin.now;
            let received = seat.session.receive(Side::Server, &piece, &mut self.storage, now);
            received.expect("the origin keeps to the protocol");
        }
    }

    fn session_to_client(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        let output = seat.session.output(Side::Client);
        if !output.is_empty() {
            let count = length(output.len(), &mut self.random);
            seat.client_in.extend_from_slice(&output.bytes()[..count]);
            output.advance(count);
        }
        let mut reply = Vec::new();
        while P::reply(&mut seat.client, &mut seat.client_in, &mut reply) {
            let (asked_at, ask) = seat.asked.pop_front().expect("every reply answers a request");
            if P::gives_up(&seat.client) {
                self.cut_client(at);
                return;
            }
            let Ask::Read { keys, form } = ask else { continue };
            self.reads += 1;
            let values: Vec<_> = keys.iter().map(|key| self.origin.since(*key, asked_at)).collect();
            let right = P::is_answer(&seat.client, form, &keys, &values, &reply);
            assert!(
                right.unwrap_or(true),
                "asked at moment {asked_at} for keys {keys:?} (form {form}), which held {values:?} \
                 until moment {}, and got {}",
                self.origin.moment,
                reply.escape_ascii()
            );
        }
    }

    fn pass_time(&mut self) {
        let scale = [5, 50, 500, 2_000][self.random.below(4)];
        let now = self.origin.now + Duration::from_millis(self.random.below(scale) as u64);
        self.cut.retain(|connection| connection.cut_at + QUARANTINE > now);
        self.origin.now = now;
        self.origin.expire();
        self.storage.advance(now);
        for seat in &mut self.seats {
            seat.session.handle_timeout(&mut self.storage, now).expect("well-formed");
        }
    }

    /// For a connection that was cut, the origin executes what it had received, or drops the rest.
    fn serve_cut(&mut self) {
        if self.cut.is_empty() {
            return;
        }
        let at = self.random.below(self.cut.len());
        let link = &mut self.cut[at];
        let (server, input, out) = (&mut link.server, &mut link.input, &mut link.output);
        let served = P::serve(server, input, &mut self.origin, &mut self.random, out);
        if !served || self.random.one_in(10) {
            self.cut.swap_remove(at);
        }
    }

    /// Bytes that were written just before a connection breaks may or may not arrive.
    fn write_last_words(&mut self, at: usize) {
        if self.random.one_in(2) {
            self.client_to_session(at);
        }
        if self.random.one_in(2) {
            self.session_to_origin(at);
        }
    }

    fn cut_client(&mut self, at: usize) {
        self.write_last_words(at);
        self.part(at);
    }

    /// The client of a session disconnects; a session without an origin connection makes no new
    /// one.
    fn part(&mut self, at: usize) {
        if self.seats[at].gone {
            return self.close(at);
        }
        let seat = self.seat();
        let mut old = mem::replace(&mut self.seats[at], seat);
        let stays = old.link.is_some() && old.session.awaits_writes() && self.random.one_in(2);
        if stays {
            old.session.client_gone();
            old.asked.clear();
            old.client_in.clear();
            old.gone = true;
        }
        self.seats.push(old);
        if !stays {
            self.close(self.seats.len() - 1);
        }
    }

    fn cut_origin(&mut self, at: usize) {
        self.write_last_words(at);
        let now = self.origin.now;
        let seat = &mut self.seats[at];
        let Some(link) = seat.link.take() else { return };
        self.leave_behind(Some(link));
        let lost = self.seats[at].session.origin_lost(Loss::Broken, &mut self.storage, now);
        if lost == Afterlife::Close {
            self.part(at);
        }
    }

    fn leave_behind(&mut self, link: Option<Connection<P>>) {
        let cut_at = self.origin.now;
        self.cut.extend(link.map(|link| Connection { cut_at, ..link }));
    }

    fn wake(&mut self) {
        loop {
            let woken = mem::take(self.storage.woken());
            if woken.is_empty() {
                return;
            }
            for ticket in woken {
                for seat in &mut self.seats {
                    let now = self.origin.now;
                    seat.session.complete(ticket, &mut self.storage, now).expect("well-formed");
                }
            }
        }
    }

    /// Waits until every request is answered, and asserts that storage is idle.
    fn end(&mut self) {
        self.ending = true;
        let mut steps = 0;
        while self.seats.iter().any(|seat| !seat.asked.is_empty() || !seat.session.is_quiet()) {
            self.step();
            steps += 1;
            assert!(steps < 200_000, "a client waits forever: {:?}", self.stuck());
        }
        for seat in &mut self.seats {
            seat.session.close(&mut self.storage, self.origin.now);
        }
        self.origin.now += 2 * QUARANTINE;
        self.storage.advance(self.origin.now);
        self.wake();
        assert!(self.storage.is_idle(), "storage is not idle");
    }

    fn stuck(&self) -> Vec<String> {
        let stuck = self.seats.iter().filter(|seat| !seat.asked.is_empty());
        stuck.map(|seat| format!("{:?} {:?}", seat.asked, seat.client)).collect()
    }
}

/// Removes a chunk of random length from the front.
fn piece(bytes: &mut Vec<u8>, random: &mut Random) -> Vec<u8> {
    let count = length(bytes.len(), random);
    bytes.drain(..count).collect()
}

/// The whole length in half of the cases, a random shorter one otherwise.
fn length(all: usize, random: &mut Random) -> usize {
    if all == 0 || random.one_in(2) { all } else { 1 + random.below(all) }
}
