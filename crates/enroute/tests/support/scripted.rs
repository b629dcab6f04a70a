//! An origin that executes a script: for features that no available server offers (SCRAM,
//! compression, transactions, change streams) and for replies that must wait for an action of the
//! test.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use bson::doc;

use super::message::Message;
use super::process::PATIENCE;
use super::script::{Action, Exchange, Script};

/// A running script; see [`super::script`] for its text. End the test with [`Self::finish`].
pub struct ScriptedOrigin {
    address: SocketAddr,
    stage: Arc<Stage>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    always: Vec<Exchange>,
    expected: VecDeque<Exchange>,
    /// Number of exchanges whose actions are not complete.
    playing: usize,
    failures: Vec<String>,
    reached: HashSet<String>,
    released: HashSet<String>,
    connections: Vec<TcpStream>,
    ended: bool,
    /// The `processId` that it reports.
    process: i32,
}

impl ScriptedOrigin {
    /// Serves the script on a free loopback port.
    ///
    /// Panics with the line number if the text is not a valid script.
    pub fn start(script: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let Script { always, expected } = Script::parse(script, &address.to_string());
        let state = State { always, expected: expected.into(), ..State::default() };
        let stage = Arc::new(Stage { state: Mutex::new(state), changed: Condvar::new() });
        let theirs = Arc::clone(&stage);
        let acceptor = thread::spawn(move || accept(&listener, &theirs));
        Self { address, stage, acceptor: Some(acceptor) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until a connection has reached `hold NAME`.
    pub fn reached(&self, hold: &str) {
        let state = self.stage.wait_while(|state| !state.reached.contains(hold));
        assert!(state.reached.contains(hold), "hold {hold} not reached; {}", state.describe());
    }

    /// Releases connections that wait, or will wait, at `hold NAME`.
    pub fn release(&self, hold: &str) {
        self.stage.lock().released.insert(hold.to_owned());
        self.stage.changed.notify_all();
    }

    /// Reports another `processId` from now on.
    pub fn become_another(&self) {
        self.stage.lock().process += 1;
    }

    /// Waits until the script is complete.
    ///
    /// Panics if it is not, or if there was an unexpected request.
    pub fn finish(self) {
        let state = self.stage.wait_while(|state| {
            state.failures.is_empty() && (state.playing > 0 || !state.expected.is_empty())
        });
        assert!(state.expected.is_empty() && state.failures.is_empty(), "{}", state.describe());
    }
}

impl Drop for ScriptedOrigin {
    fn drop(&mut self) {
        let mut state = self.stage.lock();
        state.ended = true;
        for connection in &state.connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        self.stage.changed.notify_all();
        // Wakes the acceptor, which then sees the end.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl State {
    fn describe(&self) -> String {
        let next = self.expected.front();
        let next = next.map_or("nothing".to_owned(), |exchange| exchange.request.to_string());
        format!("unexpected: {:#?}; the script expects next: {next}", self.failures)
    }
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked in another thread still has to end.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn wait_while(&self, mut waiting: impl FnMut(&State) -> bool) -> MutexGuard<'_, State> {
        self.changed
            .wait_timeout_while(self.lock(), PATIENCE, |state| waiting(state))
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .0
    }

    /// The script's actions for this request; the expected steps are consumed in order.
    fn actions_for(&self, request: &Message) -> Result<Vec<Action>, String> {
        let mut state = self.lock();
        if state.expected.front().is_some_and(|exchange| exchange.request.matches(request)) {
            state.playing += 1;
            return Ok(state.expected.pop_front().expect("there is a front").actions);
        }
        if let Some(exchange) = state.always.iter().find(|one| one.request.matches(request)) {
            let actions = exchange.actions.clone();
            state.playing += 1;
            return Ok(actions);
        }
        let what = format!("{} {}", request.command(), request.body);
        state.failures.push(what);
        let described = state.describe();
        drop(state);
        self.changed.notify_all();
        Err(described)
    }

    fn played(&self) {
        self.lock().playing -= 1;
        self.changed.notify_all();
    }

    fn hold(&self, name: &str) {
        self.lock().reached.insert(name.to_owned());
        self.changed.notify_all();
        drop(self.wait_while(|state| !state.ended && !state.released.contains(name)));
    }
}

fn accept(listener: &TcpListener, stage: &Arc<Stage>) {
    let mut players = Vec::new();
    for connection in listener.incoming() {
        let Ok(connection) = connection else { break };
        let mut state = stage.lock();
        if state.ended {
            break;
        }
        state.connections.extend(connection.try_clone());
        drop(state);
        let theirs = Arc::clone(stage);
        players.push(thread::spawn(move || {
            // However the connection ends, that is not an error of the script.
            let _ = play(&connection, &theirs);
            let _ = connection.shutdown(Shutdown::Both);
        }));
    }
    for player in players {
        let _ = player.join();
    }
}

fn play(mut connection: &TcpStream, stage: &Stage) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut replies = 0;
    while let Some(request) = Message::read(&mut connection)? {
        // The cache's own connection, which queries the origin's identity, is not part of the
        // script.
        if request.body.get_str("comment").is_ok_and(|comment| comment == "enroute: watch") {
            let process = stage.lock().process;
            let body = doc! { "ok": 1.0, "topologyVersion": { "processId": process } };
            reply_to(&request, body, &mut replies).write(&mut connection)?;
            continue;
        }
        // The cache's query whether the connection is served.
        if request.body.get_str("$db").is_ok_and(|name| name == "enroute") {
            reply_to(&request, doc! { "ok": 1.0 }, &mut replies).write(&mut connection)?;
            continue;
        }
        match stage.actions_for(&request) {
            Ok(actions) => {
                let outcome = perform(connection, stage, &request, actions, &mut replies);
                stage.played();
                if outcome? == Flow::Close {
                    return Ok(());
                }
            }
            Err(what) if !request.more_to_come => {
                let body =
                    doc! { "ok": 0.0, "errmsg": what, "code": 8, "codeName": "UnknownError" };
                reply_to(&request, body, &mut replies).write(&mut connection)?;
            }
            Err(_) => {}
        }
    }
    Ok(())
}

#[derive(PartialEq)]
enum Flow {
    Continue,
    Close,
}

fn perform(
    mut connection: &TcpStream,
    stage: &Stage,
    request: &Message,
    actions: Vec<Action>,
    replies: &mut i32,
) -> io::Result<Flow> {
    // In a stream of replies, each answers the one before it.
    let mut response_to = request.request_id;
    for action in actions {
        match action {
            Action::Reply { body, more_to_come, compressor } => {
                let reply = reply_to(request, body, replies);
                let reply = Message { response_to, more_to_come, compressor, ..reply };
                reply.write(&mut connection)?;
                response_to = reply.request_id;
            }
            Action::Delay(duration) => thread::sleep(duration),
            Action::Hold(name) => stage.hold(&name),
            Action::Close => return Ok(Flow::Close),
        }
    }
    Ok(Flow::Continue)
}

fn reply_to(request: &Message, body: bson::Document, replies: &mut i32) -> Message {
    *replies += 1;
    let (response_to, legacy) = (request.request_id, request.legacy);
    Message { response_to, legacy, ..Message::new(*replies, body) }
}
