import dataclasses
import os
import shutil
import unittest
from unittest import mock

from lab.library import processes, repository
from lab.vnf_cache import experiment, measure

BUILT = repository.ROOT / "target" / "debug" / "enroute"


class Protocols(unittest.TestCase):
    """Real servers, the cache and the drivers: hits and misses are those of a FIFO cache."""

    @classmethod
    def setUpClass(cls):
        processes.need(BUILT)
        cls.paper = experiment.load(short=True)
        cls.enterClassContext(mock.patch.object(processes, "ENROUTE", BUILT))

    def measured(self, protocol, capacity):
        run = self.paper.run(f"{protocol}-a-local-uniform-{capacity}")
        run = dataclasses.replace(run, requests=200)
        with mock.patch.dict(os.environ), measure.laid_out(self.paper, run) as (client, cache):
            return measure.Session(self.paper, run, client, cache).send(1, progress=False)

    def check(self, protocol):
        batch = self.measured(protocol, 30)
        self.assertEqual(batch.counted[0], batch.replayed_hits)
        self.assertEqual(sum(batch.counted), 200)
        self.assertGreater(batch.replayed_hits, 30)

    def test_mongodb(self):
        processes.need(processes.FERRETDB)
        self.check("mongodb")

    def test_redis(self):
        processes.need(shutil.which("redis-server"))
        self.check("redis")

    def test_memcached(self):
        processes.need(shutil.which("memcached"))
        self.check("memcached")

    def test_dynamodb_with_signed_requests(self):
        processes.need(processes.DYNAMODB)
        self.check("dynamodb")

    def test_without_a_cache_nothing_is_counted(self):
        processes.need(shutil.which("redis-server"))
        batch = self.measured("redis", 0)
        self.assertEqual((batch.counted, len(batch.rows)), ((0, 0), 200))


if __name__ == "__main__":
    unittest.main()
