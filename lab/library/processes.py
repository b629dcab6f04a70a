"""Starts programs and stops them, whatever happens."""

import collections
import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from lab.library.repository import ROOT

ENROUTE = ROOT / "target" / "release" / "enroute"
BENCH = ENROUTE.with_name("enroute-bench")
FERRETDB = ROOT / ".deps" / "bin" / "ferretdb"
DYNAMODB = ROOT / ".deps" / "dynamodb-local"

ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
READY = "Ready to accept connections"
COUNTERS = re.compile(r"hits=(\d+) misses=(\d+)")

START_S = 30
STOP_S = 10
# Lines of a program's output that are kept for error messages.
LINES_MAX = 20

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """A run failed; finished runs are kept."""


def output(*command):
    """Standard output of a program that runs to its end."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    if done.returncode:
        last = "\n".join(done.stderr.decode(errors="replace").splitlines()[-5:])
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{last}")
    return done.stdout


def bench(*words):
    """Standard output of `enroute-bench`."""
    if not BENCH.exists():
        raise Failed(f"{BENCH.name} is not built; the paper's make target builds it")
    return output(BENCH, *words)


def need(path):
    """The path, if it exists. Otherwise skips the test; with CI=true, fails it."""
    if path and Path(path).exists():
        return path
    why = f"{path or 'a program'} is not installed; run `make deps` and `cargo test`"
    raise AssertionError(why) if os.environ.get("CI") == "true" else unittest.SkipTest(why)


class Program:
    """A running program. A thread reads its output."""

    def __init__(self, command):
        self.command = [str(word) for word in command]
        self.lines = collections.deque(maxlen=LINES_MAX)
        self.ended = False
        self.changed = threading.Condition()
        # A session of its own: Ctrl-C signals only the lab, which then stops the program. If the
        # lab is killed, the kernel terminates the program.
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Server logs quote arbitrary bytes from clients.
            errors="replace",
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def address(self):
        """The address that it listens on: the newest one in its output."""
        return self.line(ADDRESS.search, START_S)[0]

    def counters(self, requests):
        """Hits and misses, after the cache has counted at least this number of requests."""
        counted = self.line(lambda line: counted_to(line, requests), START_S)
        return tuple(int(number) for number in counted.groups())

    def line(self, matching, timeout_s):
        """The result of `matching` for the newest line for which it is true."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while True:
                if found := next(filter(None, map(matching, reversed(self.lines))), None):
                    return found
                left_s = deadline - time.monotonic()
                if self.ended or left_s <= 0:
                    raise RuntimeError(
                        f"{self.command}: ended, or no expected line within {timeout_s} s: "
                        f"{list(self.lines)}"
                    )
                self.changed.wait(left_s)

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip())
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def stop(self):
        stop(self.process)
        self.reader.join()
        self.process.stdout.close()


def counted_to(line, requests):
    counted = COUNTERS.search(line)
    return counted if counted and int(counted[1]) + int(counted[2]) >= requests else None


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def stop(process):
    """Terminates the process; kills it after `STOP_S`."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


@contextlib.contextmanager
def running(*command):
    program = Program(command)
    try:
        yield program
    finally:
        program.stop()


@contextlib.contextmanager
def origin():
    """Starts a MongoDB server with an empty data directory; yields its address."""
    with tempfile.TemporaryDirectory(prefix="enroute-lab-") as directory:
        with running(FERRETDB, "--listen", "127.0.0.1:0", "--dir", directory) as server:
            yield server.address()


@contextlib.contextmanager
def redis(*more):
    """Starts a Redis server without snapshots; yields its address."""
    with tempfile.TemporaryDirectory(prefix="enroute-lab-") as directory:
        port = free_port()
        options = ["--bind", "127.0.0.1", "--port", port, "--dir", directory, "--save", ""]
        with running("redis-server", *options, *more) as server:
            server.line(lambda line: READY in line, START_S)
            yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def memcached():
    """Starts memcached; yields its address."""
    port = free_port()
    # As root it refuses to run unless a user is named.
    with running("memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-u", "root"):
        accepting(port)
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def dynamodb():
    """Starts DynamoDB Local in memory, with one set of tables; yields its address."""
    with tempfile.TemporaryDirectory(prefix="enroute-lab-") as directory:
        port = free_port()
        java = ["java", "-XX:+UseSerialGC", "-XX:CICompilerCount=2", "-Xmx256m"]
        java += [f"-Djava.io.tmpdir={directory}", f"-Djava.library.path={DYNAMODB}"]
        java += ["-cp", f"{DYNAMODB}/*", "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"]
        with running(*java, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", port):
            accepting(port)
            yield f"127.0.0.1:{port}"


def accepting(port):
    """Waits until a server accepts connections."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port} after {START_S} s")


def free_port():
    """A free port outside the kernel's ephemeral range, for a server that cannot bind to port 0."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("no port is free")


@contextlib.contextmanager
def link(to, rtt_ms):
    """Starts an emulated path to an address; yields the address to connect to."""
    if not rtt_ms:
        yield to
        return
    listen = ["--listen", "127.0.0.1:0", "--to", to]
    with running(ENROUTE, "link", *listen, "--rtt", f"{rtt_ms}ms") as path:
        yield path.address()


@contextlib.contextmanager
def cache(protocol, to, capacity, options):
    """Starts a cache in front of an address; yields the `Program`."""
    stored = {"capacity": capacity, **options["storage"]}
    lines = [f"workers = {options['workers']}", "[storage]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in stored.items()]
    lines += ["[[listener]]", f'listen = "{protocol}://127.0.0.1:0"', f'origin = "{protocol}://{to}"']
    with tempfile.TemporaryDirectory(prefix="enroute-lab-") as directory:
        file = Path(directory) / "enroute.toml"
        file.write_text("\n".join(lines) + "\n")
        with running(ENROUTE, "cache", "--config", file, "--statistics", "250ms") as program:
            yield program
