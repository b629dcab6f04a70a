"""Counters of a cluster client while slots move: each ends at exactly its number of increments.

Arguments: a node's address, the number of increments. The client follows redirections with
redis-py's defaults. Prints one line when it has begun and one when it is done.
"""

import sys

import at_once
from redis.cluster import RedisCluster

host, port = sys.argv[1].rsplit(":", 1)
increments = int(sys.argv[2])
THREADS, GROUPS = 4, 8


def keys(thread):
    return [f"{{group:{group}}}:{thread}" for group in range(GROUPS)]


def work(thread):
    with RedisCluster(host=host, port=int(port)) as client:
        for turn in range(increments // THREADS):
            client.incr(keys(thread)[turn % GROUPS])


at_once.run(work, THREADS)
with RedisCluster(host=host, port=int(port)) as client:
    for thread in range(THREADS):
        for group, key in enumerate(keys(thread)):
            times, got = len(range(group, increments // THREADS, GROUPS)), int(client.get(key))
            if got != times:
                sys.exit(f"{key} was incremented {times} times and is {got}")
print(f"done: {increments} increments", flush=True)
