"""Measures one run: `python -m lab.vnf_cache.measure RUN DIRECTORY [--short]`.

Starts server, paths and cache, measures the batches that have no results yet, writes the results of
each, and prints its progress as one line of JSON every second. SIGTERM ends it and its programs.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from lab.library import processes
from lab.vnf_cache import experiment, results, workload

REPORT_S = 1.0
SERVERS = {
    "mongodb": processes.origin,
    "redis": processes.redis,
    "memcached": processes.memcached,
    "dynamodb": processes.dynamodb,
}
ACCESS_KEY = {"AWS_ACCESS_KEY_ID": "AKIDLAB", "AWS_SECRET_ACCESS_KEY": "the secret of the lab"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    # Raises SystemExit, so that programs are stopped.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    paper = experiment.load(arguments.short)
    measure(paper, paper.run(arguments.run), arguments.directory)


def measure(paper, run, directory):
    missing = results.missing_batches(directory, run)
    if not missing:
        return
    with laid_out(paper, run) as (client, cache):
        session = Session(paper, run, client, cache)
        if missing[0] > 1 and run.capacity and run.workload == "uniform":
            # A resumed run starts with an empty cache: the previous batch fills it, unrecorded.
            session.send(missing[0] - 1, progress=False)
        for number in missing:
            results.write_batch(directory, session.send(number))


@contextlib.contextmanager
def laid_out(paper, run):
    """Starts server, paths and cache; yields the client and the cache, or None without a cache."""
    names = paper.common["workload"]
    texts = workload.phrases(names["seed"], names["keys"])
    connect = workload.CLIENTS[run.protocol]
    # The key that signs requests of DynamoDB; the cache finds it in its environment, too.
    os.environ |= ACCESS_KEY
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(SERVERS[run.protocol]())
        filler = connect(server, names)
        filler.fill(texts)
        filler.close()
        cache = None
        if run.capacity:
            far = stack.enter_context(processes.link(server, run.location.cache_origin_rtt_ms))
            options = paper.common["cache"]
            cache = processes.cache(run.protocol, far, run.capacity, options)
            cache = stack.enter_context(cache)
            entry = cache.address()
            near = stack.enter_context(processes.link(entry, run.location.client_cache_rtt_ms))
        else:
            near = stack.enter_context(processes.link(server, run.location.direct_rtt_ms))
        client = connect(near, names)
        stack.callback(client.close)
        yield client, cache


class Session:
    """Client of a run: sends batches and computes the expected hits."""

    def __init__(self, paper, run, client, cache):
        self.paper, self.run, self.client, self.cache = paper, run, client, cache
        names = paper.common["workload"]
        self.texts = workload.phrases(names["seed"], names["keys"])
        self.replay = workload.Replay(run.capacity)
        self.sent = 0
        self.started_ns = None

    def send(self, number, progress=True):
        pairs = self.paper.batch_keys(self.run, number)
        before = self.counters()
        replayed_hits, rows = 0, []
        load = os.getloadavg()[0]
        began = reported = time.monotonic()
        for key, recorded in pairs:
            at_ns, took_ns = self.client.read(key, self.texts[key])
            self.started_ns = self.started_ns or at_ns
            replayed = self.replay.read(key)
            replayed_hits += replayed
            if recorded:
                outcome = self.outcome(took_ns / 1e6, replayed)
                at_s = (at_ns - self.started_ns) / 1e9
                rows.append(results.Row(len(rows) + 1, key, outcome, took_ns / 1e6, at_s))
            if progress and time.monotonic() - reported >= REPORT_S:
                reported = time.monotonic()
                self.say(number, rows, reported - began)
        seconds = time.monotonic() - began
        self.sent += len(pairs)
        after = self.counters()
        if progress:
            self.say(number, rows, seconds)
        counted = (after[0] - before[0], after[1] - before[1])
        return results.Batch(self.run, number, rows, seconds, counted, replayed_hits, load)

    def counters(self):
        """Hits and misses by the cache's own counters, after they include all requests.

        Only in uniform runs: waiting for the counters between short batches would let server and
        path become idle.
        """
        if not self.cache or self.run.workload != "uniform":
            return (0, 0)
        return self.cache.counters(self.sent)

    def outcome(self, latency_ms, replayed):
        """Hit or miss of one request.

        A reply that took less time than the path to the server is a hit. Without such a path the
        replay of the cache's replacement policy decides. Both are compared with the cache's own
        counters after each batch.
        """
        if not self.run.capacity:
            return "direct"
        if self.run.location.cache_origin_rtt_ms:
            return "hit" if latency_ms < self.run.miss_rtt_ms else "miss"
        return "hit" if replayed else "miss"

    def say(self, number, rows, seconds):
        hits = sum(row.outcome == "hit" for row in rows)
        event = {
            "batch": number,
            "requests": len(rows),
            "rate": len(rows) / seconds if seconds else 0,
            "hit_ratio": hits / max(1, len(rows)),
        }
        print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main()
