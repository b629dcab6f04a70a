//! After the first SIGTERM the cache ends once every outstanding reply was sent; after a second one
//! it ends at once.

use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;

use crate::support::enroute::Cache;
use crate::support::message::{Client, Message};
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;
use crate::support::raw::{CHECK, RIGHTS, Raw, accept_client};
use crate::support::scripted::ScriptedOrigin;
use bson::doc;

const SIGTERM: i32 = 15;

#[test]
fn outstanding_replies_arrive_and_no_new_client_is_accepted() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let cache = Cache::start("redis", origin.local_addr().expect("bound"), "");
    let mut idle = Raw::connect(cache.address());
    let mut client = Raw::connect(cache.address());
    client.say("PING\r\nPING\r\n");
    let mut origin = Raw::from(accept_client(&origin));
    origin.hear(format!("{CHECK}PING\r\nPING\r\n"));
    origin.say(RIGHTS);
    cache.process().signal("TERM");
    idle.hear_end();
    origin.say("+PONG\r\n");
    client.hear("+PONG\r\n");
    assert!(client.is_open(), "a reply is still to come");
    origin.say("+PONG\r\n");
    client.hear("+PONG\r\n");
    client.hear_end();
    origin.hear_end();
    let address = cache.address();
    let ended = cache.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.lines().last().is_some_and(|line| line.contains("connections=0")));
    assert!(std::net::TcpStream::connect(address).is_err(), "the listener is still open");
}

#[test]
fn outstanding_replies_of_dynamodb_arrive() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let cache = Cache::start("dynamodb", origin.local_addr().expect("bound"), "");
    let request = "POST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: DynamoDB_20120810.PutItem\r\n\
                   Content-Length: 2\r\n\r\n{}";
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let mut idle = Raw::connect(cache.address());
    idle.say(request);
    let mut of_idle = Raw::from(accept_client(&origin));
    of_idle.hear(request);
    of_idle.say(reply);
    idle.hear(reply);
    let mut client = Raw::connect(cache.address());
    client.say(request);
    let mut of_client = Raw::from(accept_client(&origin));
    of_client.hear(request);
    cache.process().signal("TERM");
    // It drains.
    idle.hear_end();
    assert!(client.is_open(), "a reply is still to come");
    of_client.say(reply);
    client.hear(reply);
    client.hear_end();
    assert_eq!(cache.wait().status.code(), Some(0));
}

#[test]
fn what_may_never_come_is_not_waited_for() {
    let Some(redis) = Redis::start() else { return };
    let mongo = ScriptedOrigin::start(
        "expect hello\nhold for ever\nreply {\"ok\": 1}\nalways ping\nreply {\"ok\": 1}\n",
    );
    let listeners = [("redis", redis.address(), ""), ("mongodb", mongo.address(), "")];
    // Longer than the test's timeout: it passes only if the cache does not wait.
    let cache = Cache::start_all(&listeners, "drain_timeout = \"10min\"\n");
    let [redis, mongodb] = cache.addresses() else { panic!("two listeners") };
    let mut subscriber = Raw::connect(*redis);
    subscriber.ask("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let mut blocked = Raw::connect(*redis);
    blocked.command("BLPOP queue 0");
    let mut monitor = Client::connect(*mongodb);
    let hello = doc! { "hello": 1, "maxAwaitTimeMS": 10_000, "$db": "admin" };
    monitor.send(Message::new(0, hello));
    mongo.reached("for ever");
    cache.statistics_once(|statistics| statistics["connections"] == 3.0);
    let ended = cache.terminate();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    subscriber.hear_end();
    blocked.hear_end();
    assert!(monitor.receive().is_none());
    mongo.release("for ever");
}

/// Requests after a blocked command would be answered even later.
#[test]
fn what_stands_behind_a_blocked_command_is_not_waited_for() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "drain_timeout = \"10min\"\n");
    let mut client = redis::Client::open(format!("redis://{}/", cache.address()))
        .and_then(|client| client.get_connection())
        .expect("greeted");
    let mut pipeline = redis::pipe();
    pipeline.cmd("SET").arg("k").arg("v").cmd("BLPOP").arg("queue").arg(0);
    pipeline.cmd("GET").arg("k").cmd("SET").arg("k").arg("w");
    let blocked = std::thread::spawn(move || pipeline.query::<redis::Value>(&mut client));
    let mut direct = redis.connection();
    loop {
        let clients: String = redis::cmd("INFO").arg("clients").query(&mut direct).expect("told");
        if clients.contains("blocked_clients:1") {
            break;
        }
        std::thread::yield_now();
    }
    let ended = cache.terminate();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    blocked.join().expect("it ends").expect_err("the connection is closed");
}

#[test]
fn a_reply_that_does_not_come_in_time_is_given_up() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let options = "drain_timeout = \"100ms\"\n";
    let cache = Cache::start("redis", origin.local_addr().expect("bound"), options);
    let mut client = Raw::connect(cache.address());
    client.say("PING\r\n");
    let mut origin = Raw::from(accept_client(&origin));
    origin.hear(format!("{CHECK}PING\r\n"));
    let ended = cache.terminate();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("closing connections that are still busy"), "{}", ended.stderr);
    client.hear_end();
}

#[test]
fn a_second_one_ends_it_at_once() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let options = format!("drain_timeout = \"{}s\"\n", 10 * PATIENCE.as_secs());
    let cache = Cache::start("redis", origin.local_addr().expect("bound"), &options);
    let mut idle = Raw::connect(cache.address());
    let mut client = Raw::connect(cache.address());
    client.say("PING\r\n");
    let mut origin = Raw::from(accept_client(&origin));
    origin.hear(format!("{CHECK}PING\r\n"));
    cache.process().signal("TERM");
    // Draining has begun.
    idle.hear_end();
    let ended = cache.terminate();
    assert_eq!(ended.status.signal(), Some(SIGTERM), "{:?}", ended.status);
}
