//! Clients append unique elements to lists in several keys and read the lists, several keys of
//! several shards in one MULTI. The results order the transactions (Elle's list-append): each read
//! list is a prefix of one longest list, and no transaction precedes itself. Without MULTI the same
//! commands are not atomic, and the check has to find a cycle.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use crate::support::{database::Database, seeds};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const CLIENTS: usize = 6;
/// Number of lists that are appended to at the same time.
const LISTS: u64 = 5;
/// Number of transactions after which new lists begin, so that none becomes long.
const EPOCH: u64 = 200;

/// A key, by epoch and number.
type Key = (u64, u64);

/// The effect of one operation of a transaction.
enum Done {
    Appended(Key),
    /// The elements; each is the number of the transaction that appended it.
    Read(Key, Vec<u64>),
}

type Transaction = (u64, Vec<Done>);

/// Returns the history of `clients` in about `count` transactions, with or without MULTI.
fn history(database: &Database, seed: u64, count: u64, atomic: bool) -> Vec<Transaction> {
    let begun = AtomicU64::new(0);
    let client = |number: usize| {
        let mut random = Pcg64Mcg::seed_from_u64(seed + number as u64);
        let mut connection = database.connection();
        let mut done = Vec::new();
        loop {
            let transaction = begun.fetch_add(1, Relaxed);
            if transaction >= count {
                return done;
            }
            done.push((transaction, transact(&mut connection, transaction, &mut random, atomic)));
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    })
}

fn transact(
    connection: &mut redis::Connection,
    transaction: u64,
    random: &mut Pcg64Mcg,
    atomic: bool,
) -> Vec<Done> {
    let epoch = transaction / EPOCH;
    let mut commands = Vec::new();
    let mut appended = [false; LISTS as usize];
    for _ in 0..random.random_range(2..5) {
        let list = random.random_range(0..LISTS);
        // An element is appended once, and its value is the number of its transaction.
        let appends =
            random.random_bool(0.5) && !std::mem::replace(&mut appended[list as usize], true);
        commands.push((list, appends));
    }
    let name = |list: u64| format!("list:{epoch}:{list}");
    let command = |&(list, appends): &(u64, bool)| {
        let mut command = redis::cmd(if appends { "APPEND" } else { "GET" });
        command.arg(name(list));
        if appends {
            command.arg(format!("{transaction} "));
        }
        command
    };
    let answers: Vec<redis::Value> = if atomic {
        let mut pipeline = redis::pipe();
        pipeline.atomic();
        commands.iter().for_each(|each| drop_in(&mut pipeline, command(each)));
        pipeline.query(connection).expect("it is executed")
    } else {
        commands.iter().map(|each| command(each).query(connection).expect("an answer")).collect()
    };
    let done = commands.iter().zip(answers).map(|(&(list, appends), answer)| {
        let key = (epoch, list);
        if appends { Done::Appended(key) } else { Done::Read(key, elements(&answer)) }
    });
    done.collect()
}

fn drop_in(pipeline: &mut redis::Pipeline, command: redis::Cmd) {
    pipeline.add_command(command);
}

fn elements(answer: &redis::Value) -> Vec<u64> {
    match answer {
        redis::Value::Nil => Vec::new(),
        redis::Value::BulkString(text) => {
            let text = str::from_utf8(text).expect("digits and blanks");
            text.split_whitespace().map(|each| each.parse().expect("a number")).collect()
        }
        other => panic!("no list: {other:?}"),
    }
}

/// The reason why one transaction precedes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    /// Both appended, one after the other.
    Write,
    /// It appended an element that the other read.
    Read,
    /// It read before the other appended.
    Anti,
}

/// The anomaly in a history, if any, in the terms of Adya.
fn anomaly(history: &[Transaction]) -> Option<String> {
    let mut longest: HashMap<Key, &[u64]> = HashMap::new();
    for (transaction, done) in history {
        let mut own: HashMap<Key, usize> = HashMap::new();
        for each in done {
            match each {
                Done::Appended(key) => *own.entry(*key).or_default() += 1,
                Done::Read(key, list) => {
                    // It reads its own appends, after all others.
                    let mine = own.get(key).copied().unwrap_or(0);
                    let found = list.iter().rev().take_while(|&by| by == transaction).count();
                    if found != mine || list.iter().filter(|&by| by == transaction).count() != mine
                    {
                        return Some(format!("internal: {transaction} reads {list:?} of {key:?}"));
                    }
                    let known = longest.entry(*key).or_default();
                    let (short, long) = if list.len() < known.len() {
                        (&list[..], *known)
                    } else {
                        (*known, &list[..])
                    };
                    if !long.starts_with(short) {
                        return Some(format!("{key:?} was both {short:?} and {long:?}"));
                    }
                    *known = long;
                }
            }
        }
    }
    cycle(&edges(history, &longest))
}

type Edges = HashMap<u64, Vec<(u64, Before)>>;

fn edges(history: &[Transaction], longest: &HashMap<Key, &[u64]>) -> Edges {
    let mut edges = Edges::new();
    let mut add = |from: u64, to: u64, how: Before| {
        if from != to {
            edges.entry(from).or_default().push((to, how));
        }
    };
    for list in longest.values() {
        list.windows(2).for_each(|pair| add(pair[0], pair[1], Before::Write));
    }
    for (transaction, done) in history {
        for each in done {
            let Done::Read(key, list) = each else { continue };
            // No other transaction uses its keys.
            let others: Vec<u64> = list.iter().copied().filter(|by| by != transaction).collect();
            if let Some(&last) = others.last() {
                add(last, *transaction, Before::Read);
            }
            if let Some(&next) = longest[key].get(list.len()) {
                add(*transaction, next, Before::Anti);
            }
        }
    }
    edges
}

/// A transaction that precedes itself, with the cycle; the shortest kind of cycle first.
fn cycle(edges: &Edges) -> Option<String> {
    for (most, kind) in
        [(Before::Write, "G0"), (Before::Read, "G1c"), (Before::Anti, "G-single or G2")]
    {
        let next = |from: u64| {
            edges.get(&from).into_iter().flatten().filter(move |(_, how)| *how <= most).copied()
        };
        // After repeated removal of all transactions without predecessors, the rest are on a cycle
        // or after one.
        let mut ways_in: HashMap<u64, usize> = HashMap::new();
        for from in edges.keys() {
            ways_in.entry(*from).or_default();
            next(*from).for_each(|(to, _)| *ways_in.entry(to).or_default() += 1);
        }
        let mut free: Vec<u64> =
            ways_in.iter().filter(|(_, count)| **count == 0).map(|(of, _)| *of).collect();
        while let Some(from) = free.pop() {
            ways_in.remove(&from);
            for (to, _) in next(from) {
                if let Some(count) = ways_in.get_mut(&to) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(to);
                    }
                }
            }
        }
        if let Some(on) = ways_in.keys().min() {
            let around: Vec<_> = next(*on).filter(|(to, _)| ways_in.contains_key(to)).collect();
            return Some(format!(
                "{kind}: {} transactions, among them {on}, before {around:?}",
                ways_in.len()
            ));
        }
    }
    None
}

fn check(count: u64) {
    let seed = RandomState::new().hash_one(0_u8) >> 8;
    seeds::each("database_transactions", [seed], |seed| {
        let database = Database::start_with(&["--workers", "4"]);
        let transactions = history(&database, seed, count, true);
        assert_eq!(transactions.len() as u64, count);
        let operations: usize = transactions.iter().map(|(_, done)| done.len()).sum();
        eprintln!("{operations} operations in {count} transactions");
        assert_eq!(anomaly(&transactions), None, "SEED={seed}");
        Some(())
    });
}

#[test]
fn no_transaction_comes_before_itself() {
    check(12_000);
}

#[test]
#[ignore = "200,000 operations: make soak"]
fn no_transaction_of_a_long_history_comes_before_itself() {
    check(75_000);
}

#[test]
fn commands_without_multi_are_found_out() {
    let database = Database::start_with(&["--workers", "4"]);
    // Whether two clients overlap depends on the machine.
    let found = (0..20).find_map(|seed| anomaly(&history(&database, seed, 4_000, false)));
    let found = found.expect("a cycle, in one of twenty histories");
    eprintln!("found: {found}");
}

#[test]
fn the_check_knows_the_anomalies() {
    let (x, y) = ((0, 0), (0, 1));
    let append = Done::Appended;
    let read = |key, list: &[u64]| Done::Read(key, list.to_vec());
    let kind = |history: &[Transaction]| anomaly(history).unwrap_or_default();
    // Two transactions write the same two lists in different orders.
    let reader = (3, vec![read(x, &[1, 2]), read(y, &[2, 1])]);
    let writes = || vec![append(x), append(y)];
    assert!(kind(&[(1, writes()), (2, writes()), reader]).starts_with("G0"));
    // Each reads what the other has written.
    let circular = [(1, vec![append(x), read(y, &[2])]), (2, vec![append(y), read(x, &[1])])];
    assert!(kind(&circular).starts_with("G1c"));
    // It reads one list before the other's transaction, and one after it.
    let skewed = [(1, writes()), (2, vec![read(x, &[]), read(y, &[1])]), (3, vec![read(x, &[1])])];
    assert!(kind(&skewed).starts_with("G-single"));
    let forked = [
        (1, writes()),
        (2, vec![append(x)]),
        (3, vec![read(x, &[1, 2])]),
        (4, vec![read(x, &[2])]),
    ];
    assert!(kind(&forked).contains("both"));
    assert!(kind(&[(1, vec![append(x), read(x, &[])])]).starts_with("internal"));
    let right = [(1, writes()), (2, vec![read(x, &[1]), read(y, &[1])])];
    assert_eq!(anomaly(&right), None);
}
