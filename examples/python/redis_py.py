"""redis-py: `python redis_py.py rediss://HOST:PORT CA_FILE`."""

import sys

import redis

url, ca = sys.argv[1:]

with redis.Redis.from_url(url, ssl_ca_certs=ca, decode_responses=True) as client:
    client.set("example:redis-py", "Ada")
    reads = [client.get("example:redis-py") for _ in range(2)]  # The second is a hit.
    client.set("example:redis-py", "Grace")
    reads.append(client.get("example:redis-py"))

print("read twice, then after a write:", *reads)
sys.exit(reads != ["Ada", "Ada", "Grace"])
