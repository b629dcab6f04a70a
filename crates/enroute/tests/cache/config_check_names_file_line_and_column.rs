//! `enroute config check` reports the position of each kind of mistake, and what to write instead.

use std::fs;
use std::process::Command;

use crate::support::{directory::TemporaryDirectory, secured::certificates};

const GOOD: &str = "[[listener]]\nlisten = \"redis://127.0.0.1:0\"\norigin = \"redis://db:6379\"\n";

/// Text before a valid listener, position of the mistake, expected message.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("workers = 0\n", "1:11", "expected 1 to 1024, got 0"),
    ("workers = -1\n", "1:11", "expected usize"),
    ("workers = two\n", "1:11", ""),
    ("wrokers = 2\n", "1:1", "unknown field `wrokers`, expected one of `workers`"),
    ("drain_timeout = \"10\"\n", "1:17", "164ms"),
    ("drain_timeout = 10\n", "1:17", "expected a string"),
    ("[storage]\nmemory = \"64 Mibs\"\n", "2:10", "64MiB"),
    ("[storage]\nmemory = -1\n", "2:10", "expected a size"),
    ("[storage]\nttl = \"soon\"\n", "2:7", "soon"),
    ("[storage]\ncapacity = 0\n", "2:12", "at least 1"),
    ("[storage]\nreplacement = \"mru\"\n", "2:15", "unknown variant `mru`, expected one of `fifo`"),
    ("[storage]\npopulation = \"never\"\n", "2:14", "`on-miss`"),
    ("[storage]\nhot_threshold = 70000\n", "2:17", "expected u16"),
    ("[limits]\npipeline_max = 0\n", "2:16", "at least 1"),
    ("[limits]\nconnections_max = 0\n", "2:19", "at least 1"),
    ("[limits]\nbuffered_bytes_max = \"0B\"\n", "2:22", "at least 1"),
    ("[admin]\nlisten = \"localhost\"\n", "2:10", "invalid socket address"),
    ("[admin]\n", "1:1", "missing field `listen`"),
    ("[[listener]]\nlisten = \"redis://h:1\"\n", "1:1", "missing field `origin`"),
    ("[[listener]]\nlisten = \"h:1\"\n", "2:10", "has no protocol"),
    ("[[listener]]\nlisten = \"http://h:1\"\n", "2:10", "has an unknown protocol"),
    ("[[listener]]\nlisten = \"redis://h:70000\"\n", "2:10", "has no valid port"),
    ("[[listener]]\nlisten = \"redis://:pw@h\"\n", "2:10", "contains a password"),
    ("[[listener]]\nlisten = \"mongodb://a,b/db\"\n", "2:10", "is not one HOST:PORT"),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"mongodb://h:2\"\n",
        "3:10",
        "expected the same protocol",
    ),
    ("[[listener]]\nlisten = \"memcached://a,b:1:0\"\n", "2:10", "WEIGHT from 1 to 65535"),
    (
        "[[listener]]\nlisten = \"memcached://h:1\"\norigin = \"memcached://a,b/?hash=crc\"\n",
        "3:10",
        "expected fnv1a_64, md5, one_at_a_time",
    ),
    (
        "[[listener]]\nlisten = \"memcached://h:1\"\norigin = \"memcached://h:2,h:1\"\n",
        "3:10",
        "the address of the listener itself",
    ),
    (
        "[[listener]]\nlisten = \"memcached://a,b\"\norigin = \"memcached://a,c\"\n",
        "2:10",
        "only `origin` can name several",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:1\"\n",
        "3:10",
        "the address of the listener itself",
    ),
    (
        "[[listener]]\nlisten = \"mongodb://h:1\"\norigin = \"mongodb://h:2\"\n\
         unique_fields = [\"email\"]\n",
        "4:17",
        "database.collection.field",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\nscripts = \"safe\"\n",
        "4:11",
        "`declared-keys`",
    ),
    (
        "[[listener]]\nlisten = \"mongodb://h:1\"\norigin = \"mongodb://h:2\"\ncluster = \"c\"\n",
        "4:11",
        "is for Redis listeners only",
    ),
    (
        "[[listener]]\nlisten = \"memcached://h:1\"\norigin = \"memcached://h:2\"\nfeed = {}\n",
        "4:8",
        "`feed` is not for memcached listeners",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\ncluster = \"c\"\nfeed = {}\n\
         [[listener]]\nlisten = \"redis://h:3\"\norigin = \"redis://h:4\"\ncluster = \"c\"\n",
        "9:11",
        "expected `feed` as in the listener above",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\ncluster = \"c\"\n\
         [[listener]]\nlisten = \"redis://h:3\"\norigin = \"redis://h:4\"\ncluster = \"c\"\nfeed = {}\n",
        "9:8",
        "expected no `feed`, or one also in the listener above",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\ncluster = \"c\"\nfeed = {}\n\
         [[listener]]\nlisten = \"redis://h:3\"\norigin = \"redis://h:4\"\ncluster = \"c\"\nfeed = {}\n\
         include = [\"a:*\"]\n",
        "11:11",
        "expected the same `include` as in the listener above",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis+sentinel://a,b\"\n",
        "3:10",
        "has no name of a primary",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\nsentinel = {}\n",
        "4:12",
        "redis+sentinel://HOST,HOST/NAME",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis+sentinel://a/main\"\n\
         sentinel = { password_file = \"no-such-file\" }\n",
        "4:12",
        "cannot read no-such-file",
    ),
    (
        "[[listener]]\nlisten = \"redis+sentinel://a/main\"\norigin = \"redis://h:2\"\n",
        "2:10",
        "only `origin` can name several",
    ),
    (
        "[[listener]]\nlisten = \"mongodb://h:1\"\norigin = \"mongodb://a,b/?readPreference=secondary\"\n",
        "3:10",
        "expected replicaSet beside it",
    ),
    (
        "[[listener]]\nlisten = \"mongodb://h:1\"\n\
         origin = \"mongodb://a/?replicaSet=rs&readPreference=secondary\"\nfeed = {}\n",
        "4:8",
        "nothing is stored",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis+sentinel://a/main\"\n\
         cluster = \"c\"\n",
        "4:11",
        "cannot be combined with an origin that Sentinels name",
    ),
    (
        "[[listener]]\nlisten = \"mongodb://h:1\"\norigin = \"mongodb://h:2\"\n\
         feed = { password_file = \"f\" }\n",
        "4:8",
        "expected `user` beside `password_file`",
    ),
    (
        "[[listener]]\nlisten = \"dynamodb://h:1\"\norigin = \"dynamodb://h:2\"\nfeed = {}\n",
        "4:8",
        "expected `access_key` and `region`",
    ),
    (
        "[[listener]]\nlisten = \"dynamodb://h:1\"\norigin = \"dynamodb://h:2\"\n\
         feed = { access_key = \"AKIDUNKNOWN\", region = \"eu-central-1\" }\n",
        "4:8",
        "expected the secret of AKIDUNKNOWN",
    ),
    (
        "[[listener]]\nlisten = \"dynamodb://h:1\"\norigin = \"dynamodb://h:2\"\n\
         feed = { access_key = \"A\", region = \"r\", interval = \"100ms\" }\n",
        "4:8",
        "200ms to 1min",
    ),
    (
        "[[listener]]\nlisten = \"dynamodb://h:1\"\norigin = \"dynamodb://h:2\"\n\
         feed = { access_key = \"A\", region = \"r\", endpoint = \"redis://h:3\" }\n",
        "4:8",
        "expected endpoint = ",
    ),
    (
        "[[listener]]\nlisten = \"dynamodb://h:1\"\norigin = \"dynamodb://h:2\"\n\
         feed = { access_key = \"A\", region = \"r\", endpoint = \"dynamodb://original\" }\n",
        "4:8",
        "expected endpoint = ",
    ),
    (
        "[[listener]]\nlisten = \"dynamodb://h:1\"\norigin = \"dynamodb://h:2\"\n\
         feed = { user = \"A\", region = \"r\" }\n",
        "4:8",
        "write `access_key`",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\n\
         feed = { interval = \"1s\" }\n",
        "4:8",
        "are for DynamoDB listeners only",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\n\
         memory_min = \"2MiB\"\nmemory_max = \"1MiB\"\n",
        "4:14",
        "expected at most memory_max = 1048576 bytes, found 2097152",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\nmemory_min = \"40MiB\"\n\
         [[listener]]\nlisten = \"mongodb://h:3\"\norigin = \"mongodb://h:4\"\nmemory_min = \"30MiB\"\n",
        "8:14",
        "expected at most [storage] memory = 67108864 bytes for `memory_min` of all listeners together, \
         found 73400320",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\n\
         [[listener]]\nlisten = \"redis://h:3\"\norigin = \"redis://h:2\"\nmemory_max = \"30MiB\"\n",
        "7:14",
        "expected `memory_max` at the first listener of the origin, redis://h:1: both have one share",
    ),
    (
        "[[listener]]\nlisten = \"mongodb://h:1\"\n\
         origin = \"mongodb://a/?replicaSet=rs&readPreference=secondary\"\nmemory_min = \"1MiB\"\n",
        "4:14",
        "`memory_min` of a listener that stores nothing",
    ),
    ("[storage]\nmemory = \"900000GB\"\n", "2:10", "the machine has"),
    ("[admin]\nlisten = \"127.0.0.1:0\"\nname = []\n", "3:1", "`names`"),
    (
        "[admin]\nlisten = \"127.0.0.1:6380\"\n[[listener]]\nlisten = \"redis://127.0.0.1:6380\"\n\
         origin = \"redis://h:2\"\n",
        "2:10",
        "is used twice",
    ),
    (
        "[[listener]]\nlisten = \"redis://127.0.0.1:6380\"\norigin = \"redis://h:2\"\n\
         [[listener]]\nlisten = \"mongodb://0.0.0.0:6380\"\norigin = \"mongodb://h:2\"\n",
        "5:10",
        "127.0.0.1:6380 above listens on the same port",
    ),
    (
        "[[listener]]\nlisten = \"redis://h:1\"\norigin = \"redis://h:2\"\n\
         feed = { password_file = \"no-such-file\" }\n",
        "4:8",
        "cannot read no-such-file",
    ),
    ("[storage\n", "1:9", ""),
    ("workers = 1\nworkers = 2\n", "2:1", "duplicate key"),
];

#[test]
fn every_mistake_is_found_where_it_is() {
    let wrong: Vec<String> = MISTAKES
        .iter()
        .filter_map(|(mistake, place, said)| {
            let (code, text) = check(&format!("{mistake}{GOOD}"));
            let good = code == Some(1)
                && text.contains(&format!("enroute.toml:{place}: "))
                && text.contains(said)
                && text.trim_end().lines().count() == 1;
            (!good).then(|| format!("{mistake}not {place}, {said:?}, but:\n{text}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const EDGE: &str = "[edge]\nlisten = \"127.0.0.1:0\"\n";
const SITE: &str = "[[edge.site]]\ndomain = \"shop.example\"\ncertificate = \"shop.pem\"\n\
                    key = \"file:shop.key\"\norigin = \"http://h:1\"\n";

#[test]
fn a_mistake_in_an_edge_is_found_where_it_is() {
    let site = |old: &str, new: &str| format!("{EDGE}{}", SITE.replace(old, new));
    let table = [
        (EDGE.to_owned(), "1:1", "missing field `site`"),
        (format!("{EDGE}site = []\n"), "3:8", "no [[edge.site]]"),
        (site("shop.example", "Shop.example"), "4:10", "lower case"),
        (site("shop.example", "*.*"), "4:10", "expected a domain"),
        (site("file:shop.key", "shop.key"), "6:7", "file:shop.key"),
        (site("file:shop.key", "keyserver:h"), "6:7", "has no HOST:PORT"),
        (site("file:shop.key", "keyserver:h:7443"), "6:7", "[edge.identity]"),
        (site("http://h:1", "h:1"), "7:10", "https://"),
        (site("http://h:1", "http://h:1/path"), "7:10", "not one HOST:PORT"),
        (site("origin", "orgin"), "7:1", "unknown field `orgin`"),
        (format!("{EDGE}{SITE}{SITE}"), "9:10", "twice"),
        (format!("{EDGE}[edge.limits]\nhandshakes_max = 0\n{SITE}"), "4:18", "at least 1"),
        (format!("{EDGE}[edge.content]\nmemory = \"much\"\n{SITE}"), "4:10", "64MiB"),
        (format!("{EDGE}{SITE}[edge.content]\nmemory = \"900000GB\"\n"), "8:1", "the machine has"),
    ];
    for (text, place, said) in table {
        let (code, answer) = check(&text);
        let good = code == Some(1)
            && answer.contains(&format!("enroute.toml:{place}: "))
            && answer.contains(said);
        assert!(good, "{text}not {place}, {said:?}, but:\n{answer}");
    }
    for (missing, place) in [("shop.pem", "5:15"), ("shop.key", "6:7")] {
        let site = SITE.replace(missing, "no-such-file");
        let (code, answer) = check(&format!("{EDGE}{site}"));
        let said = format!("enroute.toml:{place}: cannot read no-such-file");
        assert!(code == Some(1) && answer.contains(&said), "{answer}");
    }
}

#[test]
fn files_of_an_edge_that_do_not_fit_are_found_before_the_start() {
    let Some(workshop) = certificates() else { return };
    workshop.signed("shop.example", "authority");
    workshop.signed("other.example", "authority");
    let site = SITE.replace("shop.pem", "shop.example.pem").replace("shop.key", "shop.example.key");
    let check = |site: &str| {
        workshop.write("enroute.toml", &format!("{EDGE}{site}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_enroute"));
        let command = command.args(["config", "check", "enroute.toml"]);
        let output = command.current_dir(workshop.path("")).output().expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (valid, said) = check(&site);
    assert!(valid && said.contains("1 edge site"), "{said}");
    for (old, new, place) in [
        ("shop.example.pem", "other.example.pem", "5:15: "),
        ("shop.example.pem", "shop.example.key", "5:15: shop.example.key: "),
        ("shop.example.key", "other.example.key", "6:7: other.example.key: "),
        ("shop.example.key", "shop.example.pem", "6:7: private key shop.example.pem: other users"),
    ] {
        let (valid, said) = check(&site.replace(old, new));
        assert!(!valid && said.contains(&format!("enroute.toml:{place}")), "{new}: {said}");
    }
}

#[test]
fn a_file_without_listener_says_what_to_write() {
    let (code, text) = check("workers = 2\n");
    assert_eq!(code, Some(1));
    assert!(text.contains("enroute.toml:1:1: no [[listener]]"), "{text}");
}

#[test]
fn a_good_file_is_called_valid() {
    let (code, text) = check(GOOD);
    assert_eq!((code, text.contains("valid; 1 listener")), (Some(0), true), "{text}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_enroute"))
        .args(["config", "check", "no-such.toml"])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("cannot read no-such.toml"), "{text}");
}

#[test]
fn the_command_line_is_checked_too() {
    for option in ["--workers", "--capacity"] {
        let output = Command::new(env!("CARGO_BIN_EXE_enroute"))
            .args(["cache", "--listen", "redis://127.0.0.1:0", "--origin", "redis://h:1"])
            .args([option, "0"])
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(option) && text.contains("0 is not in 1.."), "{text}");
    }
}

fn check(text: &str) -> (Option<i32>, String) {
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("enroute.toml");
    fs::write(&file, text).expect("a writable temporary directory");
    for there in ["shop.pem", "shop.key"] {
        fs::write(directory.path().join(there), "").expect("a writable temporary directory");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_enroute"))
        .current_dir(directory.path())
        .args(["config", "check"])
        .arg(&file)
        .output()
        .expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_closed_standard_output_is_no_failure() {
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("enroute.toml");
    fs::write(&file, GOOD).expect("a writable temporary directory");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_enroute"));
    let ended = command.args(["config", "check"]).arg(&file).stdout(writer).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && !said.contains("panicked"), "{}: {said}", ended.status);
}
