"""Reads several items at once through the cache by boto3, and prints what it is told.

Arguments: address of the cache; port of the origin, which this script plays by asking the server at
the third address; for TLS on both sides, the files of a certificate, its key and its authority. The
origin checks each signature with botocore. The access keys AKIDONE and AKIDTWO have the secrets
`one` and `two`.
"""

import http.client
import http.server
import json
import re
import ssl
import sys
import threading
import time

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from dynamodb_client import REGION, client, create

PATIENCE_S = 120
CACHE, PORT, SERVER, *TLS = sys.argv[1:]
SECRETS = {"AKIDONE": "one", "AKIDTWO": "two"}
STATED = re.compile(r"Credential=(\w+)/.*SignedHeaders=([^,]+), *Signature=(\w+)")


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Numbers of keys of the batches that it was asked for.
    asked = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert signature(self.headers, body), self.headers["Authorization"]
        if self.headers["X-Amz-Target"].endswith(".BatchGetItem"):
            tables = json.loads(body)["RequestItems"].values()
            self.asked.append(sum(len(table["Keys"]) for table in tables))
        server = http.client.HTTPConnection(SERVER)
        server.request("POST", "/", body, dict(self.headers))
        reply = server.getresponse()
        told = reply.read()
        self.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_):
        pass


def signature(headers, body):
    """Whether it is the one that botocore would have made."""
    access, names, stated = STATED.search(headers["Authorization"]).groups()
    signed = {name: headers[name] for name in names.split(";")}
    request = AWSRequest("POST", f"http://{headers['Host']}/", headers=signed, data=body)
    request.context["timestamp"] = headers["X-Amz-Date"]
    auth = SigV4Auth(Credentials(access, SECRETS[access]), "dynamodb", REGION)
    canonical = auth.canonical_request(request)
    return auth.signature(auth.string_to_sign(request, canonical), request) == stated


def serve():
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", int(PORT)), Origin)
    origin.daemon_threads = True
    if TLS:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*TLS[:2])
        origin.socket = context.wrap_socket(origin.socket, server_side=True)
    threading.Thread(target=origin.serve_forever, daemon=True).start()


def connect(access):
    port = CACHE.rpartition(":")[2]
    url = f"https://localhost:{port}" if TLS else f"http://{CACHE}"
    return client(url, access, SECRETS[access], verify=TLS[2] if TLS else None)


def key(number):
    return {"shop": {"S": "café"}, "number": {"N": str(number)}}


def item(number, value):
    return {**key(number), "v": {"N": str(value)}}


def batch(by, *numbers, more=None, **options):
    """The values of orders by number, and how many keys the origin was asked for."""
    before = len(Origin.asked)
    tables = {"orders": {"Keys": [key(number) for number in numbers], **options}, **(more or {})}
    reply = by.batch_get_item(RequestItems=tables)
    assert reply["UnprocessedKeys"] == {}, reply
    items = reply["Responses"]["orders"]
    found = {one["number"]["N"]: one["v"]["N"] for one in items if "number" in one}
    values = ",".join(f"{number}={found[number]}" for number in sorted(found))
    if len(found) < len(items):
        values = f"{len(items)} without their keys"
    others = {name: len(items) for name, items in reply["Responses"].items() if name != "orders"}
    return values, sum(Origin.asked[before:]), *([others] if others else [])


def until_hit(by, *numbers, **options):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        values, asked, *others = batch(by, *numbers, **options)
        if asked == 0:
            return values, *others
        assert time.monotonic() < deadline, "no hit"
        time.sleep(0.05)

serve()
one, two = connect("AKIDONE"), connect("AKIDTWO")
create(one, "orders", "shop", "number")
create(one, "long", "id")
# When the last one has settled all others have.
for number in range(4, 0, -1):
    one.put_item(TableName="orders", Item=item(number, 10 * number))
print("hit", until_hit(one, 1, 2))
print("two of three", batch(one, 1, 2, 3))
print("with one that is absent", batch(one, 3, 9), until_hit(one, 1, 9))
print("other key", batch(two, 1, 2))
print("projection", batch(one, 1, 2, ProjectionExpression="v"))
named = {"ProjectionExpression": "#n,v,shop", "ExpressionAttributeNames": {"#n": "number"}}
print("projection with the key", until_hit(one, 1, 2, **named), batch(one, 2, 4, **named))
print("consistent", batch(one, 1, 2, ConsistentRead=True))
print("single", one.get_item(TableName="orders", Key=key(1))["Item"]["v"]["N"])

one.put_item(TableName="orders", Item=item(1, 11))
print("after a put", batch(one, 1, 2), until_hit(one, 1, 2))
one.delete_item(TableName="orders", Key=key(2))
print("after a deletion", batch(one, 1, 2), until_hit(one, 1, 2))
one.put_item(TableName="orders", Item=item(9, 90))
print("after the absent one is put", batch(one, 1, 9), until_hit(one, 1, 9))
try:
    batch(one, 1, 1)
except ClientError as error:
    print("refused", error.response["Error"]["Code"])
try:
    batch(one, 1, more={"absent": {"Keys": [{"id": {"S": "a"}}]}})
except ClientError as error:
    print("refused", error.response["Error"]["Code"])

# More than a reply can have: the origin leaves out some of those that it is asked for.
filler = "x" * 380_000
for number in range(48):
    long = {"id": {"S": str(number)}, "v": {"S": filler}}
    one.put_item(TableName="long", Item=long)
some = {"long": {"Keys": [{"id": {"S": "0"}}, {"id": {"S": "1"}}]}}
print("of two tables", until_hit(one, 1, more=some))
tables = {"long": {"Keys": [{"id": {"S": str(number)}} for number in range(48)]}}
before, replies, found = len(Origin.asked), 0, []
while tables:
    reply = one.batch_get_item(RequestItems=tables)
    found += [one["id"]["S"] for one in reply["Responses"]["long"]]
    tables, replies = reply["UnprocessedKeys"], replies + 1
print("all", len(found), len(set(found)), replies > 1, Origin.asked[before] == 46)
one.delete_table(TableName="orders")
try:
    batch(one, 1)
except ClientError as error:
    print("after all", error.response["Error"]["Code"])
