"""Reads an item through the cache with and without `Accept-Encoding: gzip`, and prints the answers.

Arguments: address of the cache; port of the origin, which this script plays. Like DynamoDB, the
origin compresses if it may, and `x-amz-crc32` is the checksum of what it sends. The access key
AKIDONE has the secret `one`.
"""

import gzip
import http.client
import http.server
import json
import sys
import threading
import time
import zlib

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from dynamodb_client import REGION, client

PATIENCE_S = 60
CACHE, PORT = sys.argv[1:]
JSON = "application/x-amz-json-1.0"


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # What it was asked, and in which codings it might answer.
    asked = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        codings = self.headers.get("Accept-Encoding", "")
        self.asked.append((operation, codings))
        if operation == "GetItem":
            answer = {"Item": {**body["Key"], "v": {"S": "x" * 1000}}}
        elif operation == "BatchGetItem":
            keys = body["RequestItems"]["t"]["Keys"]
            answer = {"Responses": {"t": keys}, "UnprocessedKeys": {}}
        else:
            answer = {}
        told = json.dumps(answer).encode()
        self.send_response_only(200)
        if "gzip" in codings:
            told = gzip.compress(told)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", JSON)
        self.send_header("Content-Length", str(len(told)))
        self.send_header("x-amz-crc32", str(zlib.crc32(told)))
        self.send_header("Server", "origin")
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_):
        pass


def raw(operation, body, codings, signed=True):
    """The coding and content of a reply to such a request, and whether the cache answered."""
    body = json.dumps(body)
    headers = {"Content-Type": JSON, "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
    if signed:
        headers["Accept-Encoding"] = codings
    request = AWSRequest("POST", f"http://{CACHE}/", headers=headers, data=body)
    SigV4Auth(Credentials("AKIDONE", "one"), "dynamodb", REGION).add_auth(request)
    assert ("accept-encoding" in request.headers["Authorization"]) == signed
    headers = {**request.headers, "Accept-Encoding": codings}
    connection = http.client.HTTPConnection(CACHE)
    connection.request("POST", "/", body, headers)
    reply = connection.getresponse()
    told, coding = reply.read(), reply.headers["Content-Encoding"]
    assert reply.headers["x-amz-crc32"] == str(zlib.crc32(told)), dict(reply.headers)
    if coding == "gzip":
        told = gzip.decompress(told)
    return coding, json.loads(told), reply.headers["Server"] is None


def until_hit(*asked, **options):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        coding, answer, of_cache = raw(*asked, **options)
        if of_cache:
            return coding, answer
        assert coding == ("gzip" if "gzip" in asked[2] else None), coding
        assert time.monotonic() < deadline, "no hit"
        time.sleep(0.02)


def get(item):
    return {"TableName": "t", "Key": {"id": {"S": item}}}


def value(answer):
    return answer["Item"]["id"]["S"], len(answer["Item"]["v"]["S"])


origin = http.server.ThreadingHTTPServer(("127.0.0.1", int(PORT)), Origin)
origin.daemon_threads = True
threading.Thread(target=origin.serve_forever, daemon=True).start()

coding, answer = until_hit("GetItem", get("a"), "gzip")
print("hit", coding, value(answer))
coding, answer = until_hit("GetItem", get("b"), "gzip", signed=False)
print("unsigned hit", coding, value(answer))
coding, answer, of_cache = raw("GetItem", get("a"), "identity")
print("hit without gzip", coding, value(answer), of_cache)
coding, answer, of_cache = raw("GetItem", get("a"), "gzip, identity;q=0")
print("nothing but gzip", coding, value(answer), of_cache)
boto = client(f"http://{CACHE}", "AKIDONE", "one")
answer = boto.get_item(**get("a"))
print("boto3", value(answer), "server" not in answer["ResponseMetadata"]["HTTPHeaders"])

keys = lambda items: {"RequestItems": {"t": {"Keys": [{"id": {"S": item}} for item in items]}}}
coding, answer = until_hit("BatchGetItem", keys("ab"), "gzip, deflate")
print("items", coding, json.dumps(answer["Responses"]["t"]))
before = len(Origin.asked)
coding, answer, of_cache = raw("BatchGetItem", keys("abc"), "gzip, deflate")
print("one more", coding, json.dumps(answer["Responses"]["t"]), of_cache, Origin.asked[before:])
boto.put_item(TableName="t", Item={"id": {"S": "a"}})
print("after a put", raw("GetItem", get("a"), "gzip")[2])
