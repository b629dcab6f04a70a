"""Prints what boto3 is told, so that two runs can be compared.

Arguments: address; access key and secret key.
"""

import sys

from botocore.exceptions import ClientError
from dynamodb_client import client, create

address, access, secret = sys.argv[1:4]
db = client(f"http://{address}", access, secret)


def plain(value):
    """Sets and maps come in any order, and dates differ."""
    if isinstance(value, dict):
        skipped = {"ResponseMetadata", "TableId", "ConsumedCapacity"}
        names = [key for key in sorted(value) if key not in skipped and "DateTime" not in key]
        return {key: plain(value[key]) for key in names}
    if isinstance(value, list):
        parts = [plain(part) for part in value]
        return sorted(parts, key=repr)
    return value


def tell(what, ask, times=1):
    for _ in range(times):
        try:
            answer = ask()
            print(what, answer["ResponseMetadata"]["HTTPStatusCode"], plain(answer))
        except ClientError as error:
            print(what, error.response["Error"]["Code"], str(error)[:200])


def key(number):
    return {"shop": {"S": "café"}, "number": {"N": str(number)}}


def get(number, **options):
    return db.get_item(TableName="orders", Key=key(number), **options)


def put(number, **attributes):
    return db.put_item(TableName="orders", Item={**key(number), **attributes})


tell("create", lambda: create(db, "orders", "shop", "number"))
tell("get absent", lambda: get(1), 3)
tell("put", lambda: put(1, text={"S": "ä \" \\ \u2028"}, bytes={"B": b"\0\xff"}, list={"L": [{"NULL": True}]}))
tell("get", lambda: get(1), 3)
tell("get by another spelling", lambda: get("1.0"), 2)
tell("get by another spelling", lambda: get("10e-1"), 2)
tell("get consistently", lambda: get(1, ConsistentRead=True), 2)
tell("project", lambda: get(1, ProjectionExpression="#t", ExpressionAttributeNames={"#t": "text"}), 3)
tell("project", lambda: get(1, ProjectionExpression="#l[0], shop", ExpressionAttributeNames={"#l": "list"}), 3)
tell("project otherwise", lambda: get(1, ProjectionExpression="#t", ExpressionAttributeNames={"#t": "bytes"}), 3)
tell("project wrongly", lambda: get(1, ProjectionExpression="#t"), 2)
tell("attributes", lambda: get(1, AttributesToGet=["text", "shop"]), 3)
tell("capacity", lambda: get(1, ReturnConsumedCapacity="TOTAL"), 2)
tell("wrong key", lambda: db.get_item(TableName="orders", Key={"shop": {"S": "a"}}), 2)
tell("no table", lambda: db.get_item(TableName="nothing", Key=key(1)), 2)
tell("update", lambda: db.update_item(
    TableName="orders", Key=key(1), UpdateExpression="SET #n = :n",
    ExpressionAttributeNames={"#n": "count"}, ExpressionAttributeValues={":n": {"N": "7"}},
    ReturnValues="ALL_NEW",
))
tell("get", lambda: get(1), 3)
tell("condition fails", lambda: db.put_item(
    TableName="orders", Item=key(1), ConditionExpression="attribute_not_exists(shop)",
))
tell("get", lambda: get(1), 3)
tell("batch write", lambda: db.batch_write_item(RequestItems={"orders": [
    {"PutRequest": {"Item": {**key(2), "v": {"S": "two"}}}},
    {"PutRequest": {"Item": {**key(3), "v": {"SS": ["a", "b"]}}}},
    {"DeleteRequest": {"Key": key(1)}},
]}))
for number in (1, 2, 3):
    tell("get", lambda: get(number), 3)
tell("transact", lambda: db.transact_write_items(TransactItems=[
    {"Put": {"TableName": "orders", "Item": {**key(1), "v": {"BOOL": True}}}},
    {"Delete": {"TableName": "orders", "Key": key(2)}},
    {"Update": {"TableName": "orders", "Key": key(3), "UpdateExpression": "REMOVE v"}},
]))
for number in (1, 2, 3):
    tell("get", lambda: get(number), 3)
tell("transaction fails", lambda: db.transact_write_items(TransactItems=[
    {"ConditionCheck": {
        "TableName": "orders", "Key": key(2), "ConditionExpression": "attribute_exists(shop)",
    }},
    {"Delete": {"TableName": "orders", "Key": key(1)}},
]))
tell("get", lambda: get(1), 3)
tell("batch get", lambda: db.batch_get_item(RequestItems={"orders": {"Keys": [key(1), key(2), key(3)]}}), 3)
tell("transact get", lambda: db.transact_get_items(TransactItems=[
    {"Get": {"TableName": "orders", "Key": key(1)}},
]), 2)
tell("statement", lambda: db.execute_statement(
    Statement="UPDATE \"orders\" SET v = 'by statement' WHERE shop = 'café' AND number = 1",
))
tell("get", lambda: get(1), 3)
tell("select", lambda: db.execute_statement(Statement="SELECT * FROM \"orders\" WHERE shop = 'café'"), 2)
tell("statements", lambda: db.batch_execute_statement(Statements=[
    {"Statement": "DELETE FROM orders WHERE shop = 'café' AND number = 3"},
]))
tell("get", lambda: get(3), 3)
tell("query", lambda: db.query(
    TableName="orders", KeyConditionExpression="shop = :s", ExpressionAttributeValues={":s": {"S": "café"}},
), 2)
tell("scan", lambda: db.scan(TableName="orders"), 2)
tell("delete", lambda: db.delete_item(TableName="orders", Key=key(1)))
tell("get", lambda: get(1), 3)
tell("put a long one", lambda: put(4, text={"S": "x" * 300_000}))
tell("get a long one", lambda: {**get(4), "Item": len(str(get(4)["Item"]))}, 3)
tell("describe", lambda: db.describe_table(TableName="orders"))
tell("list", lambda: db.list_tables())
tell("drop", lambda: db.delete_table(TableName="orders"))
tell("get", lambda: get(4), 2)
