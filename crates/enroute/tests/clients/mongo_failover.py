"""Writes and reads through the cache while the primary changes.

Each writer inserts records. Each must be found once its insert was confirmed: neither the cache nor
a former primary may say that it is absent. Ends when the file STOP exists. Arguments: URL STOP.
"""

import os
import sys
import threading
import time

import pymongo
from pymongo.errors import DuplicateKeyError, PyMongoError

WRITERS = 2
READERS = 3

client = pymongo.MongoClient(sys.argv[1], retryWrites=False)
records = client.shop.users
stop = sys.argv[2]
confirmed = [0] * WRITERS
wrong = []


def goes_on():
    return not wrong and not os.path.exists(stop)


def write(writer):
    while goes_on():
        try:
            records.insert_one({"_id": f"{writer}:{confirmed[writer]}"})
        except DuplicateKeyError:
            pass
        except PyMongoError:
            time.sleep(0.01)
            continue
        confirmed[writer] += 1


def read(reader):
    turn = reader
    while goes_on():
        turn += 1
        writer = turn % WRITERS
        if not confirmed[writer]:
            continue
        # The newest, and earlier ones again.
        number = confirmed[writer] - 1
        record = f"{writer}:{number if turn % 4 else number // 2}"
        try:
            found = records.find_one({"_id": record})
        except PyMongoError:
            time.sleep(0.01)
            continue
        if not found:
            wrong.append(f"{record} is absent after it was confirmed")


threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
threads += [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
for thread in threads:
    thread.start()
while goes_on():
    print(f"confirmed={sum(confirmed)}", flush=True)
    time.sleep(0.02)
for thread in threads:
    thread.join()
hosts = {host for host in client.nodes}
if len(hosts) > 1:
    wrong.append(f"the driver went around the cache: {hosts}")
print(*wrong, sep="\n", flush=True)
sys.exit(1 if wrong else 0)
