"""redis-py and PyMongo reach their servers through one port: the server name selects the listener.

Arguments: the port, the file of authorities, the names of two Redis servers and of a MongoDB server,
all of which lead to 127.0.0.1.
"""

import socket
import sys

import pymongo
import redis

port, authority, names = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
first, second, mongo = names
look_up = socket.getaddrinfo


def loopback(host, *arguments, **options):
    return look_up("127.0.0.1" if host in names else host, *arguments, **options)


socket.getaddrinfo = loopback

clients = {
    name: redis.Redis(name, port, ssl=True, ssl_ca_certs=authority, decode_responses=True)
    for name in (first, second)
}
for name, client in clients.items():
    assert client.set("name", name)
for _ in range(4):
    for name, client in clients.items():
        assert client.get("name") == name, name

people = pymongo.MongoClient(mongo, port, tls=True, tlsCAFile=authority).shop.people
people.insert_one({"_id": 1, "name": mongo})
for _ in range(4):
    assert people.find_one({"_id": 1})["name"] == mongo

try:
    redis.Redis("127.0.0.1", port, ssl=True, ssl_ca_certs=authority).ping()
except redis.exceptions.ConnectionError as error:
    assert "UNRECOGNIZED_NAME" in str(error).upper().replace(" ", "_"), error
else:
    raise AssertionError("a client without a server name was answered")
