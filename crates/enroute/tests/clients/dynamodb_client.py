"""Clients of DynamoDB by boto3, and tables, for the scripts beside this file."""

import warnings

import boto3
from botocore.config import Config

warnings.filterwarnings("ignore")
REGION = "eu-central-1"


def client(url, access, secret, token=None, verify=None, **config):
    """A client that sends each request once."""
    config = {"retries": {"total_max_attempts": 1}, "read_timeout": 60, **config}
    return boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        aws_session_token=token,
        verify=verify,
        config=Config(**config),
    )


def create(by, table, *names, index=None):
    """Creates a table with these key attributes; `number` and `price` are numbers, others strings.

    `index` is the second key attribute of a global secondary index of this name.
    """
    def schema(*names):
        kinds = zip(names, ("HASH", "RANGE"))
        return [{"AttributeName": name, "KeyType": kind} for name, kind in kinds]

    indexes = {"GlobalSecondaryIndexes": [{
        "IndexName": index,
        "KeySchema": schema(names[0], index),
        "Projection": {"ProjectionType": "ALL"},
    }]}
    return by.create_table(
        TableName=table,
        KeySchema=schema(*names),
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "N" if name in ("number", "price") else "S"}
            for name in (*names, index) if name
        ],
        BillingMode="PAY_PER_REQUEST",
        **(indexes if index else {}),
    )
