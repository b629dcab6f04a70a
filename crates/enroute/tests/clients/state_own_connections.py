"""WATCH, commands that block and subscriptions, as redis-py uses them with a single server.

Arguments: the address of an agent or of a server, and the version of the protocol. Prints the outcomes, which must be
the same for both.
"""

import sys
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

address, protocol = sys.argv[1:]
host, port = address.rsplit(":", 1)


def connect():
    return redis.Redis(
        host, int(port), protocol=int(protocol), decode_responses=True, retry=Retry(NoBackoff(), 0), socket_timeout=60
    )


client, other = connect(), connect()


def show(name, outcome):
    try:
        print(name, outcome(), flush=True)
    except redis.RedisError as error:
        print(name, type(error).__name__, error, flush=True)


def later(act):
    """Runs `act` while the caller may be blocked already, or not yet: the outcome is the same."""
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def transaction(between):
    with client.pipeline() as pipe:
        pipe.watch("{w}a", "{w}b")
        value = int(pipe.get("{w}a") or 0)
        between(pipe)
        pipe.multi()
        pipe.set("{w}a", value + 1)
        pipe.incr("{w}b")
        return pipe.execute()


show("unchanged", lambda: transaction(lambda pipe: None))
show("changed", lambda: transaction(lambda pipe: other.incr("{w}b")))
show("own change", lambda: transaction(lambda pipe: pipe.set("{w}a", 7)))
show("unwatched", lambda: transaction(lambda pipe: (pipe.unwatch(), pipe.watch("{w}a"), other.incr("{w}b"))))
show("deleted", lambda: transaction(lambda pipe: other.delete("{w}a")))
show("helper", lambda: client.transaction(lambda pipe: (pipe.multi(), pipe.incr("{w}c")), "{w}c"))
show("empty", lambda: client.transaction(lambda pipe: pipe.multi(), "{w}c"))
show("values", lambda: client.mget("{w}a", "{w}b", "{w}c"))

pushed = later(lambda: other.rpush("{q}", "one", "two"))
show("blpop", lambda: client.blpop("{q}", timeout=30))
pushed.join()
show("brpop", lambda: client.brpop(["{q}2", "{q}"], timeout=30))
show("nothing", lambda: client.blpop(["{q}", "{q}2"], timeout=0.05))
show("type", lambda: (other.set("{q}text", "x"), client.blpop("{q}text", timeout=1)))
other.rpush("{q}", "three", "four", "five")
show("blmove", lambda: client.blmove("{q}", "{q}2", 1, "LEFT", "RIGHT"))
show("blmpop", lambda: client.blmpop(1, 2, "{q}", "{q}2", direction="RIGHT", count=5))
show("brpoplpush", lambda: client.brpoplpush("{q}2", "{q}", 1))
scored = later(lambda: other.zadd("{z}", {"a": 1.5, "b": 2}))
show("bzpopmin", lambda: client.bzpopmin("{z}", timeout=30))
scored.join()
show("bzpopmax", lambda: client.bzpopmax(["{z}2", "{z}"], timeout=30))
show("bzmpop", lambda: (other.zadd("{z}", {"c": 3}), client.bzmpop(1, 1, ["{z}"], min=True)))
added = later(lambda: other.xadd("{x}", {"field": "value"}, id="1-1"))
show("xread", lambda: client.xread({"{x}": "0"}, block=30_000))
added.join()
show("xread nothing", lambda: client.xread({"{x}": "$"}, block=50))
show("group", lambda: other.xgroup_create("{x}", "readers", "0"))
show("xreadgroup", lambda: client.xreadgroup("readers", "me", {"{x}": ">"}, block=30_000))
show("in a transaction", lambda: client.pipeline().blpop("{q}none", timeout=0).set("{q}after", 1).execute())
show("after", lambda: client.get("{q}after"))


def heard(listener, count):
    """The next confirmations and messages."""
    messages = []
    while len(messages) < count:
        message = listener.get_message(timeout=30)
        if message is None:
            return messages, "and no more"
        messages.append([message[part] for part in ("type", "pattern", "channel", "data")])
    return messages


listener = client.pubsub()
show("subscribe", lambda: (listener.subscribe("news", "other"), heard(listener, 2))[1])
show("psubscribe", lambda: (listener.psubscribe("n*"), heard(listener, 1))[1])
other.publish("news", "hello")
show("messages", lambda: sorted(heard(listener, 2)))
show("ping", lambda: (listener.ping("still there"), heard(listener, 1))[1])
show("unsubscribe", lambda: (listener.unsubscribe("news"), heard(listener, 1))[1])
other.publish("news", "again")
show("by pattern", lambda: heard(listener, 1))
show("of none", lambda: (listener.unsubscribe("absent"), heard(listener, 1))[1])
show("all", lambda: (listener.punsubscribe(), listener.unsubscribe(), heard(listener, 2))[2])
show("ssubscribe", lambda: (listener.ssubscribe("{s}1"), heard(listener, 1))[1])
other.execute_command("SPUBLISH", "{s}1", "to a shard")
show("shard", lambda: heard(listener, 1))
show("sunsubscribe", lambda: (listener.sunsubscribe("{s}1"), heard(listener, 1))[1])
listener.close()
show("done", lambda: client.ping())
