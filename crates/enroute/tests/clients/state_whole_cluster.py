"""Commands over many slots through an agent, compared with the same commands at a single server.

Arguments: the agent's address, the server's address, "moving" or "still", how many rounds, a seed. While slots move, an
iteration over all keys may miss a key or see it twice, so these commands are compared only when they are still. Prints
one line when it has begun and one when it is done.
"""

import random
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def connect(address, protocol):
    host, port = address.rsplit(":", 1)
    return redis.Redis(
        host, int(port), protocol=protocol, decode_responses=True, retry=Retry(NoBackoff(), 0), socket_timeout=60
    )


agent_address, server_address, mode, rounds, seed = sys.argv[1:]
chance = random.Random(int(seed))
# Of many slots, and of the eight that move.
KEYS = [f"key:{number}" for number in range(60)]
KEYS += [f"{{group:{group}}}:{number}" for group in range(8) for number in range(10)]


def some(most):
    return [chance.choice(KEYS) for _ in range(chance.randint(1, most))]


def visible(keys):
    """Without the notes that the state layer keeps among the keys."""
    return sorted(key for key in keys if "enroute" not in key)


def outcome(command, client):
    """The reply, or the text of the error: a library may be called that is not there."""
    try:
        return command(client)
    except redis.ResponseError as error:
        return str(error)


def commands():
    value = str(chance.random())
    few, many = some(5), some(40)
    yield lambda client: client.mset({key: f"{value} {key}" for key in many})
    yield lambda client: client.mget(many)
    yield lambda client: client.mget(*some_of)
    yield lambda client: client.delete(*few)
    yield lambda client: client.unlink(*few)
    yield lambda client: client.exists(*many)
    yield lambda client: client.touch(*many)
    yield lambda client: client.set(few[0], value)


def everything():
    yield lambda client: visible(client.keys("*"))
    yield lambda client: visible(client.keys("key:1*"))
    yield lambda client: visible(client.scan_iter(count=7))
    yield lambda client: visible(client.scan_iter(match="*:1*", count=50))
    yield lambda client: visible(client.scan_iter(_type="string"))
    yield lambda client: client.dbsize() - len([key for key in client.keys("*") if "enroute" in key])
    yield lambda client: client.script_load("return 7")
    yield lambda client: client.script_exists(client.script_load("return 8"), "0" * 40)
    yield lambda client: client.function_load(
        "#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 9 end, flags={'no-writes'}}",
        replace=True,
    )
    # A library is at every node: the keys are of many slots.
    yield lambda client: [client.fcall_ro("f", 1, key) for key in KEYS[:20]]
    yield lambda client: [client.evalsha(client.script_load("return KEYS[1]"), 1, key) for key in KEYS[:20]]
    yield lambda client: client.function_delete("lib")
    yield lambda client: client.script_flush()
    yield lambda client: client.script_exists(client.script_load("return 8"))


def pipelined(client):
    with client.pipeline(transaction=False) as pipeline:
        for key in some_of:
            pipeline.set(key, "1")
        pipeline.mset({key: "2" for key in some_of[::2]})
        pipeline.mget(some_of)
        pipeline.exists(*some_of)
        pipeline.delete(*some_of[::3])
        pipeline.mget(some_of)
        return pipeline.execute()


print("begun", flush=True)
for protocol in (2, 3):
    with connect(agent_address, protocol) as agent, connect(server_address, protocol) as server:
        # The lease of a mover is a key too.
        server.flushall()
        agent.flushall()
        assert agent.select(0), "database 0 is the only one"
        for turn in range(int(rounds)):
            some_of = some(30)
            candidates = list(commands()) + [pipelined]
            if mode == "still":
                candidates += list(everything())
            chosen = chance.choice(candidates)
            if turn % 50 == 49:
                chosen = lambda client: client.flushall(asynchronous=turn % 100 == 49) if turn % 20 else client.flushdb()
            for command in (chosen, lambda client: client.mget(KEYS)):
                got, expected = outcome(command, agent), outcome(command, server)
                assert got == expected, f"seed {seed}, turn {turn}: expected {expected}, got {got}"
print(f"done: {rounds} rounds", flush=True)
