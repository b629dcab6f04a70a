//! redis-server loads a snapshot that is written here, and what it saves is read here, value by
//! value. What `db` does not have is refused by name.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use db::rdb::{Element, Entry, Error, Limits, Reader, Writer};

/// A directory that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rdb-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("made");
        Self(path)
    }

    fn snapshot(&self) -> PathBuf {
        self.0.join("dump.rdb")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A redis-server with its files in a directory, and a connection to it.
struct Server {
    process: Child,
    connection: BufReader<UnixStream>,
}

impl Server {
    /// `None` if it is not installed.
    fn start(place: &Path) -> Option<Self> {
        let started = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--dir"])
            .arg(place)
            .current_dir(place)
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut process) = started else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "redis-server is not installed");
            eprintln!("SKIPPED: redis-server is not installed; `make deps` installs it");
            return None;
        };
        let mut said = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        while !said.contains("ready to accept connections at") {
            assert!(output.read_line(&mut said).expect("it says") > 0, "it ended: {said}");
        }
        // Read what else it says, so that it never waits for that.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let connection = UnixStream::connect(place.join("socket")).expect("it listens");
        Some(Self { process, connection: BufReader::new(connection) })
    }

    /// The reply to a command: a line, or a string.
    fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(&[word, b"\r\n".as_slice()].concat());
        }
        self.connection.get_mut().write_all(&request).expect("sent");
        let mut line = String::new();
        self.connection.read_line(&mut line).expect("a reply");
        let line = line.trim_end();
        assert!(!line.starts_with('-'), "{line}");
        let Some(length) = line.strip_prefix('$') else { return line.as_bytes().to_vec() };
        let mut text = vec![0; length.parse::<usize>().expect("a value") + 2];
        self.connection.read_exact(&mut text).expect("a string");
        text.truncate(text.len() - 2);
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Entries whose strings Redis stores in different ways, and of more than one database.
fn entries() -> Vec<Entry> {
    let text = "it compresses, it compresses, it compresses; ";
    let noise: Vec<u8> =
        (0..300_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let values: Vec<Vec<u8>> = vec![
        vec![],
        b"0".to_vec(),
        b"-128".to_vec(),
        b"127".to_vec(),
        b"128".to_vec(),
        b"-32769".to_vec(),
        b"2147483647".to_vec(),
        b"-2147483648".to_vec(),
        b"2147483648".to_vec(),
        b"007".to_vec(),
        b"\xff\x00binary\r\n".to_vec(),
        vec![b'x'; 63],
        vec![b'x'; 64],
        text.repeat(1000).into_bytes(),
        vec![b'r'; 100_000],
        noise[..16_383].to_vec(),
        noise[..16_384].to_vec(),
        noise,
    ];
    // Later than any clock; with milliseconds.
    let expires_at = Duration::from_millis(32_503_680_000_123);
    let entry = |(number, value): (usize, Vec<u8>)| Entry {
        database: (number % 3) as u8 * 7,
        key: if number == 5 { vec![b'k'; 200] } else { format!("{}", number * 111).into_bytes() },
        value,
        expires_at: (number % 2 == 1).then_some(expires_at),
    };
    let mut entries: Vec<Entry> = values.into_iter().enumerate().map(entry).collect();
    entries.sort_by(order);
    entries
}

fn order(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    (a.database, &a.key).cmp(&(b.database, &b.key))
}

/// The entries of a file, which is read in pieces.
fn read(path: &Path) -> Result<Vec<Entry>, Error> {
    let mut reader = Reader::new(Limits { key_bytes_max: 1 << 16, value_bytes_max: 4 << 20 });
    let (file, mut rest, mut entries) = (fs::read(path).expect("read"), Vec::new(), Vec::new());
    for piece in file.chunks(4099) {
        rest.extend_from_slice(piece);
        while let Some((element, used)) = reader.decode(&rest)? {
            rest.drain(..used);
            match element {
                Element::Entry(entry) => entries.push(entry),
                Element::Skipped => {}
                Element::End => {
                    assert_eq!(rest, b"");
                    entries.sort_by(order);
                    return Ok(entries);
                }
            }
        }
    }
    Err(reader.truncated(&rest))
}

#[test]
fn redis_server_loads_what_is_written() {
    let (place, entries) = (Place::new(), entries());
    let mut writer = Writer::new();
    for Entry { database, key, value, expires_at } in &entries {
        writer.entry(*database, key, value, *expires_at);
    }
    fs::write(place.snapshot(), writer.end()).expect("written");
    let Some(mut server) = Server::start(&place.0) else { return };
    let mut count = 0;
    for Entry { database, key, value, expires_at } in &entries {
        server.ask(&[b"SELECT", database.to_string().as_bytes()]);
        assert!(server.ask(&[b"GET", key]) == *value, "{key:?} of {} bytes", value.len());
        let at = expires_at.map_or(":-1".to_owned(), |at| format!(":{}", at.as_millis()));
        assert_eq!(server.ask(&[b"PEXPIRETIME", key]), at.as_bytes(), "{key:?}");
        count += 1;
    }
    let mut found = 0;
    for database in ["0", "7", "14"] {
        server.ask(&[b"SELECT", database.as_bytes()]);
        let size = String::from_utf8(server.ask(&[b"DBSIZE"])).expect("a number");
        found += size[1..].parse::<usize>().expect("a number");
    }
    assert_eq!(found, count);
    // The way back: what it saves is read.
    server.ask(&[b"SAVE"]);
    assert!(read(&place.snapshot()) == Ok(entries), "another snapshot");
}

#[test]
fn what_redis_server_saves_is_read() {
    let (place, entries) = (Place::new(), entries());
    let Some(mut server) = Server::start(&place.0) else { return };
    for Entry { database, key, value, expires_at } in &entries {
        server.ask(&[b"SELECT", database.to_string().as_bytes()]);
        server.ask(&[b"SET", key, value]);
        if let Some(at) = expires_at {
            server.ask(&[b"PEXPIREAT", key, at.as_millis().to_string().as_bytes()]);
        }
    }
    // With the fields that eviction adds to each key, with and without compression and checksum.
    for (parameter, value) in [
        ("maxmemory-policy", "noeviction"),
        ("maxmemory-policy", "allkeys-lfu"),
        ("maxmemory-policy", "allkeys-lru"),
        ("rdbcompression", "no"),
        ("rdbcompression", "yes"),
    ] {
        server.ask(&[b"CONFIG", b"SET", parameter.as_bytes(), value.as_bytes()]);
        server.ask(&[b"SAVE"]);
        assert!(read(&place.snapshot()) == Ok(entries.clone()), "{parameter} {value}");
    }
}

#[test]
fn what_redis_server_has_besides_strings_is_refused_by_name() {
    let place = Place::new();
    let Some(mut server) = Server::start(&place.0) else { return };
    let commands: [(&[&[u8]], &str); 9] = [
        (&[b"RPUSH", b"mine", b"a"], "is a list"),
        (&[b"SADD", b"mine", b"1"], "is a set"),
        (&[b"SADD", b"mine", b"a"], "is a set"),
        (&[b"ZADD", b"mine", b"1", b"a"], "is a sorted set"),
        (&[b"HSET", b"mine", b"a", b"b"], "is a hash"),
        (&[b"XADD", b"mine", b"*", b"a", b"b"], "is a stream"),
        (&[b"PFADD", b"other", b"a"], ""),
        (&[b"SETBIT", b"other", b"7", b"1"], ""),
        (
            &[b"FUNCTION", b"LOAD", b"#!lua name=l\nredis.register_function('f', function() end)"],
            "a library of functions",
        ),
    ];
    for (command, expected) in commands {
        server.ask(&[b"FLUSHALL"]);
        server.ask(&[b"SELECT", b"2"]);
        server.ask(&[b"SET", b"before", b"1"]);
        server.ask(command);
        server.ask(&[b"SAVE"]);
        match read(&place.snapshot()) {
            // These are strings in Redis, too.
            Ok(entries) => assert_eq!((entries.len(), expected), (2, ""), "{command:?}"),
            Err(error) => {
                let said = error.to_string();
                assert!(!expected.is_empty() && said.contains(expected), "{said}");
                let names_key = said.contains("key \"mine\" of database 2");
                assert!(names_key || matches!(error, Error::Unsupported { .. }), "{said}");
            }
        }
    }
}
