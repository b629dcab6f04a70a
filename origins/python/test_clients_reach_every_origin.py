"""Tests the Python clients directly against the origins, without enroute."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import pymongo
import redis

DEPS = Path(__file__).resolve().parents[2] / ".deps"


@contextlib.contextmanager
def running(command, ready):
    """Starts a program; yields the first line of its output that contains `ready`."""
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)
        try:
            line = next((line for line in process.stdout if ready in line), None)
            if line is None:
                raise RuntimeError(f"{command} ended with status {process.wait()}")
            yield line.strip()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


class ClientsReachEveryOrigin(unittest.TestCase):
    def need(self, path):
        if path is None or not Path(path).exists():
            why = f"{path or 'a server'} is not installed; `make deps` installs it"
            self.fail(why) if os.environ.get("CI") == "true" else self.skipTest(why)
        return str(path)

    def inserts_and_finds(self, command):
        with running(command, "listening on ") as line:
            address = line.removeprefix("listening on ")
            for number, compressors in enumerate(["", "snappy", "zlib", "zstd"]):
                options = {"compressors": compressors} if compressors else {}
                with pymongo.MongoClient(f"mongodb://{address}", **options) as client:
                    client.shop.users.insert_one({"_id": str(number), "name": "Ada"})
                    found = client.shop.users.find_one({"_id": str(number)})
                    self.assertEqual(found, {"_id": str(number), "name": "Ada"})

    def test_ferretdb(self):
        program = self.need(DEPS / "bin" / "ferretdb")
        self.inserts_and_finds([program, "--dir", "."])

    def test_mongo_java(self):
        home = Path(self.need(DEPS / "mongo-java"))
        java = self.need(shutil.which("java"))
        self.inserts_and_finds([java, "-cp", f"{home}:{home}/lib/*", "MongoJava"])

    def test_redis(self):
        program = self.need(shutil.which("redis-server"))
        port = free_port()
        options = ["--bind", "127.0.0.1", "--port", str(port), "--save", ""]
        with running([program, *options], "Ready to accept connections"):
            for protocol in (2, 3):
                with redis.Redis(port=port, protocol=protocol, decode_responses=True) as client:
                    client.set("user:42", "Ada")
                    self.assertEqual(client.get("user:42"), "Ada")


def free_port():
    """A free port outside the kernel's ephemeral range."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("no port is free")


if __name__ == "__main__":
    unittest.main()
