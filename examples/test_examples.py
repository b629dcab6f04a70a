"""Runs each example against real servers through one cache with TLS, and checks for a hit."""

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from lab.library import processes
from lab.library.repository import ROOT

ENROUTE = ROOT / "target" / "debug" / "enroute"
EXAMPLES = ROOT / "examples"
INSTALLED = ROOT / ".deps" / "examples"

EXAMPLE_S = 60
# On a slow machine a run may have no hit: the cache may still be querying the client's rights.
ATTEMPTS = 5

CONFIG = """
[admin]
listen = "127.0.0.1:0"

[[listener]]
listen = "rediss://127.0.0.1:0"
origin = "redis://{redis}"
tls = {{ cert = "{directory}/server.pem", key = "{directory}/server.key" }}

[[listener]]
listen = "mongodb://127.0.0.1:0"
origin = "mongodb://{mongodb}"
tls = {{ cert = "{directory}/server.pem", key = "{directory}/server.key" }}
"""

# A certificate authority, and a certificate for this machine signed by it.
CERTIFICATES = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -keyout ca.key -out ca.pem -subj "/CN=examples"
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -keyout server.key -out server.csr -subj "/CN=localhost"
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' >names
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days 2 -extfile names -out server.pem
"""


class Cache:
    """A cache with TLS in front of a Redis and a MongoDB server."""

    def __init__(self, directory, redis, mongodb, stack):
        run = ["sh", "-euc", CERTIFICATES]
        subprocess.run(run, cwd=directory, check=True, capture_output=True)
        config = directory / "enroute.toml"
        config.write_text(CONFIG.format(directory=directory, redis=redis, mongodb=mongodb))
        command = [ENROUTE, "cache", "--config", config]
        self.program = stack.enter_context(processes.running(*command))
        self.admin = self.printed(r"admin: (\S+)/")
        self.ca = directory / "ca.pem"
        self.redis = f"rediss://localhost:{self.printed(rf':([0-9]+)/? -> .*{redis}')}"
        port = self.printed(rf":([0-9]+)\S* -> .*{mongodb}")
        self.mongodb = f"mongodb://localhost:{port}/?tls=true"

    def printed(self, pattern):
        """The group of the pattern, from the line of the cache's output that matches."""
        return self.program.line(re.compile(pattern).search, processes.START_S)[1]

    def hits(self):
        with urllib.request.urlopen(f"{self.admin}/stats") as answer:
            return json.load(answer)["reads"]["hits"]


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for program in (ENROUTE, processes.FERRETDB, shutil.which("redis-server")):
            processes.need(program)
        with contextlib.ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            redis = stack.enter_context(processes.redis())
            mongodb = stack.enter_context(processes.origin())
            cls.cache = Cache(directory, redis, mongodb, stack)
            cls.addClassCleanup(stack.pop_all().close)

    def test_redis_py(self):
        self.redis(INSTALLED / "python" / "bin" / "python", EXAMPLES / "python" / "redis_py.py")

    def test_node_redis(self):
        self.redis(*node("redis.mjs"))

    def test_go_redis(self):
        self.redis(INSTALLED / "go" / "redis")

    def test_lettuce(self):
        self.redis(*java("Redis.java"))

    def test_pymongo(self):
        python = INSTALLED / "python" / "bin" / "python"
        self.mongodb(python, EXAMPLES / "python" / "pymongo_driver.py")

    def test_mongodb_driver_of_node(self):
        self.mongodb(*node("mongodb.mjs"))

    def test_mongodb_driver_of_go(self):
        self.mongodb(INSTALLED / "go" / "mongodb")

    def test_mongodb_driver_of_java(self):
        self.mongodb(*java("MongoDb.java"))

    def test_mongodb_driver_of_rust(self):
        self.mongodb(ENROUTE.parent / "examples" / "mongodb")

    def redis(self, program, *arguments):
        self.read_twice(self.cache.redis, program, *arguments)

    def mongodb(self, program, *arguments):
        self.read_twice(self.cache.mongodb, program, *arguments)

    def read_twice(self, url, program, *arguments):
        """Runs an example until it has a hit; all runs must succeed."""
        command = [processes.need(program), *arguments, url, self.cache.ca]
        for _ in range(ATTEMPTS):
            before = self.cache.hits()
            run = subprocess.run(command, capture_output=True, text=True, timeout=EXAMPLE_S)
            self.assertEqual(run.returncode, 0, f"{command}: {run.stdout}{run.stderr}")
            if self.cache.hits() > before:
                return
        self.fail(f"{command}: no hit in {ATTEMPTS} runs")


def node(program):
    processes.need(EXAMPLES / "node" / "node_modules")
    return shutil.which("node"), EXAMPLES / "node" / program


def java(program):
    jars = processes.need(INSTALLED / "java")
    return shutil.which("java"), "-cp", f"{jars}/*", EXAMPLES / "java" / program


if __name__ == "__main__":
    unittest.main()
