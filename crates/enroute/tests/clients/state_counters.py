"""Counters through an agent while slots move: each ends at exactly as often as it was incremented.

Arguments: the agent's address, how many increments (a multiple of ten). The client never repeats a command by itself, and
sees no redirection. Prints one line when it has begun and one when it is done.
"""

import sys

import at_once
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

host, port = sys.argv[1].rsplit(":", 1)
increments = int(sys.argv[2])
THREADS, BATCH = 6, 10
KEYS = [f"{{group:{group}}}:{number}" for group in range(8) for number in range(40)]

done = [dict() for _ in range(THREADS)]


def connect(protocol):
    return redis.Redis(
        host, int(port), protocol=protocol, decode_responses=True, retry=Retry(NoBackoff(), 0), socket_timeout=60
    )


def count(mine, key, times=1):
    mine[key] = mine.get(key, 0) + times


def work(number):
    mine, protocol = done[number], 2 + number % 2
    with connect(protocol) as client:
        for turn, _ in enumerate(range(number, increments // BATCH, THREADS), number):
            keys = [KEYS[(turn * 7 + step * 13 + number) % len(KEYS)] for step in range(BATCH)]
            if turn % 3 == 0:
                for key in keys:
                    client.incr(key)
                    count(mine, key)
            elif turn % 3 == 1:
                with client.pipeline(transaction=False) as pipeline:
                    for key in keys:
                        pipeline.incr(key)
                    answers = pipeline.execute(raise_on_error=False)
                for key, answer in zip(keys, answers):
                    assert isinstance(answer, int), answer
                    count(mine, key)
            else:
                group = turn % 8
                one, other = f"{{group:{group}}}:1", f"{{group:{group}}}:2"
                with client.pipeline(transaction=True) as pipeline:
                    for _ in range(BATCH // 2):
                        pipeline.incr(one)
                        pipeline.incr(other)
                    assert len(pipeline.execute()) == BATCH
                count(mine, one, BATCH // 2)
                count(mine, other, BATCH // 2)
                both = client.mget(one, other)
                assert all(value is not None for value in both), both


at_once.run(work, THREADS)
expected = {}
for mine in done:
    for key, times in mine.items():
        count(expected, key, times)
with connect(2) as client:
    for key, times in expected.items():
        got = int(client.get(key))
        if got != times:
            sys.exit(f"{key} was incremented {times} times and is {got}")
print(f"done: {sum(expected.values())} increments of {len(expected)} counters", flush=True)
