"""A cluster client with TLS that is told one listener finds all of them, all at one port.

Arguments: the port, the file of authorities, the names of the listeners, which lead to 127.0.0.1.
"""

import socket
import sys

from redis.cluster import ClusterNode, RedisCluster

port, authority, names = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
look_up = socket.getaddrinfo


def loopback(host, *arguments, **options):
    assert host in names, f"a client was told of {host}"
    return look_up("127.0.0.1", *arguments, **options)


socket.getaddrinfo = loopback
listeners = {f"{name}:{port}" for name in names}

for protocol in (2, 3):
    with RedisCluster(
        startup_nodes=[ClusterNode(names[0], port)],
        protocol=protocol,
        decode_responses=True,
        ssl=True,
        ssl_ca_certs=authority,
    ) as cluster:
        known = {f"{node.host}:{node.port}" for node in cluster.get_nodes()}
        assert known == listeners, f"protocol {protocol}: {known} instead of {listeners}"
        for number in range(60):
            assert cluster.set(f"key:{protocol}:{number}", number)
        for _ in range(4):
            for number in range(60):
                assert cluster.get(f"key:{protocol}:{number}") == str(number)
        nodes = cluster.execute_command("CLUSTER NODES", target_nodes=RedisCluster.RANDOM)
        assert set(nodes) == listeners, nodes
        for what in ("CLUSTER SHARDS", "CLUSTER SLOTS", "CLUSTER NODES"):
            told = str(cluster.execute_command(what, target_nodes=RedisCluster.RANDOM))
            assert "localhost" not in told and "127.0.0.1" not in told, told
            assert all(name in told for name in names), told
