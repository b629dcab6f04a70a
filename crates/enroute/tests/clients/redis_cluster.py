"""A cluster client that is told one listener finds all of them, and reads what it wrote."""

import sys

import redis
from redis.cluster import ClusterNode, RedisCluster

listeners = set(sys.argv[1:])
first_host, first_port = sys.argv[1].rsplit(":", 1)

for protocol in (2, 3):
    with RedisCluster(
        startup_nodes=[ClusterNode(first_host, int(first_port))],
        protocol=protocol,
        decode_responses=True,
    ) as cluster:
        known = {f"{node.host}:{node.port}" for node in cluster.get_nodes()}
        assert known == listeners, f"protocol {protocol}: {known} instead of {listeners}"
        for number in range(60):
            assert cluster.set(f"key:{protocol}:{number}", number)
        for _ in range(4):
            for number in range(60):
                assert cluster.get(f"key:{protocol}:{number}") == str(number)
        keys = [f"{{tag}}:{number}" for number in range(5)]
        assert cluster.mset_nonatomic({key: key for key in keys})
        assert cluster.mget_nonatomic(keys) == keys
        nodes = cluster.execute_command("CLUSTER NODES", target_nodes=RedisCluster.RANDOM)
        assert set(nodes) == listeners, nodes
        shards = cluster.execute_command("CLUSTER SHARDS", target_nodes=RedisCluster.RANDOM)
        assert all(listener.rsplit(":", 1)[1] in str(shards) for listener in listeners), shards

# The wrong node sends the client to the right listener; TTL, since what one has stored any answers.
connections = [redis.Redis(*address.rsplit(":", 1)) for address in sys.argv[1:]]
redirected = set()
for connection in connections:
    for number in range(60):
        try:
            connection.ttl(f"key:2:{number}")
        except redis.exceptions.MovedError as error:
            redirected.add(f"{error.host}:{error.port}")
assert redirected == listeners, redirected
print(f"{len(listeners)} listeners, no node")
