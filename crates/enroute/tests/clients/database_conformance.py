"""Prints what redis-py is told by a database of strings, so that two servers can be compared.

Arguments: HOST:PORT, and for TLS the files of the authority, the client's certificate and its key.
"""

import sys
import threading
import time

import redis
from redis.exceptions import WatchError

host, port = sys.argv[1].rsplit(":", 1)
where = {"host": host, "port": int(port)}
if len(sys.argv) > 2:
    where |= dict(zip(("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"), sys.argv[2:], strict=True), ssl=True)


def connect(**options):
    return redis.Redis(**where, **options)


def tell(what, ask):
    try:
        print(what, repr(ask()))
    except redis.RedisError as error:
        print(what, type(error).__name__, error)


def strings(client):
    tell("set", lambda: client.set("s", "v", ex=1000))
    tell("set nx", lambda: client.set("s", "w", nx=True))
    tell("set xx get", lambda: client.set("s", "w", xx=True, get=True, keepttl=True))
    tell("ttl", lambda: 998 <= client.ttl("s") <= 1000)
    tell("getex", lambda: client.getex("s", persist=True))
    tell("persisted", lambda: client.ttl("s"))
    tell("append", lambda: client.append("s", "-more"))
    tell("getrange", lambda: client.getrange("s", 1, -2))
    tell("setrange", lambda: client.setrange("s", 10, "x"))
    tell("mset", lambda: client.mset({"a": 1, "b": 2.5, b"\x00\xff\r\n": b"\r\n\x00"}))
    tell("mget", lambda: client.mget("a", "b", "absent", b"\x00\xff\r\n"))
    tell("incr", lambda: client.incr("a", 41))
    tell("incrbyfloat", lambda: client.incrbyfloat("b", 0.25))
    tell("not a number", lambda: client.incr("s"))
    tell("getdel", lambda: client.getdel("b"))
    tell("large", lambda: client.set("large", "x" * 3_000_000))
    tell("large", lambda: len(client.get("large")))
    tell("setbit", lambda: client.setbit("bits", 77, 1))
    tell("bitcount", lambda: client.bitcount("bits"))
    tell("bitpos", lambda: client.bitpos("bits", 1))
    tell("bitfield", lambda: client.bitfield("bits").set("u8", "#1", 200).incrby("u8", "#1", 60, "SAT").execute())
    tell("lcs", lambda: client.lcs("s", "a", len=True))


def generic(client):
    tell("rename", lambda: client.rename("s", "r"))
    tell("copy", lambda: client.copy("r", "s"))
    tell("exists", lambda: client.exists("r", "s", "absent"))
    tell("type", lambda: client.type("r"))
    tell("touch", lambda: client.touch("r", "absent"))
    tell("unlink", lambda: client.unlink("r"))
    tell("expire gt", lambda: client.expire("s", 100, gt=True))
    tell("expire lt", lambda: client.expire("s", 100, lt=True))
    tell("pexpireat", lambda: client.pexpireat("s", 4_000_000_000_123))
    tell("expiretime", lambda: client.expiretime("s"))
    client.set("short", "x", px=50)
    deadline = time.monotonic() + 30
    while client.exists("short") and time.monotonic() < deadline:
        time.sleep(0.01)
    tell("over", lambda: client.get("short"))
    with client.pipeline(transaction=False) as pipeline:
        for number in range(3000):
            pipeline.set(f"scanned:{number}", number)
        tell("filled", lambda: all(pipeline.execute()))
    found = list(client.scan_iter(match="scanned:*", count=100))
    tell("scan_iter", lambda: (len(set(found)), sorted(found) == sorted(set(found))))
    tell("scan type", lambda: list(client.scan_iter(_type="list")))
    tell("keys", lambda: sorted(client.keys("scanned:29?")))
    tell("dbsize", client.dbsize)


def transactions(client):
    with client.pipeline(transaction=True) as pipeline:
        pipeline.set("t", 1).incr("t").get("t").mget("t", "absent")
        tell("exec", pipeline.execute)
        pipeline.set("t", "word").incr("t").get("t")
        tell("exec", lambda: [str(reply) for reply in pipeline.execute(raise_on_error=False)])
        pipeline.watch("t")
        client.set("t", "by another")
        pipeline.multi()
        pipeline.set("t", "by the transaction")
        try:
            pipeline.execute()
            print("watched: executed")
        except WatchError as error:
            print("watched:", error)
    # Optimistic increments from several threads: none is lost.
    client.set("n", 0)

    def count():
        for _ in range(20):
            client.transaction(lambda pipe: (lambda old: pipe.multi() or pipe.set("n", old + 1))(int(pipe.get("n"))), "n")

    threads = [threading.Thread(target=count) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    tell("counted", lambda: client.get("n"))


class Tracker:
    """A connection with invalidations in RESP3; redis-py's own cache needs a newer server."""

    def __init__(self, *mode):
        self.told = []
        self.connection = connect(protocol=3).connection_pool.get_connection()
        self.connection._parser.set_invalidation_push_handler(self.told.append)
        tell(f"tracking {mode}", lambda: self.ask("CLIENT", "TRACKING", "ON", *mode))

    def ask(self, *words):
        self.connection.send_command(*words)
        return self.connection.read_response()

    def hear(self, count):
        """The keys reported so far, None for a flush, once there are `count`. Their grouping, and
        whether a key that is reported twice is listed twice, depend on time."""
        deadline = time.monotonic() + 30
        while True:
            keys = {key for push in self.told for key in push[1] or [None]}
            if len(keys) >= count or time.monotonic() > deadline:
                return sorted(map(str, keys))
            self.ask("PING")


def tracking():
    writer = connect()
    writer.mset({"tracked": "old", "other": "x"})
    tracker = Tracker("NOLOOP")
    tell("read", lambda: tracker.ask("MGET", "tracked", "other", "absent"))
    writer.set("tracked", "new")
    tell("told", lambda: tracker.hear(1))
    tell("read", lambda: tracker.ask("GET", "tracked"))
    tell("own write", lambda: tracker.ask("SET", "tracked", "own"))
    writer.set("absent", "here")
    tell("told", lambda: tracker.hear(2))
    writer.flushall()
    tell("told of the flush", lambda: tracker.hear(3))

    tracker = Tracker()
    tell("read", lambda: tracker.ask("GET", "tracked"))
    tell("own write", lambda: tracker.ask("SET", "tracked", "own"))
    tell("told of it", lambda: tracker.hear(1))

    tracker = Tracker("BCAST", "PREFIX", "user:", "PREFIX", "item:")
    writer.set("other", "x")
    writer.set("user:1", "x")
    writer.delete("item:1", "user:1")
    tell("own write", lambda: tracker.ask("SET", "item:2", "own"))
    tell("told", lambda: tracker.hear(2))

    tracker = Tracker("OPTIN")
    tell("read", lambda: tracker.ask("GET", "other"))
    tell("caching", lambda: tracker.ask("CLIENT", "CACHING", "YES"))
    tell("read", lambda: tracker.ask("GET", "tracked"))
    writer.mset({"other": 1, "tracked": 1})
    tell("told", lambda: tracker.hear(1))

    tracker = Tracker("OPTOUT")
    tell("caching", lambda: tracker.ask("CLIENT", "CACHING", "NO"))
    tell("read", lambda: tracker.ask("GET", "other"))
    tell("read", lambda: tracker.ask("GET", "tracked"))
    writer.mset({"other": 2, "tracked": 2})
    tell("told", lambda: tracker.hear(1))
    tell("off", lambda: tracker.ask("CLIENT", "TRACKING", "OFF"))


def redirected():
    """RESP2: one connection reads, another hears by its subscription."""
    ear = connect(protocol=2).pubsub()
    ear.connection = connect(protocol=2).connection_pool.get_connection()
    ear.connection.send_command("CLIENT", "ID")
    number = ear.connection.read_response()
    ear.subscribe("__redis__:invalidate")
    tell("subscribed", lambda: ear.get_message(timeout=30))
    writer = connect(protocol=2)
    with connect(protocol=2, single_connection_client=True) as reader:
        tell("tracking", lambda: reader.execute_command("CLIENT", "TRACKING", "ON", "REDIRECT", number))
        tell("read", lambda: reader.get("tracked"))
        writer.set("tracked", "again")
        tell("told", lambda: ear.get_message(timeout=30))
        tell("to itself", lambda: reader.client_getredir() == number)
        writer.flushall()
        tell("told of the flush", lambda: ear.get_message(timeout=30))


def administration(client):
    tell("server", lambda: "redis_version" in client.info("server"))
    tell("config", lambda: client.config_get("maxmemory-polic?"))
    tell("name", lambda: (client.client_setname("me"), client.client_getname()))
    tell("in the list", lambda: [each["name"] for each in client.client_list() if each["name"] == "me"])
    tell("acl", lambda: (client.acl_setuser("app", enabled=True, passwords=["+pw"], keys=["app:*"], commands=["+get"]), client.acl_whoami()))
    with connect(username="app", password="pw") as app:
        tell("allowed", lambda: app.get("app:1"))
        tell("another key", lambda: app.get("s"))
        tell("another command", lambda: app.set("app:1", 1))
    tell("deluser", lambda: client.acl_deluser("app"))
    tell("unknown", lambda: client.execute_command("NOSUCH", "a"))


for protocol in (2, 3):
    for database in (0, 3):
        with connect(db=database, protocol=protocol) as client:
            client.flushall()
            strings(client)
            generic(client)
            transactions(client)
            administration(client)
            tell("flushdb", client.flushdb)
            tell("empty", client.dbsize)
tracking()
redirected()
