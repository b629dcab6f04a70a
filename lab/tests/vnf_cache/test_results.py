import tempfile
import unittest
from pathlib import Path

from lab.vnf_cache import experiment, results, tables
from lab.tests.vnf_cache import synthetic


class Results(unittest.TestCase):
    def setUp(self):
        self.paper = experiment.load(short=True)
        self.run_ = self.paper.run("mongodb-a-local-uniform-30")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def test_batch_reads_back_as_written(self):
        written = synthetic.batch(self.paper, self.run_, 1)
        results.write_batch(self.directory, written)
        (read,) = results.read_batches(self.directory, self.run_)
        self.assertEqual(len(read.rows), 1000)
        self.assertEqual(read.counted, written.counted)
        self.assertEqual([row.key for row in read.rows], [row.key for row in written.rows])
        self.assertAlmostEqual(read.rows[7].latency_ms, written.rows[7].latency_ms, places=3)

    def test_batch_without_its_summary_is_measured_again(self):
        results.write_batch(self.directory, synthetic.batch(self.paper, self.run_, 1))
        results.write_batch(self.directory, synthetic.batch(self.paper, self.run_, 2))
        folder = results.raw_directory(self.directory, self.run_)
        results.batch_file(folder, 2, "json").unlink()
        self.assertEqual(results.missing_batches(self.directory, self.run_), [2, 3, 4, 5])

    def test_counters_that_differ_are_noticed(self):
        batch = synthetic.batch(self.paper, self.run_, 1)
        self.assertEqual(tables.disagreement(batch), 0)
        hits, misses = batch.counted
        wrong = results.Batch(**{**vars(batch), "counted": (hits - 3, misses + 3)})
        self.assertEqual(tables.disagreement(wrong), 3)


if __name__ == "__main__":
    unittest.main()
