//! The same commands to a redis-server directly and to another through the cache: the replies are
//! identical, as far as a client can see, and many of them came from storage.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use redis::{Cmd, Connection, Value};

/// One command per line; a read is repeated three times, so that it misses, fills and hits.
const COMMANDS: &str = "\
SET s hello
GET s
STRLEN s
GETRANGE s 1 3
APPEND s !
GET s
SETRANGE s 0 J
GET s
SETEX fleeting 100 v
GET fleeting
PSETEX fleeting 100000 w
GET fleeting
PERSIST fleeting
GET fleeting
GETDEL fleeting
GET fleeting
SETNX s other
GET s
SET s kept XX GET
GETSET s swapped
GET s
GETEX s EX 100
GET s
INCR n
GET n
INCRBYFLOAT n 1.5
GET n
DECRBY n 3
MSET a 1 b 2 c 3
MGET a b missing c a
GET b
DEL b
MGET a b missing c a
MSETNX a 9 d 9
MGET a d
SETBIT bits 7 1
GETBIT bits 7
BITCOUNT bits
GET bits
EXISTS a b a
EXISTS a
TYPE a
HSET h f 1 g 2
HGET h f
HGETALL h
HMGET h f missing g
HLEN h
HSTRLEN h f
HEXISTS h g
HKEYS h
HVALS h
HINCRBY h f 5
HGET h f
HDEL h f
HGETALL h
HGET h f
GET h
MGET a h
RPUSH l 1 2 3
LRANGE l 0 -1
LLEN l
LINDEX l 1
LPOS l 2
LPUSH l 0
LRANGE l 0 -1
LSET l 0 z
LREM l 1 z
LINSERT l BEFORE 2 y
LTRIM l 0 1
LRANGE l 0 -1
RPOPLPUSH l other
LRANGE l 0 -1
LRANGE other 0 -1
LMOVE other l LEFT RIGHT
LLEN other
SADD t a b c
SMEMBERS one
SCARD t
SISMEMBER t a
SMISMEMBER t a z
SREM t a
SISMEMBER t a
SADD u b q
SINTER t u
SINTERSTORE v t u
SMEMBERS v
SMOVE u v q
SCARD v
SCARD u
ZADD z 1 a 2 b 3.5 c
ZRANGE z 0 -1
ZRANGE z 0 -1 WITHSCORES
ZSCORE z c
ZMSCORE z a missing
ZRANK z b
ZREVRANK z b
ZCARD z
ZCOUNT z 1 2
ZRANGEBYSCORE z (1 +inf
ZINCRBY z 10 a
ZRANGE z 0 -1 WITHSCORES
ZPOPMIN z
ZCARD z
ZRANGESTORE y z 0 -1
ZRANGE y 0 -1
ZUNIONSTORE x 2 z y
ZSCORE x a
XADD stream 1-1 f v
XLEN stream
XRANGE stream - +
XADD stream 2-1 f w
XRANGE stream - +
XDEL stream 1-1
XLEN stream
PFADD hll a b c
PFCOUNT hll
GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
GEODIST geo Palermo Catania
GEOPOS geo Palermo
GEOHASH geo Catania
GEOSEARCH geo FROMMEMBER Palermo BYRADIUS 200 km ASC
COPY s copied
GET copied
RENAME copied moved
GET copied
GET moved
SORT l
SORT_RO l ALPHA
DUMP a
OBJECT ENCODING a
EVAL return{redis.call('get',KEYS[1]),ARGV[1]} 1 a x
EVAL return(redis.call('set','undeclared','1')) 0
GET undeclared
EVAL redis.call('set',KEYS[1],'2') 1 undeclared
GET undeclared
SCRIPT LOAD return(1)
EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
SELECT 1
GET a
SET a other-database
GET a
SELECT 0
GET a
MOVE a 1
GET a
SWAPDB 0 1
GET a
SWAPDB 0 1
GET a
GET
GET a b
SET
NOSUCHCOMMAND x
INCR s
LPUSH s x
HGET s f
EXPIRE a soon
TTL a
PTTL missing
ECHO hi
PING
PING payload
LCS s n
SELECT 99
CLIENT GETNAME
CLIENT SETNAME me
CLIENT GETNAME
UNLINK a c
MGET a c
FLUSHDB
GET s
DBSIZE
FLUSHALL
GET moved
";

#[test]
fn in_resp2() {
    compare("resp2", play);
}

#[test]
fn in_resp3() {
    compare("resp3", play);
}

#[test]
fn in_pipelines_and_transactions() {
    compare("resp2", |connection| {
        let mut answers = Vec::new();
        for round in 0..3 {
            let mut pipeline = redis::pipe();
            for number in 0..200 {
                let key = format!("p:{}", number % 20);
                pipeline.cmd("GET").arg(&key);
                if number % 17 == round {
                    pipeline.cmd("SET").arg(&key).arg(number);
                }
                pipeline.cmd("MGET").arg(&key).arg("p:1").arg("absent");
            }
            answers.push(pipeline.query::<Value>(connection).expect("answers"));
            let mut transaction = redis::pipe();
            transaction.atomic().cmd("GET").arg("p:1").cmd("INCR").arg("p:n").cmd("GET").arg("p:n");
            answers.push(transaction.query(connection).expect("answers"));
            for command in ["GET p:n", "MULTI", "SET p:n 7", "GET p:n", "DISCARD", "GET p:n"] {
                answers.push(ask(connection, command));
            }
            for command in ["WATCH p:n", "GET p:n", "MULTI", "SET p:n 8", "GET p:n", "EXEC"] {
                answers.push(ask(connection, command));
            }
            answers.extend(["GET p:n", "EXEC", "GET p:n", "GET p:n"].map(|it| ask(connection, it)));
        }
        answers
    });
}

#[test]
fn of_values_up_to_ten_megabytes() {
    compare("resp2", |connection| {
        let mut answers = Vec::new();
        for bytes in [0, 1, 1_000, 100_000, 900_000, 1_100_000, 10_000_000] {
            let value: Vec<u8> = (0..bytes).map(|byte| (byte * 31 % 251) as u8).collect();
            let () = redis::cmd("SET").arg("large").arg(&value).query(connection).expect("stored");
            for _ in 0..3 {
                let read: Vec<u8> = redis::cmd("GET").arg("large").query(connection).expect("read");
                assert!(read == value, "a value of {bytes} bytes came back changed");
                answers.push(ask(connection, "GETRANGE large 0 9"));
            }
        }
        answers
    });
}

fn play(connection: &mut Connection) -> Vec<Value> {
    COMMANDS
        .lines()
        .flat_map(|command| (0..repetitions(command)).map(move |_| command))
        .map(|command| ask(connection, command))
        .collect()
}

/// Commands that change nothing are repeated.
fn repetitions(command: &str) -> usize {
    let name = command.split(' ').next().unwrap_or_default();
    let reads = [
        "GET",
        "MGET",
        "STRLEN",
        "GETRANGE",
        "GETBIT",
        "BITCOUNT",
        "EXISTS",
        "TYPE",
        "HGET",
        "HGETALL",
        "HMGET",
        "HLEN",
        "HSTRLEN",
        "HEXISTS",
        "HKEYS",
        "HVALS",
        "LRANGE",
        "LLEN",
        "LINDEX",
        "LPOS",
        "SMEMBERS",
        "SCARD",
        "SISMEMBER",
        "SMISMEMBER",
        "SINTER",
        "ZRANGE",
        "ZSCORE",
        "ZMSCORE",
        "ZRANK",
        "ZREVRANK",
        "ZCARD",
        "ZCOUNT",
        "ZRANGEBYSCORE",
        "XLEN",
        "XRANGE",
        "PFCOUNT",
        "GEODIST",
        "GEOPOS",
        "GEOHASH",
        "GEOSEARCH",
        "SORT_RO",
        "DUMP",
        "OBJECT",
        "PING",
        "ECHO",
        "LCS",
    ];
    if reads.contains(&name) { 3 } else { 1 }
}

fn ask(connection: &mut Connection, command: &str) -> Value {
    let mut words = command.split(' ');
    let mut packed = Cmd::new();
    words.by_ref().for_each(|word| {
        packed.arg(word);
    });
    match packed.query(connection) {
        Ok(value) => value,
        Err(error) => Value::SimpleString(format!("error: {error}")),
    }
}

fn compare(protocol: &str, script: impl Fn(&mut Connection) -> Vec<Value>) {
    let Some(direct) = Redis::start() else { return };
    let Some(behind) = Redis::start() else { return };
    let cache = Cache::start("redis", behind.address(), "");
    let connect = |address| {
        let url = format!("redis://{address}/?protocol={protocol}");
        redis::Client::open(url).expect("a URL").get_connection().expect("a connection")
    };
    let expected = script(&mut connect(direct.address()));
    let answers = script(&mut connect(cache.address()));
    assert_eq!(answers.len(), expected.len());
    for (number, (answer, expected)) in answers.iter().zip(&expected).enumerate() {
        assert_eq!(answer, expected, "answer {number}");
    }
    let statistics = cache.statistics();
    assert!(statistics["hits"] >= 12.0, "{statistics:?}");
    eprintln!("{protocol}: {} answers, {statistics:?}", answers.len());
}
