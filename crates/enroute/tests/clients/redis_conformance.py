"""Prints what redis-py is told, so that two runs can be compared."""

import sys

import redis

host, port = sys.argv[1].rsplit(":", 1)
# With authorities, the certificate for localhost is verified.
authorities = sys.argv[2:]
tls = {"ssl": True, "ssl_ca_certs": authorities[0]} if authorities else {}
host = "localhost" if authorities else host


def tell(what, ask, times=1):
    for _ in range(times):
        try:
            print(what, repr(ask()))
        except redis.RedisError as error:
            print(what, type(error).__name__, error)


def converse(client):
    client.flushall()
    tell("set", lambda: client.set("s", "v"))
    tell("get", lambda: client.get("s"), 4)
    tell("get absent", lambda: client.get("absent"), 4)
    tell("mget", lambda: client.mget("s", "absent", "s"), 4)
    tell("hset", lambda: client.hset("h", mapping={"a": 1, "b": 2}))
    tell("hgetall", lambda: sorted(client.hgetall("h").items()), 4)
    tell("zadd", lambda: client.zadd("z", {"a": 1.5, "b": 2}))
    tell("zrange", lambda: client.zrange("z", 0, -1, withscores=True), 4)
    tell("zscore", lambda: client.zscore("z", "a"), 4)
    tell("sadd", lambda: client.sadd("t", "x"))
    tell("smembers", lambda: client.smembers("t"), 4)
    tell("lpush", lambda: client.lpush("l", "1", "2"))
    tell("lrange", lambda: client.lrange("l", 0, -1), 4)
    tell("wrong type", lambda: client.incr("h"))
    tell("set nx", lambda: client.set("s", "w", nx=True))
    tell("getset", lambda: client.set("s", "w", get=True))
    tell("get", lambda: client.get("s"), 4)
    tell("large", lambda: client.set("large", "x" * 3_000_000))
    tell("large", lambda: len(client.get("large")), 4)
    tell("bytes", lambda: client.set(b"\x00\xff\r\n", b"\r\n\x00"))
    tell("bytes", lambda: client.get(b"\x00\xff\r\n"), 4)
    with client.pipeline(transaction=False) as pipeline:
        for number in range(50):
            pipeline.set(f"p:{number % 5}", number).get(f"p:{number % 5}").get("s")
        tell("pipeline", pipeline.execute)
    with client.pipeline(transaction=True) as pipeline:
        pipeline.watch("s")
        tell("watched", lambda: pipeline.get("s"))
        client.set("s", "by another")
        pipeline.multi()
        pipeline.set("s", "by the transaction")
        tell("exec", pipeline.execute)
    tell("get", lambda: client.get("s"), 4)
    script = client.register_script("redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])")
    tell("script", lambda: script(keys=["s"], args=["by a script"]))
    tell("get", lambda: client.get("s"), 4)
    subscriber = client.pubsub()
    subscriber.subscribe("news")
    tell("subscribe", lambda: subscriber.get_message(timeout=60))
    tell("publish", lambda: client.publish("news", "hi"))
    tell("message", lambda: subscriber.get_message(timeout=60))
    subscriber.close()
    tell("blpop", lambda: client.blpop("l", timeout=1))
    tell("lrange", lambda: client.lrange("l", 0, -1), 4)
    tell("rename", lambda: client.rename("s", "r"))
    tell("get", lambda: client.get("s"), 4)
    tell("expire", lambda: client.expire("r", 1000))
    tell("get", lambda: client.get("r"), 4)
    tell("scan", lambda: sorted(client.scan_iter(match="p:*")))


for protocol in (2, 3):
    for database in (0, 3):
        with redis.Redis(host, int(port), db=database, protocol=protocol, **tls) as client:
            converse(client)
with redis.Redis(host, int(port), **tls) as client:
    converse(client)
