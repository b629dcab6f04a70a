"""Prints what pymongo is told, so that two runs can be compared."""

import sys

import pymongo
from bson import Binary, Int64, ObjectId
from pymongo import DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError

address, compressors, *authorities = sys.argv[1:]
# With authorities, the certificate for localhost is verified.
tls = {"tls": True, "tlsCAFile": authorities[0]} if authorities else {}
host = "localhost:" + address.rsplit(":", 1)[1] if authorities else address
client = pymongo.MongoClient(
    f"mongodb://{host}/?directConnection=true",
    **({"compressors": compressors} if compressors else {}),
    **tls,
)
shop = client.shop
users = shop.users


def tell(what, ask, times=1):
    for _ in range(times):
        try:
            print(what, repr(ask()))
        except BulkWriteError as error:
            details = error.details
            print(what, details["nInserted"], [e["code"] for e in details["writeErrors"]])
        except PyMongoError as error:
            print(what, type(error).__name__, getattr(error, "code", None))


def find(identity, **options):
    tell(f"find {identity!r}", lambda: users.find_one({"_id": identity}, **options), 4)


client.drop_database("shop")
tell("insert", lambda: users.insert_one({"_id": "42", "name": "Ada", "n": 1}).inserted_id)
find("42")
find("absent")
tell("duplicate", lambda: users.insert_one({"_id": "42"}))
for identity in (1, Int64(2), 3.0, ObjectId("0123456789abcdef01234567"), Binary(b"\0"), {"a": 1}):
    tell("insert", lambda: users.insert_one({"_id": identity, "v": 1}).inserted_id)
    find(identity)
find(1.0)
find("42", projection={"name": 1})
find("42", projection={"_id": False, "n": True})
find("42", projection=["name"])
tell("update", lambda: users.update_one({"_id": "42"}, {"$inc": {"n": 1}}).raw_result["n"])
find("42")
tell("replace", lambda: users.replace_one({"_id": "42"}, {"name": "Eve"}).modified_count)
find("42")
tell("modify", lambda: users.find_one_and_update(
    {"_id": "42"}, {"$set": {"n": 5}}, return_document=ReturnDocument.AFTER))
find("42")
tell("upsert", lambda: users.update_one({"_id": "new"}, {"$set": {"n": 1}}, upsert=True).upserted_id)
find("new")
tell("bulk", lambda: users.bulk_write([
    InsertOne({"_id": "b1"}), UpdateOne({"_id": "42"}, {"$set": {"n": 6}}),
    ReplaceOne({"_id": "new"}, {"n": 7}), DeleteOne({"_id": 1}),
    UpdateMany({"n": {"$gte": 6}}, {"$set": {"big": True}}),
]).bulk_api_result["nModified"])
for identity in ("b1", "42", "new", 1):
    find(identity)
tell("bulk error", lambda: users.bulk_write(
    [InsertOne({"_id": "b2"}), InsertOne({"_id": "b2"}), InsertOne({"_id": "b3"})]))
tell("unordered", lambda: users.insert_many([{"_id": "b2"}, {"_id": "b4"}], ordered=False))
for identity in ("b2", "b3", "b4"):
    find(identity)
tell("many", lambda: len(users.insert_many([{"_id": f"u{n:03}", "n": n} for n in range(300)]).inserted_ids))
tell("cursor", lambda: [found["_id"] for found in users.find({"n": {"$lt": 200}}, batch_size=30).sort("_id", 1)], 2)
tell("count", lambda: users.count_documents({"n": {"$lt": 100}}))
tell("distinct", lambda: users.distinct("name"))
tell("aggregate", lambda: list(users.aggregate(
    [{"$match": {"n": {"$lt": 10}}}, {"$group": {"_id": None, "sum": {"$sum": "$n"}}}])))
tell("index", lambda: users.create_index("email", unique=True, sparse=True))
# mongo-java-server, which has compressors, closes the connection after an unacknowledged write.
if not compressors:
    unacknowledged = users.with_options(write_concern=pymongo.WriteConcern(w=0))
    for number in range(5):
        find("u001")
        unacknowledged.update_one({"_id": "u001"}, {"$set": {"n": 1000 + number}})
        tell("ping", lambda: client.admin.command("ping")["ok"])
        # On the same connection, so behind the write.
        find("u001")
for megabytes in (1, 10):
    tell("large", lambda: users.insert_one({"_id": "large", "text": "x" * (megabytes << 20)}).inserted_id)
    tell("large", lambda: len(users.find_one({"_id": "large"})["text"]), 4)
    tell("delete", lambda: users.delete_one({"_id": "large"}).deleted_count)
tell("delete", lambda: users.delete_many({}).deleted_count)
find("42")
