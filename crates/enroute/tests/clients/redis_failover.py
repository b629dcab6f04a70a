"""Writes and reads through the cache while the primary changes.

A writer adds to each of its keys and has the replica confirm it (WAIT). No read may be older than a
write that was confirmed before the read began: neither from the cache nor from a primary of before.
Ends when the file STOP exists. Arguments: HOST:PORT STOP.
"""

import os
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

KEYS_OF_WRITER = 4
WRITERS = 2
READERS = 4

host, port = sys.argv[1].rsplit(":", 1)
stop = sys.argv[2]
confirmed = [0] * (KEYS_OF_WRITER * WRITERS)
counts = {"reads": 0, "confirmed": 0, "errors": 0}
guard = threading.Lock()
wrong = []


def count(name):
    with guard:
        counts[name] += 1


def connect():
    return redis.Redis(
        host=host, port=int(port), socket_timeout=60, retry=Retry(NoBackoff(), 0)
    )


def goes_on():
    return not wrong and not os.path.exists(stop)


def write(number):
    client, value = connect(), 0
    while goes_on():
        key = number * KEYS_OF_WRITER + value % KEYS_OF_WRITER
        value += 1
        try:
            # In one flight, so that WAIT follows the write on the same connection.
            pipeline = client.pipeline(transaction=False)
            _, replicas = pipeline.set(f"key:{key}", value).wait(1, 1000).execute()
            if replicas >= 1:
                confirmed[key] = value
                count("confirmed")
        except redis.RedisError:
            count("errors")
            time.sleep(0.01)


def read(number):
    client, turn = connect(), number
    while goes_on():
        turn += 1
        key = turn % len(confirmed)
        floor = confirmed[key]
        try:
            told = int(client.get(f"key:{key}") or 0)
        except redis.RedisError:
            count("errors")
            time.sleep(0.01)
            continue
        count("reads")
        if told < floor:
            wrong.append(f"key:{key} is {told} after {floor} was confirmed")


threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
threads += [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
for thread in threads:
    thread.start()
while goes_on():
    print(f"confirmed={sum(confirmed)} reads={counts['reads']}", flush=True)
    time.sleep(0.05)
for thread in threads:
    thread.join()
print(counts, *wrong, sep="\n", flush=True)
sys.exit(1 if wrong else 0)
