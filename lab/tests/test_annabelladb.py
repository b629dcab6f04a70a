import gzip
import json
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from lab.annabelladb import experiment, figures, report
from lab.library import claims, command
from lab.tests.test_claims import not_run


def said(words, local_ms=0.1):
    """Plausible output of `enroute-bench functions`: local state one second after each start."""
    option = dict(word.removeprefix("--").split("=", 1) for word in words)
    far_us = float(option["rtt"].removesuffix("us"))
    follows = option["placement"] != "hash"
    accesses = []
    for function in [word for word in words if word.startswith("--function=")]:
        begin = float(function.removeprefix("--function=").split(":")[0])
        at = [round((begin + 0.1 * step) * 1e6)
              for step in range(int((float(option["seconds"]) - begin) * 10))]
        near = [follows and each > (begin + 1) * 1e6 for each in at]
        took = [local_ms * 1e3 if each else far_us for each in near]
        accesses.append({"at_us": at, "took_us": took})
    status = "placer: p\nmoves: 2, failed: 0\n" if follows else ""
    return {"accesses": accesses, "status": status}


class AnnaBellaDB(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def measured(self, each):
        for name, words in each.runs():
            path = self.directory / f"{each.name} {name}.json.gz"
            path.write_bytes(gzip.compress(json.dumps(said(words)).encode()))
        return experiment.results(each, self.directory)

    def test_every_data_file_is_drawn_from_its_own_runs(self):
        paper, shown = experiment.paper(), []
        for each in experiment.load([], True):
            runs = self.measured(each)
            self.assertEqual(len(runs), 3 * len(each.rtt_us), each.name)
            picture, table = figures.draw(each, runs, paper, self.directory)
            ElementTree.fromstring(picture)
            self.assertTrue(all(len(row) == len(table[0]) for row in table[1]), each.name)
            command.write(self.directory / f"{each.name}.csv", table)
            shown.append((each, (picture, table)))
        self.assertEqual(len(shown), 4)
        judged = claims.items("annabelladb", self.directory)
        self.assertEqual(not_run(judged), [])
        page = report.page(paper, shown, judged, {"mode": "short"})
        self.assertIn("35.98", page)
        self.assertIn("Figure 4", page)

    def test_a_function_that_moves_is_one_function(self):
        each = experiment.load(["figure-5"], False)[0]
        _, words = next(each.runs())
        self.assertIn("--function=0:1,60:2,120:3,180:4", words)
        self.assertIn("--seconds=240", words)

    def test_windows_hold_what_ended_in_them(self):
        each = experiment.load(["table-1"], True)[0]
        run = self.measured(each)[600, "following"]
        middle, mean = figures.sliding(run, each.seconds)
        self.assertEqual(run.moves, 2)
        self.assertAlmostEqual(middle[0], 1.0)
        # All but the last of the first window's accesses are far.
        self.assertGreater(mean[0], 0.3)
        self.assertAlmostEqual(mean[8], 0.1, places=6)


if __name__ == "__main__":
    unittest.main()
