"""PyMongo: `python pymongo_driver.py "mongodb://HOST:PORT/?tls=true" CA_FILE`."""

import sys

import pymongo

url, ca = sys.argv[1:]

with pymongo.MongoClient(url, tlsCAFile=ca) as client:
    users = client.shop.users
    user = {"_id": "pymongo"}
    users.update_one(user, {"$set": {"name": "Ada"}}, upsert=True)
    reads = [users.find_one(user)["name"] for _ in range(2)]  # The second is a hit.
    users.update_one(user, {"$set": {"name": "Grace"}})
    reads.append(users.find_one(user)["name"])

print("read twice, then after a write:", *reads)
sys.exit(reads != ["Ada", "Ada", "Grace"])
