"""Counters of a client of the cluster itself while slots move: each ends at exactly as often as it was incremented.

Arguments: a node's address, how many increments. The client follows redirections as redis-py does unless told otherwise.
Prints one line when it has begun and one when it is done.
"""

import sys
import threading

from redis.cluster import RedisCluster

host, port = sys.argv[1].rsplit(":", 1)
increments = int(sys.argv[2])
THREADS, GROUPS = 4, 8

wrong = []


def keys(thread):
    return [f"{{group:{group}}}:{thread}" for group in range(GROUPS)]


def run(thread):
    try:
        with RedisCluster(host=host, port=int(port)) as client:
            for turn in range(increments // THREADS):
                client.incr(keys(thread)[turn % GROUPS])
    except BaseException as error:  # whatever it is, the test is to hear of it
        wrong.append(f"client {thread}: {error!r}")


print("begun", flush=True)
threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if wrong:
    sys.exit("\n".join(wrong))
with RedisCluster(host=host, port=int(port)) as client:
    total = sum(int(client.get(key)) for thread in range(THREADS) for key in keys(thread))
if total != increments:
    sys.exit(f"expected {increments} increments, got {total}")
print(f"done: {total} increments", flush=True)
