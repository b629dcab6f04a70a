import tempfile
import unittest
from pathlib import Path

from lab import bench
from lab.library.style import saved


class Bench(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def test_the_newest_results_are_drawn(self):
        self.assertIsNone(bench.newest(self.directory, "staleness"))
        for date in ("2026-11-02T000000Z", "2026-11-10T000000Z", "2026-10-30T000000Z"):
            results = self.directory / "raw" / date
            results.mkdir(parents=True)
            (results / "staleness.json").write_text("{}")
        newest = bench.newest(self.directory, "staleness")
        self.assertEqual(newest.parent.name, "2026-11-10T000000Z")

    def test_each_line_of_the_staleness_is_named(self):
        lines = {"Redis": [0, 0.1, 0.2, 3], "MongoDB": [0, 0]}
        svg = saved(bench.staleness(lines), self.directory / "staleness")
        self.assertIn("Redis", svg)
        self.assertIn("MongoDB: never", svg)


if __name__ == "__main__":
    unittest.main()
