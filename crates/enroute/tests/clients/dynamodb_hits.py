"""Reads and writes an item through the cache by boto3 and prints what it is told.

Arguments: address. The access keys AKIDONE and AKIDTWO have the secrets `one` and `two`.
"""

import sys
import time
from functools import partial

from botocore.exceptions import ClientError
from dynamodb_client import client, create

PATIENCE_S = 60
connect = partial(client, f"http://{sys.argv[1]}")
one, two = connect("AKIDONE", "one"), connect("AKIDTWO", "two")
forged, session = connect("AKIDONE", "guess"), connect("AKIDONE", "one", token="token")
key = {"shop": {"S": "café"}, "number": {"N": "1"}}


def get(by, **options):
    """What an item is, and whether the cache answered: the origin names its server."""
    answer = by.get_item(TableName="orders", Key=options.pop("key", key), **options)
    of_cache = "server" not in answer["ResponseMetadata"]["HTTPHeaders"]
    return answer.get("Item", {}).get("v", {}).get("N"), of_cache


def get_until_hit(by, **options):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        value, of_cache = get(by, **options)
        if of_cache:
            return value
        assert time.monotonic() < deadline, "no hit"
        time.sleep(0.02)


def put(value, **options):
    one.put_item(TableName="orders", Item={**key, "v": {"N": value}}, **options)


create(one, "orders", "shop", "number")
put("1")
print("hit", get_until_hit(one))
print("hit by another spelling", get(one, key={**key, "number": {"N": "10e-1"}}))
print("consistent", get(one, ConsistentRead=True))
print("forged", get(forged))
print("with a token", get(session))
print("other key", get(two))
print("hit of the other key", get_until_hit(two))
named = {"ProjectionExpression": "#v", "ExpressionAttributeNames": {"#v": "v"}}
print("projection", get_until_hit(one, **named))

put("2")
print("after a put", get(one), get(two), get(one, **named))
print("hit", get_until_hit(one))
try:
    put("3", ConditionExpression="attribute_not_exists(shop)")
except ClientError as error:
    print("refused", error.response["Error"]["Code"])
print("after a refused put", get(one))
forged.update_item(
    TableName="orders", Key=key, UpdateExpression="SET v = :v",
    ExpressionAttributeValues={":v": {"N": "4"}},
)
print("after an update", get(one))
print("hit", get_until_hit(one))
one.batch_write_item(RequestItems={"orders": [{"DeleteRequest": {"Key": key}}]})
print("after a batch", get(one))
print("hit", get_until_hit(one))
one.transact_write_items(TransactItems=[
    {"Put": {"TableName": "orders", "Item": {**key, "v": {"N": "5"}}}},
])
print("after a transaction", get(one))
print("hit", get_until_hit(one))
one.execute_statement(
    Statement="UPDATE orders SET v = 6 WHERE shop = 'café' AND number = 1",
)
print("after a statement", get(one))
print("hit", get_until_hit(one))
one.delete_table(TableName="orders")
try:
    print("after all", get(one))
except ClientError as error:
    print("after all", error.response["Error"]["Code"])
