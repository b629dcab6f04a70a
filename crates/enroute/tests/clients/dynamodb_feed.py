"""Writes around the cache by boto3, reads through it, and prints what it is told.

Arguments: address of the cache, of the origin, and what is done.
"""

import sys
import time

import boto3
from botocore.exceptions import ClientError, HTTPClientError
from dynamodb_client import REGION, client, create

PATIENCE_S = 60
through, around = (client(f"http://{address}", "AKIDONE", "one") for address in sys.argv[1:3])
abroad = boto3.client(
    "dynamodb", endpoint_url=f"http://{sys.argv[1]}", region_name="us-east-1",
    aws_access_key_id="AKIDONE", aws_secret_access_key="one",
)
KEY = {"shop": {"S": "café"}, "number": {"N": "1"}}
SPELLED = {"number": {"N": "10e-1"}, "shop": {"S": "café"}}
STREAM = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}


def read(table="orders", by=through, key=KEY):
    """What an item is, and whether the cache answered: the origin names its server."""
    answer = by.get_item(TableName=table, Key=key)
    of_cache = "server" not in answer["ResponseMetadata"]["HTTPHeaders"]
    return answer.get("Item", {}).get("v", {}).get("N"), of_cache


def scan():
    answer = through.scan(TableName="orders")
    of_cache = "server" not in answer["ResponseMetadata"]["HTTPHeaders"]
    return sorted(item["v"]["N"] for item in answer["Items"]), of_cache


def until(what, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: never"
        time.sleep(0.02)


def put(value, table="orders", key=KEY):
    around.put_item(TableName=table, Item={**key, "v": {"N": value}})


def becomes(value):
    """The value is read, and then from storage."""
    until(f"hit of {value}", lambda: read() == (value, True))


def create_with_stream(table, view="KEYS_ONLY"):
    create(around, table, "shop", "number")
    set_stream(table, {**STREAM, "StreamViewType": view})


def set_stream(table, stream):
    around.update_table(TableName=table, StreamSpecification=stream)


def writes():
    create_with_stream("orders", "NEW_IMAGE")
    create(around, "plain", "shop", "number")
    put("0", "plain")
    for value in map(str, range(8)):
        put(value, key=SPELLED if int(value) % 2 else KEY)
        becomes(value)
        until("page", lambda value=value: scan() == ([value], True))
    around.update_item(
        TableName="orders", Key=SPELLED, UpdateExpression="SET v = :v",
        ExpressionAttributeValues={":v": {"N": "100"}},
    )
    becomes("100")
    around.transact_write_items(TransactItems=[{"Delete": {"TableName": "orders", "Key": KEY}}])
    until("absent", lambda: read() == (None, True) and scan() == ([], True))
    around.batch_write_item(RequestItems={"orders": [
        {"PutRequest": {"Item": {**KEY, "v": {"N": "101"}}}},
    ]})
    becomes("101")
    print("seen")
    answers = [read("plain") for _ in range(20)] + [read(by=abroad) for _ in range(20)]
    print("without a stream, and of another region", sorted(set(answers)))
    # As many as there are of this key in the cache by now.
    print("still a hit", read())


def store():
    create_with_stream("orders")
    put("1")
    becomes("1")


def replace():
    put("2")
    until("the write during the cut", lambda: read()[0] == "2")
    becomes("2")


def streams():
    """The stream is disabled and enabled again; the table is deleted and created again."""
    set_stream("orders", {"StreamEnabled": False})
    until("no hit without a stream", lambda: not read()[1])
    put("3")
    print("without a stream", {read() for _ in range(20)})
    set_stream("orders", STREAM)
    becomes("3")
    put("4")
    becomes("4")
    around.delete_table(TableName="orders")
    create_with_stream("orders")
    until("the items are lost", lambda: read()[0] is None)
    put("5")
    becomes("5")
    print("with another stream")


def down():
    """The origin is down: the feed is lost, and what it kept fresh is not served."""
    def fails():
        try:
            return read() is None
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        except HTTPClientError:
            return True
    until("unavailable", fails)
    print("still unavailable", all(fails() for _ in range(20)))


def restarted():
    """The origin is up again without tables."""
    try:
        print("an item of before", read())
    except ClientError as error:
        print(error.response["Error"]["Code"])
    create_with_stream("orders")
    print("an item of before", read())
    put("6")
    becomes("6")
    put("7")
    becomes("7")


globals()[sys.argv[3]]()
