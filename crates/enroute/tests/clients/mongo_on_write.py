"""Writes whole documents through a cache with population on-write, and reads each through it and
directly: both must be the same bytes.

Usage: mongo_on_write.py CACHE_PORT ORIGIN_PORT. Prints the number of documents whose first read must be a hit.
"""

import datetime
import struct
import sys
import uuid

from bson import Binary, Int64, ObjectId, encode
from bson.binary import UuidRepresentation
from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, MongoClient, ReplaceOne


def client(port):
    url = f"mongodb://127.0.0.1:{port}/?directConnection=true&uuidRepresentation=standard"
    return MongoClient(url, document_class=RawBSONDocument)


def joined(*documents):
    """One document of the elements of several, in their order: the driver puts _id first."""
    elements = b"".join(encode(document)[4:-1] for document in documents)
    return RawBSONDocument(struct.pack("<i", len(elements) + 5) + elements + b"\0")


def main():
    through, direct = (client(int(port)).shop.items for port in sys.argv[1:3])
    direct.drop()
    compared = 0

    def same(key, is_hit=True):
        nonlocal compared
        compared += is_hit
        # Answered after what the cache may have asked about the collection.
        through.database.command("ping")
        found = [items.find_one({"_id": key}) for items in (through, direct)]
        assert found[0] is not None and found[0].raw == found[1].raw, (key, found)

    # Nothing has read the collection before.
    through.insert_one({"_id": "first", "n": 1})
    same("first")
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000)
    of_types = {
        "int": 5,
        "long": Int64(5),
        "double": 0.5,
        "text": "täxt",
        "none": None,
        "yes": True,
        "when": when,
        "id": ObjectId("0123456789abcdef01234567"),
        "bytes": Binary(b"\0\1", 0),
        "nested": {"b": [1, {"c": []}], "a": {}},
    }
    keys = [7, Int64(8), 9.5, "text", when, ObjectId(), Binary(b"k", 0), True]
    keys.append(Binary.from_uuid(uuid.UUID(int=5), UuidRepresentation.STANDARD))
    for key in keys:
        through.insert_one({"_id": key, **of_types})
        same(key)
    through.insert_one(joined({"a": 1}, {"_id": "last"}, {"b": 2}))
    same("last", is_hit=False)
    through.insert_many([{"_id": f"of many {number}", "n": number} for number in range(10)])
    for number in range(10):
        same(f"of many {number}")

    through.replace_one({"_id": "first"}, {"_id": "first", "n": 2})
    same("first")
    through.replace_one({"_id": "text"}, {"z": 1, "a": of_types})
    same("text")
    through.replace_one({"_id": "upserted"}, {"n": 3}, upsert=True)
    same("upserted")
    through.bulk_write(
        [
            InsertOne({"_id": "bulk 1", "n": 1}),
            ReplaceOne({"_id": "bulk 1"}, {"n": 2}),
            ReplaceOne({"_id": "bulk 2"}, {"n": 3}, upsert=True),
            ReplaceOne({"_id": "of many 1"}, {"n": 4}),
        ]
    )
    for key in ("bulk 1", "bulk 2", "of many 1"):
        same(key)
    print(compared)


if __name__ == "__main__":
    main()
