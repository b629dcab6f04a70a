//! Compares the command table with that of a real server. Skipped without a `redis-server` in the
//! path; `REDIS_SERVER` selects another binary, for example Valkey.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use wire::resp::command::{self, Command, Effect, Flags, Keys, Merge, Shards};
use wire::resp::{Frame, Limits, frame, request};

/// A server on loopback that ends with the test.
struct Server {
    process: Child,
    folder: PathBuf,
    connection: TcpStream,
}

impl Server {
    /// `None` if the binary does not exist.
    fn start() -> Option<Self> {
        let binary = std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("enroute-command-table-{port}"));
        std::fs::create_dir_all(&folder).unwrap();
        let spawned = Process::new(binary)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"])
            .arg(&folder)
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut process) = spawned else {
            std::fs::remove_dir_all(&folder).unwrap();
            return None;
        };
        wait_until_ready(&mut process);
        let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        Some(Self { process, folder, connection })
    }

    fn call(&mut self, arguments: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        request::write_command(&mut bytes, arguments);
        self.connection.write_all(&bytes).unwrap();
        let mut reply = Vec::new();
        let mut scanner = wire::resp::Scanner::new(&Limits::default());
        let mut chunk = vec![0; 1 << 16];
        loop {
            let received = self.connection.read(&mut chunk).unwrap();
            assert!(received > 0, "the server closed the connection");
            reply.extend_from_slice(&chunk[..received]);
            if scanner.advance(&chunk[..received]).unwrap().complete {
                return reply;
            }
        }
    }
}

/// A port below the kernel's ephemeral range; each call returns another one.
fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    loop {
        let number = GIVEN.fetch_add(1, Ordering::Relaxed) + (std::process::id() % 10_000) as u16;
        let port = 20_000 + number % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Reads the server's log until it listens.
fn wait_until_ready(process: &mut Child) {
    let log = process.stdout.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(log));
    let ready = lines.find(|line| line.as_ref().unwrap().contains("Ready to accept connections"));
    assert!(ready.is_some(), "the server ended before it listened");
    // Drains the pipe, so that the server never blocks on it.
    std::thread::spawn(move || lines.for_each(drop));
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The server's description of one command.
struct Row {
    name: String,
    arity: i64,
    flags: Vec<String>,
    categories: BTreeSet<String>,
    tips: Vec<String>,
    positions: [i64; 3],
    /// Its positions are cluster routing hints (a channel), not keys.
    no_keys: bool,
}

fn text(frame: &Frame<'_>) -> String {
    let bytes = frame.payload().or_else(|| frame.line()).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The rows of a reply to COMMAND; sub-commands follow their container.
fn rows(reply: &Frame<'_>) -> Vec<Row> {
    let mut found = Vec::new();
    for command in reply.elements() {
        let fields: Vec<Frame<'_>> = command.elements().collect();
        let number = |at: usize| fields[at].integer().unwrap();
        let (name, specs) = (text(&fields[0]), fields[8].bytes());
        found.push(Row {
            name,
            arity: number(1),
            flags: fields[2].elements().map(|flag| text(&flag)).collect(),
            categories: fields[6].elements().map(|each| text(&each).replace('@', "")).collect(),
            tips: fields[7].elements().map(|tip| text(&tip)).collect(),
            positions: [number(3), number(4), number(5)],
            no_keys: memchr::memmem::find(specs, b"not_key").is_some(),
        });
        found.extend(rows(&fields[9]));
    }
    found
}

fn ours() -> HashMap<&'static str, &'static Command> {
    let with_subcommands = |row: &'static Command| std::iter::once(row).chain(row.subcommands);
    command::all().flat_map(with_subcommands).map(|row| (row.name, row)).collect()
}

/// First, last and step as COMMAND reports them.
fn positions(keys: Keys) -> [i64; 3] {
    match keys {
        Keys::None | Keys::Streams => [0, 0, 0],
        Keys::Range { first, last, step } => [first.into(), last.into(), step.into()],
        Keys::Counted { destination: None, .. } => [0, 0, 0],
        Keys::Counted { destination: Some(at), .. } => [at.into(), at.into(), 1],
        Keys::SortStore | Keys::GeoStore => [1, 1, 1],
        Keys::Migrate => [3, 3, 1],
    }
}

#[test]
fn every_command_of_the_server_is_known_for_what_it_is() {
    let Some(mut server) = Server::start() else { return };
    let reply = server.call(&["COMMAND"]);
    let (reply, _) = frame::decode(&reply, &Limits::default()).unwrap().unwrap();
    let (ours, rows) = (ours(), rows(&reply));
    assert!(rows.len() > 300, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let Some(command) = ours.get(row.name.as_str()) else {
            wrong.push(format!("{}: not in the table", row.name));
            continue;
        };
        wrong.extend(differences(&row, command).map(|what| format!("{}: {what}", row.name)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Flags of the server that the table omits: those for finding keys, for modules, for clusters,
/// monitors and overloaded servers, and BLOCKING, which has a wider meaning in the table.
const LEFT_OUT: &[&str] = &[
    "allow_busy",
    "asking",
    "blocking",
    "module",
    "movablekeys",
    "may_replicate",
    "no_async_loading",
    "no_mandatory_keys",
    "skip_monitor",
    "skip_slowlog",
];

/// `db` uses these flags and categories. They differ between versions; the table is that of 7.0.
#[test]
fn flags_and_categories_are_those_of_redis_7_0() {
    let Some(mut server) = Server::start() else { return };
    let about = String::from_utf8(server.call(&["INFO", "server"])).unwrap();
    if !about.contains("redis_version:7.0.") {
        return;
    }
    let reply = server.call(&["COMMAND"]);
    let (reply, _) = frame::decode(&reply, &Limits::default()).unwrap().unwrap();
    let (ours, mut wrong) = (ours(), Vec::new());
    for row in rows(&reply) {
        let command = ours[row.name.as_str()];
        let flags: BTreeSet<&str> = command.flags.names().collect();
        let shown = row.flags.iter().map(String::as_str);
        let theirs: BTreeSet<&str> = shown.filter(|flag| !LEFT_OUT.contains(flag)).collect();
        if flags != theirs {
            wrong.push(format!("{}: {flags:?} are {theirs:?}", row.name));
        }
        let categories: BTreeSet<String> =
            command.categories().names().map(str::to_owned).collect();
        if categories != row.categories {
            wrong.push(format!("{}: {categories:?} are {:?}", row.name, row.categories));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn differences(row: &Row, command: &Command) -> impl Iterator<Item = String> + use<> {
    let has = |flag: &str| row.flags.iter().any(|own| own == flag);
    let mut wrong = Vec::new();
    // Versions differ, so the table accepts the widest range: it must not refuse what a server
    // accepts.
    let required = usize::try_from(row.arity.abs()).unwrap();
    let refused = !command.accepts(required) || (row.arity < 0 && command.arity > 0);
    if refused {
        wrong.push(format!("arity {} is {}", command.arity, row.arity));
    }
    let expected = if row.no_keys { [0, 0, 0] } else { row.positions };
    if positions(command.keys) != expected {
        wrong.push(format!("keys {:?} are {expected:?}", positions(command.keys)));
    }
    if has("write") && command.effect.is_read() {
        wrong.push(format!("{:?} is a write", command.effect));
    }
    // FUNCTION writes code, not keys.
    let code = row.name.starts_with("function|");
    if has("write") && !command.effect.is_write() && !code {
        wrong.push(format!("{:?} is a write", command.effect));
    }
    let kept = matches!(command.effect, Effect::Read | Effect::ReadMany(_));
    if kept && !has("readonly") {
        wrong.push("kept, but no read".to_owned());
    }
    if has("blocking") && !command.flags.contains(Flags::BLOCKING) {
        wrong.push("is blocking".to_owned());
    }
    if let Some((request, response)) = policies(command.shards) {
        let expected = request.iter().any(|policy| row.tips.iter().any(|tip| tip == policy));
        let same = response.is_none_or(|policy| row.tips.iter().any(|tip| tip == policy));
        if !expected || !same {
            wrong.push(format!("{:?} is {:?}", command.shards, row.tips));
        }
    }
    wrong.into_iter()
}

/// The request policies of which a server reports one, and the response policy it reports.
fn policies(shards: Shards) -> Option<(&'static [&'static str], Option<&'static str>)> {
    let (request, merge): (&[&str], Merge) = match shards {
        Shards::One => return None,
        Shards::OfKeys(merge) => (&["request_policy:multi_shard"], merge),
        Shards::All(merge) => (&["request_policy:all_shards", "request_policy:all_nodes"], merge),
    };
    let response = match merge {
        Merge::ByKey | Merge::Union => None,
        Merge::Sum => Some("response_policy:agg_sum"),
        Merge::And => Some("response_policy:agg_logical_and"),
        Merge::Same => Some("response_policy:all_succeeded"),
    };
    Some((request, response))
}

#[test]
fn finds_the_keys_the_server_finds() {
    let Some(mut server) = Server::start() else { return };
    for call in CALLS {
        let arguments: Vec<&str> = call.split(' ').collect();
        let mut bytes = Vec::new();
        request::write_command(&mut bytes, &arguments);
        let (request, _) = request::decode(&bytes, &Limits::default()).unwrap().unwrap();
        let keys = command::find(&request).unwrap().keys(&request).unwrap();
        let mut ours: Vec<String> =
            keys.map(|key| String::from_utf8(key.to_vec()).unwrap()).collect();

        let reply = server.call(&[&["COMMAND", "GETKEYS"], &arguments[..]].concat());
        let (reply, _) = frame::decode(&reply, &Limits::default()).unwrap().unwrap();
        assert!(!reply.is_error(), "{call}: {}", reply.bytes().escape_ascii());
        let mut theirs: Vec<String> = reply.elements().map(|key| text(&key)).collect();
        // The server lists a destination first, at whatever position it is.
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{call}");
    }
}

/// At least one call for each way of finding keys.
const CALLS: &[&str] = &[
    "GET a",
    "SET a 1 EX 9",
    "DEL a b c",
    "MGET a b",
    "MSET a 1 b 2",
    "BITOP AND d a b",
    "PFMERGE d a b",
    "BLPOP a b 0",
    "BZPOPMIN a b 0",
    "RENAME a b",
    "COPY a b DB 1",
    "MOVE a 1",
    "SMOVE a b m",
    "LMOVE a b LEFT RIGHT",
    "BLMOVE a b LEFT RIGHT 0",
    "OBJECT ENCODING a",
    "MEMORY USAGE a",
    "XGROUP CREATE a g 0",
    "XINFO STREAM a",
    "SINTERSTORE d a b",
    "SINTERCARD 2 a b LIMIT 9",
    "EVAL x 2 a b c",
    "EVALSHA_RO x 1 a b",
    "FCALL f 2 a b c",
    "ZUNIONSTORE d 2 a b WEIGHTS 1 2",
    "ZDIFF 2 a b WITHSCORES",
    "ZMPOP 1 a MIN",
    "LMPOP 2 a b LEFT",
    "BLMPOP 0 2 a b LEFT",
    "BZMPOP 0 1 a MIN",
    "ZRANGESTORE d a 0 -1",
    "GEOSEARCHSTORE d a FROMMEMBER m BYRADIUS 1 m",
    "XREAD COUNT 2 BLOCK 0 STREAMS a b 0 0",
    "XREADGROUP GROUP g c COUNT 1 NOACK STREAMS a b > >",
    "SORT a BY w LIMIT 0 9 GET # STORE d",
    "SORT a STORE b STORE d",
    "SORT a",
    "SORT_RO a BY w",
    "GEORADIUS a 1 2 3 m",
    "GEORADIUS a 1 2 3 m COUNT 4 STORE d",
    "GEORADIUSBYMEMBER a m 3 km STOREDIST d",
    "MIGRATE h 1 a 0 9 COPY",
    "RESTORE a 0 x",
    "WATCH a b",
    "LCS a b LEN",
    "EXISTS a a b",
];
