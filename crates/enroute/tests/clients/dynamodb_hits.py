"""Reads and writes an item through the cache by boto3 and prints what it is told.

Arguments: address. The access keys AKIDONE and AKIDTWO have the secrets `one` and `two`.
"""

import sys
import time
import warnings

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

warnings.filterwarnings("ignore")
PATIENCE_S = 60


def client(access, secret, token=None):
    return boto3.client(
        "dynamodb",
        endpoint_url=f"http://{sys.argv[1]}",
        region_name="eu-central-1",
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=20),
    )


one, two = client("AKIDONE", "one"), client("AKIDTWO", "two")
forged, session = client("AKIDONE", "guess"), client("AKIDONE", "one", token="token")
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


one.create_table(
    TableName="orders",
    KeySchema=[
        {"AttributeName": "shop", "KeyType": "HASH"},
        {"AttributeName": "number", "KeyType": "RANGE"},
    ],
    AttributeDefinitions=[
        {"AttributeName": "shop", "AttributeType": "S"},
        {"AttributeName": "number", "AttributeType": "N"},
    ],
    BillingMode="PAY_PER_REQUEST",
)
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
