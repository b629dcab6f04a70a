"""Keys and expected values of requests, and the client that sends them."""

import random
import time
from collections import OrderedDict

import pymongo

WORDS = """
    river stone winter lamp garden letter morning bridge silver quiet harbour field window answer
    paper summer forest candle mirror signal copper valley thunder meadow anchor orchard ribbon
    compass lantern pebble shadow velvet whistle island cotton engine feather ginger hollow kettle
""".split()


def uniform(seed, batch, keys, count):
    """Keys of one batch: uniform in 1..=keys, equal in all runs."""
    generator = random.Random(f"{seed}/{batch}")
    return [generator.randint(1, keys) for _ in range(count)]


def first(batch, keys, count, displaced):
    """`count` requests for one key, as pairs (key, recorded).

    With `displaced`, an unrecorded request for another key precedes each: a cache with one entry
    then evicts the key.
    """
    key = (batch - 1) % keys + 1
    other = key % keys + 1
    return [(other, False), (key, True)] * count if displaced else [(key, True)] * count


def phrases(seed, keys):
    """Contents of the paper's database: a random text for each integer key."""
    generator = random.Random(f"{seed}/phrases")
    return {
        key: " ".join(generator.choice(WORDS) for _ in range(generator.randint(6, 14)))
        for key in range(1, keys + 1)
    }


class Replay:
    """The keys in a FIFO cache."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.stored = OrderedDict()

    def read(self, key):
        """Whether a request is a hit. On a miss the key is stored."""
        if key in self.stored:
            return True
        if self.capacity:
            if len(self.stored) == self.capacity:
                self.stored.popitem(last=False)
            self.stored[key] = None
        return False


class Client:
    """The official driver, used as by an application. Every value is compared."""

    def __init__(self, address, database, collection):
        self.driver = pymongo.MongoClient(f"mongodb://{address}")
        self.collection = self.driver[database][collection]
        # Establishes connections, so that the first request does not include it.
        self.driver.admin.command("ping")

    def fill(self, texts):
        documents = [{"_id": key, "phrase": phrase} for key, phrase in texts.items()]
        self.collection.insert_many(documents)

    def read(self, key, expected):
        """Sends one request; returns its start and its duration, in nanoseconds."""
        began = time.perf_counter_ns()
        document = self.collection.find_one({"_id": key})
        took = time.perf_counter_ns() - began
        if document is None or document["phrase"] != expected:
            raise ValueError(f"key {key}: expected {expected!r}, got {document!r}")
        return began, took

    def close(self):
        self.driver.close()
