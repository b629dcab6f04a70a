"""Prints what pymemcache is told, so that two runs can be compared."""

import sys
import time

from pymemcache.client.base import Client
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheError

host, port = sys.argv[1].rsplit(":", 1)
place = (host, int(port))
# Of several servers, each counts the unique numbers of its items by itself.
several = "several" in sys.argv[2:]
unique_flag = "" if several else "c "


def shown(value, unique):
    return value if several else (value, unique)


def tell(what, ask, times=1):
    for _ in range(times):
        try:
            print(what, repr(ask()))
        except MemcacheError as error:
            print(what, type(error).__name__, error)


def converse(client):
    client.flush_all(noreply=False)
    tell("set", lambda: client.set("s", "v", flags=7))
    tell("get", lambda: client.get("s"), 4)
    tell("get absent", lambda: client.get("absent"), 4)
    tell("get_many", lambda: sorted(client.get_many(["s", "absent"]).items()), 4)
    tell("gets", lambda: shown(*client.gets("s")), 4)
    tell("gets_many", lambda: [shown(*item) for item in client.gets_many(["s", "absent"]).values()], 4)
    tell("add", lambda: client.add("s", "w"))
    tell("replace", lambda: client.replace("s", "w"))
    tell("get", lambda: client.get("s"), 4)
    tell("append", lambda: client.append("s", "!"))
    tell("prepend", lambda: client.prepend("s", "?"))
    tell("get", lambda: client.get("s"), 4)
    value, unique = client.gets("s")
    tell("cas", lambda: client.cas("s", "by cas", unique))
    tell("cas again", lambda: client.cas("s", "by cas again", unique))
    tell("get", lambda: client.get("s"), 4)
    # No result is shorter than the number before: memcached pads it with a space or not, as it
    # happens.
    tell("set number", lambda: client.set("n", "15"))
    tell("incr", lambda: client.incr("n", 7))
    tell("get", lambda: client.get("n"), 4)
    tell("decr", lambda: client.decr("n", 12))
    tell("get", lambda: client.get("n"), 4)
    tell("incr absent", lambda: client.incr("absent", 1))
    tell("incr text", lambda: client.incr("s", 1))
    tell("touch", lambda: client.touch("s", 0))
    for number in range(50):
        client.set(f"p:{number % 5}", str(number), noreply=True)
        tell("after noreply", lambda: client.get(f"p:{number % 5}"))
    client.delete("p:1", noreply=True)
    tell("after delete", lambda: client.get("p:1"), 2)
    tell("set_many", lambda: client.set_many({f"q:{number}": "y" * number for number in range(40)}))
    tell("many", lambda: sorted(client.get_many([f"q:{number}" for number in range(50)])), 3)
    tell("large", lambda: client.set("large", "x" * 900_000))
    tell("large", lambda: len(client.get("large")), 4)
    tell("too large", lambda: client.set("large", "x" * 3_000_000))
    tell("large", lambda: client.get("large"), 2)
    tell("bytes", lambda: client.set("bytes", b"END\r\nVALUE s 0 1\r\n\x00\xff"))
    tell("bytes", lambda: client.get("bytes"), 4)
    tell("long key", lambda: client.get("k" * 251))
    tell("delete", lambda: client.delete("s"))
    tell("delete again", lambda: client.delete("s"))
    tell("get", lambda: client.get("s"), 4)


def ask(client, request, end):
    """Returns the whole reply; `raw_command` drops what came in segments before that of the end."""
    client.sock.sendall(request)
    reply = b""
    while not reply.endswith(end):
        part = client.sock.recv(4096)
        if not part:
            raise MemcacheError(f"the connection was closed after {reply!r}")
        reply += part
    return reply


def expire(client):
    client.set("short", "x", expire=2)
    client.set("touched", "x")
    client.set("got", "x")
    for _ in range(3):
        client.get_many(["short", "touched", "got"])
    client.touch("touched", 2)
    tell("gat", lambda: ask(client, b"gat 2 got absent\r\n", b"END\r\n"))
    for _ in range(3):
        client.get_many(["short", "touched", "got"])
    # An item lives for at most its number of seconds and one.
    time.sleep(4)
    tell("expired", lambda: sorted(client.get_many(["short", "touched", "got"])))


def speak_meta(client):
    tell("ms", lambda: client.raw_command("ms m 2\r\nxy"))
    tell("mg", lambda: client.raw_command(f"mg m k f {unique_flag}s O1 q"), 4)
    tell("mg absent", lambda: client.raw_command("mg absent v"), 4)
    tell("mn", lambda: client.raw_command("mg absent v q\r\nmn"), 4)
    tell("ma", lambda: client.raw_command("ma m"))
    tell("md", lambda: client.raw_command("md m I T30"))
    for _ in range(3):
        tell("stale", lambda: client.raw_command(f"mg m k {unique_flag}q"))


def flush(client):
    client.set("flushed", "x")
    tell("flush_all", lambda: client.flush_all(delay=2, noreply=False))
    client.get("flushed")
    time.sleep(4)
    tell("flushed", lambda: client.get("flushed"))
    tell("flush_all", lambda: client.flush_all(noreply=False))
    tell("flushed", lambda: client.get("flushed"), 2)


converse(Client(place))
converse(Client(place, default_noreply=False))
converse(HashClient([place]))
speak_meta(Client(place))
expire(Client(place))
flush(Client(place))
