"""Fills databases and measures them with `redis-benchmark`, also while memory is rescaled."""

import contextlib
import csv
import io
import subprocess
import time

import redis

from lab.library import processes

REDIS, ENROUTE = "redis-server", "enroute"
SERVERS = (REDIS, ENROUTE)

VALUE_BYTES = 4096
MIB = 1 << 20
# Number of pipelined SETs when a database is filled.
TOGETHER = 500
SAMPLE_S = 0.25
# Number of requests that is never reached: the load is stopped before.
ENDLESS = 1_000_000_000


def filled(server, memory_mib, fill, requests, directory):
    """Measures lookups of stored keys whose values take the share `fill` of the memory."""
    entries = int(memory_mib * MIB * fill / VALUE_BYTES)
    with running(server, memory_mib, directory) as client:
        store(client, entries)
        client.config_resetstat()
        said = subprocess.run(
            [*benchmark(client, entries), "-n", str(requests), "--csv"],
            capture_output=True, text=True, check=True,
        ).stdout
        counted = client.info("stats")
    hits, misses = counted["keyspace_hits"], counted["keyspace_misses"]
    [row] = csv.DictReader(io.StringIO(said))
    return {
        "entries": entries,
        "requests_per_s": float(row["rps"]),
        **{f"{name}_ms": float(row[f"{name}_latency_ms"]) for name in ("p50", "p95", "p99", "max")},
        "found": hits / max(hits + misses, 1),
    }


def rescaled(directory, entries, memory_mib, stage_s):
    """Samples the database's counters under load while its memory is changed step by step."""
    with running(ENROUTE, memory_mib[0], directory) as client:
        store(client, entries)
        with processes.running(*benchmark(client, entries), "-q", "-n", ENDLESS) as load:
            sampler = Sampler(client)
            for stage, memory in enumerate(memory_mib):
                client.execute_command("RESCALE", memory * MIB)
                sampler.until((stage + 1) * stage_s)
            if load.ended:
                raise RuntimeError(f"{load.command}: ended too early: {list(load.lines)}")
    return {"samples": sampler.samples}


class Sampler:
    """Counters of a database, sampled every 250 ms."""

    def __init__(self, client):
        self.client = client
        self.samples = []
        self.began = time.monotonic()
        self.before = self.counted()

    def until(self, end_s):
        while self.before["at_s"] < end_s:
            time.sleep(SAMPLE_S)
            now = self.counted()
            took = now["at_s"] - self.before["at_s"]
            found, waited = (now[name] - self.before[name] for name in ("found", "waited"))
            self.samples.append({
                "at_s": now["at_s"], "lookups_per_s": found / took,
                "from_memory": max(0.0, 1 - waited / found) if found else 0.0,
                "budget_mib": now["budget_mib"], "resident_mib": now["resident_mib"],
            })
            self.before = now

    def counted(self):
        said = self.client.info()
        return {
            "at_s": time.monotonic() - self.began,
            "found": said["keyspace_hits"],
            "waited": said["disk_waits"],
            "budget_mib": said["maxmemory"] / MIB,
            "resident_mib": said["used_memory_rss"] / MIB,
        }


@contextlib.contextmanager
def running(server, memory_mib, directory):
    """Starts an empty database with this memory; yields a client of it."""
    port = processes.free_port()
    if server == REDIS:
        words = ["redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "",
                 "--dir", directory, "--maxmemory", f"{memory_mib}mb",
                 "--maxmemory-policy", "allkeys-lru"]
    else:
        words = [processes.ENROUTE, "db", "--listen", f"127.0.0.1:{port}",
                 "--dir", directory / "data", "--memory", f"{memory_mib}MiB"]
    with processes.running(*words) as program, redis.Redis(port=port) as client:
        answers(client, program)
        yield client


def answers(client, program):
    deadline = time.monotonic() + processes.START_S
    while True:
        try:
            return client.ping()
        except redis.ConnectionError:
            if program.ended or time.monotonic() > deadline:
                raise RuntimeError(f"{program.command}: no answer: {list(program.lines)}") from None
            time.sleep(0.05)


def store(client, entries):
    """Stores all keys that `redis-benchmark -r entries` requests."""
    value = b"v" * VALUE_BYTES
    for first in range(0, entries, TOGETHER):
        pipeline = client.pipeline(transaction=False)
        for number in range(first, min(first + TOGETHER, entries)):
            pipeline.set(f"key:{number:012}", value)
        pipeline.execute()


def benchmark(client, entries):
    """The paper's command (Tables 1 to 3), for stored keys."""
    port = client.connection_pool.connection_kwargs["port"]
    return ["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-t", "get",
            "-d", str(VALUE_BYTES), "-r", str(entries)]
