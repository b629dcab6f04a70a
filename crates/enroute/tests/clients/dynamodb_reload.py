"""Changes the access keys of a cache that serves, and prints which clients get hits.

Arguments: address of the cache, its file of access keys, its process ID, its admin address.
"""

import http.client
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from dynamodb_client import client, create

PATIENCE_S = 60
CACHE, FILE, PROCESS, ADMIN = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
KEY, OTHER = {"id": {"S": "a"}}, {"id": {"S": "b"}}
connect = partial(client, f"http://{CACHE}", max_pool_connections=1)


def is_hit(by, key=KEY):
    """Whether the cache has answered: the origin names its server."""
    answer = by.get_item(TableName="items", Key=key)
    assert answer["Item"]["v"]["N"] == "1"
    return "server" not in answer["ResponseMetadata"]["HTTPHeaders"]


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "never"
        time.sleep(0.05)


def write(*profiles, mode=0o600):
    text = [
        f"[p{place}]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n"
        + "".join(f"enroute_group = {group}\n" for group in groups)
        for place, (access, secret, *groups) in enumerate(profiles)
    ]
    FILE.write_text("".join(text))
    FILE.chmod(mode)


def change(*profiles):
    write(*profiles)
    os.kill(PROCESS, signal.SIGHUP)


def refused(*profiles, mode=0o600):
    write(*profiles, mode=mode)
    admin = http.client.HTTPConnection(ADMIN)
    admin.request("POST", "/reload")
    return admin.getresponse().status


ONE, TWO, NEW = ("AKIDONE", "one"), ("AKIDTWO", "two"), ("AKIDNEW", "new")
one, two, new = connect(*ONE), connect(*TWO), connect(*NEW)
create(one, "items", "id")
for key in KEY, OTHER:
    one.put_item(TableName="items", Item={**key, "v": {"N": "1"}})
until(lambda: is_hit(one))
until(lambda: is_hit(two))
print("hit of one")
change(TWO)
until(lambda: not is_hit(one))
print(f"removed: hit of one {is_hit(one)}, of two {is_hit(two)}")
change(ONE, TWO)
until(lambda: is_hit(one))
print(f"back: hit of one {is_hit(one)}, of two {is_hit(two)}")
# Its old secret had been used on this connection.
change((ONE[0], "another"), TWO)
until(lambda: not is_hit(one))
other = connect(ONE[0], "another")
until(lambda: is_hit(other))
print(f"another secret: hit of one {is_hit(one)}, by the new secret {is_hit(other)}")
print("mistake", refused((ONE[0], "another"), (ONE[0], "guess")))
print(f"mistake: by the new secret {is_hit(other)}")
print("readable", refused((ONE[0], "guess"), mode=0o644))
print(f"readable: by the new secret {is_hit(other)}")
change((ONE[0], "another"), NEW)
until(lambda: is_hit(new))
print(f"new key: {is_hit(new)}")

# Groups: an item that no client has read by its own access key.
change((*ONE, "team"), (*TWO, "team"), NEW)
one, two = connect(*ONE), connect(*TWO)
until(lambda: is_hit(one, OTHER))
print(f"group: hit of two {is_hit(two, OTHER)}, of a key outside {is_hit(new, OTHER)}")
print("unknown", refused((*ONE, "team"), (*TWO, "team\nenroute_grup = team"), (*NEW, "team")))
print("two groups", refused((*ONE, "team"), (*TWO, "team"), (*TWO, "other")))
print(f"mistakes: hit of one {is_hit(one, OTHER)}, of two {is_hit(two, OTHER)}")
change((*ONE, "team"), TWO, NEW)
until(lambda: not is_hit(two, OTHER))
print(f"no member: hit of one {is_hit(one, OTHER)}")
