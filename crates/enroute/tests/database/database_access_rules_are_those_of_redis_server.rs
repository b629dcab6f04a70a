//! Access rules: for every command of the table, in the variants that its options make,
//! redis-server and `enroute db` are compared by COMMAND INFO, COMMAND GETKEYSANDFLAGS, ACL CAT and
//! ACL DRYRUN, and by the commands of users. Intended differences are listed below, with the
//! reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{database::Database, frames::Side, origins::Redis};
use redis::{Connection, Value, cmd};

/// Commands that redis-server 7.0 does not have, or has with other arguments.
const OURS: &[(&str, &str)] = &[
    ("rescale", "changes the memory of `enroute db` while it serves"),
    ("client|setinfo", "of Redis 7.2; current clients send it when they connect"),
    ("command|getkeys", "takes a command without arguments since Redis 7.2"),
    ("command|getkeysandflags", "takes a command without arguments since Redis 7.2"),
];

/// Flags that `enroute db` does not show.
const FLAGS_OF_REDIS: &[(&str, &str)] = &[
    ("allow_busy", "no script can keep the server busy"),
    ("no_async_loading", "there is no replication"),
    ("skip_slowlog", "there is no slow log"),
];

/// Variants of commands beside the plain one.
const VARIANTS: &str = "
set k v GET
set k v get
set k v EX 10 GET
set k v NX GET
set k v EX 10
set k v KEEPTTL XX
set k GET
set k GET GET
set k v GETX
getset k v
getex k
getex k PERSIST
getex k EX 10
getdel k
copy k l
copy k l DB 1
copy k l REPLACE
copy l k
rename k l
rename l k
renamenx k l
renamenx l k
bitop AND k l m
bitop NOT l k
bitop XOR k k
bitfield k
bitfield k GET u8 0
bitfield k GET u8 0 OVERFLOW WRAP GET u8 1
bitfield k SET u8 0 1
bitfield k OVERFLOW SAT INCRBY u8 0 1
bitfield k GET u8
bitfield k nonsense
bitfield_ro k GET u8 0
mset k v l v
msetnx k v l v
mget k l m
del k l
unlink k l
exists k l
touch k l
watch k l
lcs k l
lcs k l IDX
move k 1
expire k 10 GT
object encoding k
object refcount k
object help
memory usage k
memory usage k SAMPLES 1
memory doctor
setrange k 0 v
append k v
incrby k 1
incrbyfloat k 1.5
psetex k 1000 v
setex k 10 v
setnx k v
config get maxmemory
config set timeout 0
client list
client getname
acl whoami
acl setuser x
command count
command getkeys get k
subscribe __redis__:invalidate
subscribe other
";

/// Rights to keys and channels, which are combined with rights to commands.
const RIGHTS: &[&str] = &[
    "~*",
    "%R~*",
    "%W~*",
    "%RW~*",
    "%R~* %W~*",
    "%R~* %W~k",
    "%W~* %R~k",
    "%R~k* %W~?",
    "~k",
    "%R~k %W~l",
    "%W~k %R~l",
    "",
    "~* &__redis__:invalidate",
    "~* &oth*",
    "allkeys allchannels",
];

fn texts(value: &Value) -> BTreeSet<String> {
    let (Value::Array(of) | Value::Set(of)) = value else { panic!("expected a list: {value:?}") };
    of.iter().map(text).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        Value::Okay => "OK".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Collects the output of COMMAND INFO for one command and its subcommands.
fn describe(value: &Value, into: &mut BTreeMap<String, Vec<String>>) {
    let Value::Array(parts) = value else { return };
    let name = text(&parts[0]);
    let left: BTreeSet<String> = FLAGS_OF_REDIS.iter().map(|(flag, _)| (*flag).into()).collect();
    let flags: Vec<String> = texts(&parts[2]).difference(&left).cloned().collect();
    let places: Vec<String> = [1, 3, 4, 5].iter().map(|&at| text(&parts[at])).collect();
    let Value::Array(specifications) = &parts[8] else { panic!("key specifications: {parts:?}") };
    let mut told = vec![
        format!("arity and positions {}", places.join(" ")),
        format!("flags {}", flags.join(" ")),
        format!("categories {:?}", texts(&parts[6])),
    ];
    // Their notes are free text.
    told.extend(specifications.iter().map(|each| format!("{:?}", without_notes(each))));
    into.insert(name, told);
    let Value::Array(subcommands) = &parts[9] else { panic!("sub-commands: {parts:?}") };
    subcommands.iter().for_each(|each| describe(each, into));
}

fn without_notes(value: &Value) -> Vec<Value> {
    let Value::Array(parts) = value else { panic!("a key specification: {value:?}") };
    let pairs = parts.chunks(2).filter(|pair| text(&pair[0]) != "notes");
    pairs.flat_map(|pair| [pair[0].clone(), sorted(&pair[1])]).collect()
}

fn sorted(value: &Value) -> Value {
    let Value::Array(parts) = value else { return value.clone() };
    let mut parts = parts.clone();
    if !parts.iter().any(|part| matches!(part, Value::Array(_) | Value::Int(_))) {
        parts.sort_by_key(text);
    }
    Value::Array(parts.iter().map(sorted).collect())
}

/// All commands of `enroute db` with sub-commands, except those that Redis does not have.
fn described(connection: &mut Connection) -> BTreeMap<String, Vec<String>> {
    let all: Vec<Value> = cmd("COMMAND").query(connection).expect("a table");
    let mut told = BTreeMap::new();
    all.iter().for_each(|each| describe(each, &mut told));
    told
}

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|(ours, _)| *ours == name)
}

/// Each command of the table with its minimum number of arguments, and the variants.
fn lines(table: &BTreeMap<String, Vec<String>>) -> Vec<Vec<String>> {
    let plain = table.iter().filter(|(name, _)| !is_ours(name)).map(|(name, told)| {
        let arity: i64 = told[0].split(' ').nth(3).and_then(|arity| arity.parse().ok()).unwrap();
        let mut words: Vec<String> = name.split('|').map(str::to_owned).collect();
        words.resize((arity.unsigned_abs() as usize).max(words.len()), "k".to_owned());
        words
    });
    let variants = VARIANTS.lines().filter(|line| !line.is_empty());
    plain.chain(variants.map(|line| line.split(' ').map(str::to_owned).collect())).collect()
}

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    let mut command = cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    match command.query::<Value>(connection) {
        Ok(value) => format!("{:?}", sorted(&value)),
        Err(error) => format!("{error}"),
    }
}

struct Both {
    ours: Connection,
    theirs: Connection,
    different: Vec<String>,
    compared: usize,
}

impl Both {
    fn compare(&mut self, words: &[&str]) {
        let (ours, theirs) = (ask(&mut self.ours, words), ask(&mut self.theirs, words));
        self.compared += 1;
        if ours != theirs {
            let line = words.join(" ");
            self.different
                .push(format!("{line}\n  enroute db:   {ours}\n  redis-server: {theirs}"));
        }
    }

    fn must(&mut self, words: &[&str]) {
        let (ours, theirs) = (ask(&mut self.ours, words), ask(&mut self.theirs, words));
        assert_eq!((&*ours, &*theirs), ("ok", "ok"), "{words:?}");
    }

    fn end(self, compared_min: usize) {
        assert!(self.different.is_empty(), "{}", self.different.join("\n"));
        assert!(self.compared >= compared_min, "only {} were compared", self.compared);
    }
}

fn both() -> Option<(Redis, Database, Both)> {
    let redis = Redis::start()?;
    let database = Database::start();
    let (ours, theirs) = (database.connection(), redis.connection());
    Some((redis, database, Both { ours, theirs, different: Vec::new(), compared: 0 }))
}

#[test]
fn every_command_is_described_as_by_redis_server() {
    let Some((_redis, _database, mut both)) = both() else { return };
    let (ours, theirs) = (described(&mut both.ours), described(&mut both.theirs));
    for (name, told) in ours.iter().filter(|(name, _)| !is_ours(name)) {
        both.compared += 1;
        let real = theirs.get(name).unwrap_or_else(|| panic!("redis-server has no {name}"));
        if told != real {
            let (told, real) = (told.join("\n    "), real.join("\n    "));
            both.different
                .push(format!("{name}\n  enroute db:\n    {told}\n  redis-server:\n    {real}"));
        }
    }
    let categories: Vec<String> = cmd("ACL").arg("CAT").query(&mut both.theirs).expect("a list");
    for category in &categories {
        let within = |connection: &mut Connection| -> BTreeSet<String> {
            let names = cmd("ACL").arg("CAT").arg(category).query(connection);
            let names: Vec<String> = names.expect("a list");
            names.into_iter().filter(|name| ours.contains_key(name) && !is_ours(name)).collect()
        };
        let (a, b) = (within(&mut both.ours), within(&mut both.theirs));
        both.compared += 1;
        if a != b {
            both.different.push(format!("ACL CAT {category}: {a:?}, redis-server {b:?}"));
        }
    }
    both.compare(&["ACL", "CAT"]);
    both.end(150);
}

#[test]
fn keys_are_touched_as_by_redis_server() {
    let Some((_redis, _database, mut both)) = both() else { return };
    for line in lines(&described(&mut both.ours)) {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        for question in ["GETKEYSANDFLAGS", "GETKEYS"] {
            let mut question = [&["COMMAND", question], &words[..]].concat();
            if words.len() == 1 {
                // The error of Redis 7.2; that of redis-server 7.0 differs.
                let answer = ask(&mut both.ours, &question);
                assert!(answer.contains("The command has no key arguments"), "{words:?}: {answer}");
                question.push("k");
            }
            both.compare(&question);
        }
    }
    both.end(400);
}

#[test]
fn users_are_refused_what_redis_server_refuses() {
    let Some((_redis, _database, mut both)) = both() else { return };
    let lines = lines(&described(&mut both.ours));
    let categories: Vec<String> = cmd("ACL").arg("CAT").query(&mut both.theirs).expect("a list");
    let mut users: Vec<String> = RIGHTS.iter().map(|rights| format!("+@all {rights}")).collect();
    for category in categories {
        users.extend([format!("~* &* -@all +@{category}"), format!("~* &* +@all -@{category}")]);
    }
    users.extend(
        ["~* +config", "~* +@all -config|set", "~* +client|list -client", "~* +get +SET -@read"]
            .map(str::to_owned),
    );
    for user in &users {
        both.must(
            &[
                &["ACL", "SETUSER", "u", "reset", "on"],
                &user.split_whitespace().collect::<Vec<_>>()[..],
            ]
            .concat(),
        );
        for line in &lines {
            let words: Vec<&str> = line.iter().map(String::as_str).collect();
            let before = both.different.len();
            both.compare(&[&["ACL", "DRYRUN", "u"], &words[..]].concat());
            if let Some(different) = both.different.get_mut(before) {
                different.insert_str(0, &format!("[{user}] "));
            }
        }
        if both.different.len() > 50 {
            break;
        }
    }
    both.end(10_000);
}

/// Whether this is the reply of a server that denies a command.
fn refused(answer: &[u8]) -> bool {
    answer.starts_with(b"-NOPERM")
}

#[test]
fn a_key_is_not_read_by_a_user_that_may_only_write_it() {
    let Some((redis, database, mut both)) = both() else { return };
    for rights in ["%R~*", "%W~*", "%RW~*", "%R~* %W~k", "%W~* %R~k", "%R~k %W~l"] {
        let rights: Vec<&str> = rights.split(' ').collect();
        let rules = ["ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all", "-@admin"];
        both.must(&[&rules, &rights[..]].concat());
        for line in VARIANTS.lines().filter(|line| !line.is_empty()) {
            let answers = [database.address(), redis.address()].map(|address| {
                let mut side = Side::connect(address);
                assert_eq!(side.words("AUTH u any"), b"+OK\r\n");
                side.words(line)
            });
            both.compared += 1;
            if refused(&answers[0]) != refused(&answers[1]) {
                let [ours, theirs] = answers.map(|answer| answer.escape_ascii().to_string());
                both.different.push(format!(
                    "{rights:?} {line}\n  enroute db:   {ours}\n  redis-server: {theirs}"
                ));
            }
        }
    }
    both.end(300);
}
