"""Reads pages of a table through the cache by boto3 and prints what it is told.

Arguments: address of a listener that answers queries, of another that does not.
"""

import sys
import threading
import time

from botocore.exceptions import ClientError
from dynamodb_client import client, create

PATIENCE_S = 60
cached, plain = (client(f"http://{address}", "AKIDONE", "one") for address in sys.argv[1:3])
OF_SHOP = {
    "KeyConditionExpression": "#s = :s",
    "ExpressionAttributeNames": {"#s": "shop"},
    "ExpressionAttributeValues": {":s": {"S": "a"}},
}
BY_PRICE = {
    "IndexName": "price",
    "KeyConditionExpression": "shop = :s AND price > :p",
    "ExpressionAttributeValues": {":s": {"S": "a"}, ":p": {"N": "10"}},
}


def read(operation, by=None, **options):
    """The numbers of the items of a page, whether the cache answered, and where the page ends."""
    answer = getattr(by or cached, operation)(TableName="orders", **options)
    of_cache = "server" not in answer["ResponseMetadata"]["HTTPHeaders"]
    assert answer["Count"] == len(answer["Items"])
    numbers = ",".join(item["number"]["N"] for item in answer["Items"])
    return numbers, of_cache, answer.get("LastEvaluatedKey")


def until_hit(operation, **options):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        numbers, of_cache, end = read(operation, **options)
        if of_cache:
            return numbers, end and end["number"]["N"]
        assert time.monotonic() < deadline, "no hit"
        time.sleep(0.02)


def put(number, price, by=None):
    item = {"shop": {"S": "a"}, "number": {"N": str(number)}, "price": {"N": str(price)}}
    (by or cached).put_item(TableName="orders", Item=item)


create(cached, "orders", "shop", "number", index="price")
for number, price in (1, 5), (2, 20), (3, 30):
    put(number, price)
print("query", until_hit("query", **OF_SHOP))
print("index", until_hit("query", **BY_PRICE))
print("scan", until_hit("scan"))
spelled = {":p": {"N": "1e1"}, ":s": {"S": "a"}}
print("spelled", read("query", **{**BY_PRICE, "ExpressionAttributeValues": spelled})[:2])
print("consistent", read("query", ConsistentRead=True, **OF_SHOP)[:2])
print("capacity", read("scan", ReturnConsumedCapacity="TOTAL")[:2])
print("off", read("scan", by=plain)[:2], read("scan", by=plain)[:2])
first, end = until_hit("query", Limit=2, **OF_SHOP)
start = {"shop": {"S": "a"}, "number": {"N": end}}
print("pages", first, end, until_hit("query", Limit=2, ExclusiveStartKey=start, **OF_SHOP))

put(1, 40)
print("after a put", read("query", **BY_PRICE)[:2], read("query", **OF_SHOP)[:2])
print("index", until_hit("query", **BY_PRICE))
put(1, 5, by=plain)
print("after one through the other listener", read("query", **BY_PRICE)[:2])
print("index", until_hit("query", **BY_PRICE))
key = {"shop": {"S": "a"}, "number": {"N": "2"}}
try:
    cached.delete_item(TableName="orders", Key=key, ConditionExpression="attribute_not_exists(shop)")
except ClientError as error:
    print("refused", error.response["Error"]["Code"], read("query", **BY_PRICE)[:2])
cached.execute_statement(Statement="DELETE FROM orders WHERE shop = 'a' AND number = 2")
print("after a statement", read("query", **BY_PRICE)[:2])
try:
    cached.query(TableName="orders", KeyConditionExpression="nothing")
except ClientError as error:
    print("refused", error.response["Error"]["Code"])
print("index", until_hit("query", **BY_PRICE))

# Readers beside writers: no page is older than a write that was acknowledged before it was asked.
written, failures, hits = [0] * 4, [], [0]
over = threading.Event()


def write(shop):
    mine = client(f"http://{sys.argv[1 + shop % 2]}", "AKIDONE", "one")
    for value in range(1, 13):
        mine.update_item(
            TableName="orders",
            Key={"shop": {"S": f"w{shop}"}, "number": {"N": "1"}},
            UpdateExpression="SET price = :p",
            ExpressionAttributeValues={":p": {"N": str(value)}},
        )
        written[shop] = value
        # Longer than the time after which pages are stored again, now and then.
        time.sleep(2.5 if value % 4 == 0 else 0.05)


def watch(index):
    mine = client(f"http://{sys.argv[1]}", "AKIDONE", "one")
    while not over.is_set():
        before = list(written)
        answer = mine.scan(TableName="orders", **index)
        hits[0] += "server" not in answer["ResponseMetadata"]["HTTPHeaders"]
        found = {item["shop"]["S"]: int(item["price"]["N"]) for item in answer["Items"]}
        for shop, value in enumerate(before):
            if found.get(f"w{shop}", 0) < value:
                failures.append((shop, value, found))


writers = [threading.Thread(target=write, args=[shop]) for shop in range(4)]
readers = [threading.Thread(target=watch, args=[of]) for of in ({}, {"IndexName": "price"})]
for thread in writers + readers:
    thread.start()
for thread in writers:
    thread.join()
over.set()
for thread in readers:
    thread.join()
print("older", failures[:3], "hits", hits[0] > 0)
