import tempfile
import unittest

from lab.vnf_cache import experiment, results, runner
from lab.tests.vnf_cache import synthetic


class Board(unittest.TestCase):
    def setUp(self):
        self.paper = experiment.load(short=True)
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name

    def test_what_is_measured_takes_no_more_time(self):
        run = self.paper.run("mongodb-a-local-uniform-30")
        before = runner.Board(self.paper, self.directory, [run]).left_s(run)
        results.write_batch(self.directory, synthetic.batch(self.paper, run, 1))
        after = runner.Board(self.paper, self.directory, [run]).left_s(run)
        self.assertAlmostEqual(after, before * 4 / 5)

    def test_lanes_share_the_time_left(self):
        runs = [run for run in self.paper.runs if not run.alone]
        board = runner.Board(self.paper, self.directory, runs)
        total = sum(board.left_s(run) for run in runs)
        self.assertGreaterEqual(board.eta_s(), total / board.lanes)
        self.assertLess(board.eta_s(), total / 4)

    def test_times_read_as_people_say_them(self):
        self.assertEqual(runner.clock(59.6), "1 min 00 s")
        self.assertEqual(runner.clock(7500), "2 h 05 min")


if __name__ == "__main__":
    unittest.main()
