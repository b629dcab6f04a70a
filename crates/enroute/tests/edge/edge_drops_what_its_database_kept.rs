//! Entries that a change or a flush drops are not served from the content database either: neither
//! if the database failed to drop them, nor if it has them from before the flush.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use crate::support::{
    edge::{Answer, Edge, with_edge},
    process::{serve_each, until},
};

const SHOP: &str = "shop.example";

/// A content database that, while it is `deaf`, closes connections on which it should drop
/// something.
#[derive(Default)]
struct Shelf {
    kept: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    deaf: AtomicBool,
}

impl Shelf {
    fn start() -> (Arc<Self>, SocketAddr) {
        let shelf = Arc::new(Self::default());
        let theirs = Arc::clone(&shelf);
        let address = serve_each(move |client| {
            let mut reader = BufReader::new(&client);
            while theirs.serve(&mut reader, &client).is_some() {}
        });
        (shelf, address)
    }

    fn serve(&self, reader: &mut impl BufRead, mut client: &TcpStream) -> Option<()> {
        let words: Vec<Vec<u8>> =
            (0..number(reader, '*')?).map(|_| word(reader)).collect::<Option<_>>()?;
        let mut kept = self.kept.lock().expect("no panic");
        let reply = match (words[0].as_slice(), kept.get(&words[1])) {
            (b"GET", Some(value)) => {
                [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
            }
            (b"GET", None) => b"$-1\r\n".to_vec(),
            (b"PTTL", Some(_)) => b":600000\r\n".to_vec(),
            (b"PTTL", None) => b":-2\r\n".to_vec(),
            (b"SET", _) => {
                kept.insert(words[1].clone(), words[2].clone());
                b"+OK\r\n".to_vec()
            }
            (b"DEL", _) if !self.deaf.load(SeqCst) => {
                kept.remove(&words[1]);
                b":1\r\n".to_vec()
            }
            _ => return None,
        };
        client.write_all(&reply).ok()
    }

    fn is_empty(&self) -> bool {
        self.kept.lock().expect("no panic").is_empty()
    }
}

fn number(reader: &mut impl BufRead, kind: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}

fn word(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut bytes = vec![0; number(reader, '$')? + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(bytes.len() - 2);
    Some(bytes)
}

/// Runs `test` with an edge whose database has the page, and with the page.
fn with_page_kept(test: impl FnOnce(&Edge<'_>, &Shelf, &str)) {
    let (shelf, address) = Shelf::start();
    let database = format!("[edge.content]\ndatabase = \"redis://{address}\"\n");
    let answer = |_: &str, _, _: &_| (200, "cache-control: max-age=600".to_owned());
    with_edge(&database, "", answer, |edge, _| {
        let mut first = ask(edge, "GET");
        // After a timeout an edge continues without its database.
        until("the database keeps it", || {
            if shelf.is_empty() {
                ask(edge, "DELETE");
                first = ask(edge, "GET");
            }
            !shelf.is_empty()
        });
        test(edge, &shelf, &first.body);
        assert!(!shelf.is_empty(), "it was dropped");
        shelf.deaf.store(false, SeqCst);
        let after = ask(edge, "GET");
        assert_ne!(after.body, first.body, "{after:?}");
        assert_eq!(after.cache(), "fwd=miss; stored");
        let hit = ask(edge, "GET");
        assert_eq!((&*hit.body, hit.cache()), (&*after.body, "hit"));
    });
}

fn ask(edge: &Edge<'_>, method: &str) -> Answer {
    edge.curl(SHOP, "/", &["-X", method])
}

#[test]
fn of_a_target_that_was_changed() {
    with_page_kept(|edge, shelf, _| {
        shelf.deaf.store(true, SeqCst);
        assert_eq!(ask(edge, "DELETE").status, 200);
    });
}

#[test]
fn of_everything_after_a_flush() {
    with_page_kept(|edge, _, first| {
        assert_eq!(ask(edge, "GET").body, first);
        edge.flush();
    });
}
