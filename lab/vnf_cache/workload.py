"""Keys and expected values of requests, and the clients that send them."""

import random
import time
from collections import OrderedDict

import boto3
import pymemcache
import pymongo
import redis

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
    """The official driver of a protocol, used as by an application. Every value is compared."""

    def read(self, key, expected):
        """Sends one request; returns its start and its duration, in nanoseconds."""
        began = time.perf_counter_ns()
        answer = self.get(key)
        took = time.perf_counter_ns() - began
        phrase = self.phrase(answer)
        if phrase != expected:
            raise ValueError(f"key {key}: expected {expected!r}, got {answer!r}")
        return began, took


class Mongo(Client):
    """PyMongo."""

    def __init__(self, address, names):
        self.driver = pymongo.MongoClient(f"mongodb://{address}")
        self.collection = self.driver[names["database"]][names["collection"]]
        # Establishes connections, so that the first request does not include it.
        self.driver.admin.command("ping")

    def fill(self, texts):
        documents = [{"_id": key, "phrase": phrase} for key, phrase in texts.items()]
        self.collection.insert_many(documents)

    def get(self, key):
        return self.collection.find_one({"_id": key})

    def phrase(self, answer):
        return answer and answer["phrase"]

    def close(self):
        self.driver.close()


class Redis(Client):
    """redis-py."""

    def __init__(self, address, names):
        host, port = address.split(":")
        self.driver = redis.Redis(host, int(port), decode_responses=True)
        self.prefix = names["collection"]
        self.driver.ping()

    def fill(self, texts):
        self.driver.mset({f"{self.prefix}:{key}": phrase for key, phrase in texts.items()})

    def get(self, key):
        return self.driver.get(f"{self.prefix}:{key}")

    def phrase(self, answer):
        return answer

    def close(self):
        self.driver.close()


class Memcached(Client):
    """pymemcache."""

    def __init__(self, address, names):
        host, port = address.split(":")
        self.driver = pymemcache.Client((host, int(port)), no_delay=True, default_noreply=False)
        self.prefix = names["collection"]
        self.driver.version()

    def fill(self, texts):
        self.driver.set_many({f"{self.prefix}:{key}": text for key, text in texts.items()})

    def get(self, key):
        return self.driver.get(f"{self.prefix}:{key}")

    def phrase(self, answer):
        return answer and answer.decode()

    def close(self):
        self.driver.close()


class DynamoDb(Client):
    """boto3, which signs every request with the key that the cache knows."""

    def __init__(self, address, names):
        self.driver = boto3.client(
            "dynamodb", endpoint_url=f"http://{address}", region_name="eu-central-1"
        )
        self.table = names["collection"]
        # Establishes the connection; the cache learns the key attributes of the table.
        self.driver.list_tables()

    def fill(self, texts):
        self.driver.create_table(
            TableName=self.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "N"}],
            KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        )
        for key, text in texts.items():
            item = {"key": {"N": str(key)}, "phrase": {"S": text}}
            self.driver.put_item(TableName=self.table, Item=item)

    def get(self, key):
        return self.driver.get_item(TableName=self.table, Key={"key": {"N": str(key)}})

    def phrase(self, answer):
        return answer.get("Item", {}).get("phrase", {}).get("S")

    def close(self):
        self.driver.close()


CLIENTS = {"mongodb": Mongo, "redis": Redis, "memcached": Memcached, "dynamodb": DynamoDb}
