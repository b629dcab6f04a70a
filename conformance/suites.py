"""Runs each suite directly or through the cache, and reads its results."""

import contextlib
import json
import os
import re
import socket
import tempfile
import time
from pathlib import Path
from typing import Callable, NamedTuple

from conformance import comparison, memcached
from conformance.command import run
from lab.library import processes
from lab.library.repository import ROOT

HERE = Path(__file__).parent
ENROUTE = ROOT / "target" / "debug" / "enroute"
INSTALLED = ROOT / ".deps" / "conformance"
PYTHON = INSTALLED / "python" / "bin" / "python"
REDIS_TESTS = ROOT / ".deps" / "redis-tests"
DYNAMODB_LOCAL = ROOT / ".deps" / "dynamodb-local"

# That of the clients. The cache knows it: without it nothing would be answered from storage.
ACCESS_KEY = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}

PYTEST_S = 90 * 60
UNIT_S = 10 * 60
# Number of characters of the output that are printed if a run fails to end normally.
OUTPUT_SHOWN = 4_000

# Tests of clusters, TLS and modules need other servers, whose addresses are fixed in the suite.
OTHER_SERVERS = ("onlycluster", "redismod", "ssl", "multidb_integration", "cp_integration")

# FerretDB has no JavaScript: this test fails after it has set an alarm and before it handles the
# signal, which then ends the whole run.
ENDS_THE_RUN = "test/test_client.py::TestClient::test_interrupt_signal"

UNITS = re.compile(r"set ::all_tests \{(.*?)\}", re.DOTALL)
COLOR = re.compile(r"\x1b\[[0-9;]*m")
LINE = re.compile(r"^\[(ok|err|skip|ignore|exception)\]: (.*)$", re.MULTILINE)
TCL_RESULTS = {"ok": "passed", "err": "failed", "skip": "skipped", "ignore": "skipped"}


class Suite(NamedTuple):
    name: str
    scheme: str
    # Runs the tests and returns their results by name. Arguments: whether through the cache, an
    # empty directory, and the names of those to run, if not all.
    measure: Callable

    def allowed(self):
        """Reasons by name of the tests whose results may differ."""
        return allowed(self.name)


def allowed(suite):
    return comparison.allowed_differences((HERE / "allowed" / f"{suite}.txt").read_text())


def redis_py(address, directory, names):
    marks = " and ".join(f"not {mark}" for mark in OTHER_SERVERS)
    options = ["--redis-url", f"redis://{address}/0", "-m", marks]
    selected = names or ["tests", "--ignore-glob", "*/test_scenario"]
    return pytest("redis", directory, [*options, *selected], {})


def pymongo(address, directory, names):
    host, port = address.split(":")
    options = ["-p", "no_test_commands", "-m", "default", "--deselect", ENDS_THE_RUN]
    return pytest("pymongo", directory, [*options, *names], {"DB_IP": host, "DB_PORT": port})


def aiodynamo(address, directory, names):
    variables = {**ACCESS_KEY, "DYNAMODB_URL": f"http://{address}"}
    return pytest("aiodynamo", directory, names or ["tests/integration"], variables)


def pytest(source, directory, arguments, variables):
    """Runs pytest in an unpacked source archive."""
    outcomes = Path(directory) / "outcomes"
    outcomes.write_text("")
    environment = {
        **os.environ,
        **variables,
        "OUTCOMES": str(outcomes),
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    report = f"--junitxml={directory}/report.xml"
    plugins = ["-p", "no:cacheprovider", "-p", "outcomes"]
    command = [PYTHON, "-m", "pytest", "-q", *plugins, report, *arguments]
    output, status = run(command, INSTALLED / source, PYTEST_S, environment)
    if status not in (0, 1):  # 0: all tests passed, 1: some failed.
        raise RuntimeError(f"{command}: ended with {status}:\n{output[-OUTPUT_SHOWN:]}")
    return pytest_results(outcomes.read_text().splitlines())


def pytest_results(lines):
    results = {}
    for line in lines:
        name, result = json.loads(line)
        if results.get(name) != "failed":
            results[name] = result
    return results


def redis(address, directory, names):
    """Runs each unit in a process of its own, because an exception ends the process.

    Tests whose results may differ are skipped: one that never ends would block its whole unit.
    """
    host, port = address.split(":")
    results, not_run = {}, allowed("redis")
    for unit in units(names):
        options = ["--host", host, "--port", port, "--single", unit, "--tags", "-slow"]
        ports = ["--clients", "1", "--baseport", str(processes.free_port())]
        skipped = [
            word
            for name in not_run
            if name.startswith(f"{unit}: ")
            for word in ("--skiptest", name.removeprefix(f"{unit}: "))
        ]
        command = ["./runtest", *options, *ports, *skipped, "--durable", "--ignore-encoding"]
        output, status = run(command, REDIS_TESTS, UNIT_S, os.environ)
        results.update(tcl_results(unit, output))
        if status < 0:
            results[f"{unit}: not ended after {UNIT_S} s"] = "failed"
    return results


def units(names):
    if names:
        return sorted({name.partition(":")[0] for name in names})
    return UNITS.search((REDIS_TESTS / "tests" / "test_helper.tcl").read_text())[1].split()


def tcl_results(unit, output):
    results = {}
    for kind, said in LINE.findall(COLOR.sub("", output)):
        if kind == "ok":
            said = re.sub(r" \(\d+ ms\)$", "", said)
        elif kind == "err":
            said = said.partition(" in tests/")[0]
        elif kind == "exception":
            said = kind
        results[f"{unit}: {said}"] = TCL_RESULTS.get(kind, "failed")
    return results


def against(scheme, origin, tests):
    """Runs `tests` against the address of one server, which `origin` starts."""

    def measure(cached, directory, names):
        with contextlib.ExitStack() as stack:
            address = stack.enter_context(origin())
            if cached:
                address = stack.enter_context(cache(scheme, address))
            return tests(address, directory, names)

    return measure


@contextlib.contextmanager
def cache(scheme, to):
    urls = "--listen", f"{scheme}://127.0.0.1:0", "--origin", f"{scheme}://{to}"
    known = [f"{name}={value}" for name, value in ACCESS_KEY.items()]
    with processes.running("env", *known, ENROUTE, "cache", *urls) as program:
        yield program.address()


@contextlib.contextmanager
def dynamodb_local():
    """DynamoDB Local with its tables in memory; yields its address."""
    port = processes.free_port()
    options = "-inMemory", "-sharedDb", "-disableTelemetry", "-port", port
    with tempfile.TemporaryDirectory(prefix="enroute-dynamodb-") as scratch:
        command = [
            "java",
            "-XX:+UseSerialGC",
            # It unpacks a library there, and leaves it.
            f"-Djava.io.tmpdir={scratch}",
            f"-Djava.library.path={DYNAMODB_LOCAL}",
            "-cp",
            f"{DYNAMODB_LOCAL}/*",
            "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
            *options,
        ]
        with processes.running(*command) as server:
            until_connected(server, port)
            yield f"127.0.0.1:{port}"


def until_connected(server, port):
    deadline = time.monotonic() + processes.START_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if server.ended or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def debuggable_redis():
    """A Redis server for its own tests, which use DEBUG and protected settings."""
    return processes.redis("--enable-debug-command", "yes", "--enable-protected-configs", "yes")


SUITES = [
    Suite("redis-py", "redis", against("redis", processes.redis, redis_py)),
    Suite("redis", "redis", against("redis", debuggable_redis, redis)),
    Suite("pymongo", "mongodb", against("mongodb", processes.origin, pymongo)),
    Suite("memcached", "memcached", memcached.measure),
    Suite("aiodynamo", "dynamodb", against("dynamodb", dynamodb_local, aiodynamo)),
]
