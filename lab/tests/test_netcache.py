import json
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from lab.library import claims, command
from lab.netcache import experiment, figures, report
from lab.tests.test_claims import not_run

NAMES = ["smallest hit 128 B", "miss", "put of a cached key"] + [
    f"hit {size} B{suffix}" for size in (16, 128, 512, 1024) for suffix in ("", " in registers")
] + [f"hit 128 B of {keys} keys{suffix}" for keys in (1 << 14, 1 << 16, 1 << 20)
    for suffix in ("", " in registers")
] + [f"update {size} B" for size in (16, 128, 512, 1024)]


def said(words):
    """Plausible output of `enroute` for a command of an experiment."""
    if words[1] == "measure":
        return [{"name": name, "values": [100.0, 90.0], "unit": "ns"} for name in NAMES]
    options = dict(word.removeprefix("--").split("=") for word in words if "=" in word)
    config = {"skew": float(options.get("skew", 0)), "cached": int(options.get("cached", 10_000)),
              "writes": float(options.get("writes", 0)),
              "write_skew": float(options.get("write-skew", 0)), "change": options.get("change"),
              "reports_every_ms": 1000 if options.get("reports-every") == "1s" else 0}
    second = {"asked": 100, "switch": 60, "servers": 39}
    qps = 1000.0 * (1 + config["cached"]) / (1 + config["skew"])
    return {"config": config, "simulated": words[0] == "fabric", "throughput_qps": qps,
            "switch_qps": qps / 2, "servers_qps": qps / 2, "loss": 0.01,
            "recovery_s": [1.5, 2.0], "seconds": [second] * int(options.get("seconds", 5))}


class Switch(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def test_every_data_file_is_drawn_from_its_own_runs(self):
        paper, shown = experiment.paper(), []
        for each in experiment.load([], True):
            for name, words in each.runs():
                path = self.directory / f"{each.name} {name}.json"
                path.write_text(json.dumps(said(words)))
            results, left_out = experiment.results(each, self.directory)
            self.assertEqual(left_out, 0, each.name)
            picture, table = figures.draw(each, results, paper, self.directory)
            ElementTree.fromstring(picture)
            self.assertTrue(all(len(row) == len(table[0]) for row in table[1]), each.name)
            self.assertEqual(len(command.plain(table).splitlines()), 1 + len(table[1]), each.name)
            command.write(self.directory / f"{each.name}.csv", table)
            shown.append((each, (picture, table), 0))
        judged = claims.items("netcache", self.directory)
        self.assertEqual(not_run(judged), [])
        page = report.page(paper, shown, judged, {"mode": "short"})
        self.assertEqual(page.count("Figure 11c: <span"), 1)
        self.assertIn("6.5", page)
        self.assertIn("Figure 11c", page)

    def test_runs_that_lose_too_much_are_left_out(self):
        each = experiment.load(["figure-11a"], True)[0]
        name, words = next(each.runs())
        lost = said(words) | {"loss": 0.03}
        (self.directory / f"figure-11a {name}.json").write_text(json.dumps(lost))
        (self.directory / "figure-11a of another grid.json").write_text(json.dumps(lost))
        self.assertEqual(experiment.results(each, self.directory), ([], 1))

    def test_a_figure_does_without_what_was_left_out_or_says_what_it_needs(self):
        each = experiment.load(["figure-10a"], True)[0]
        results = [said(words) for _, words in each.runs()]
        less = [one for one in results if figures.key(one) != (0.9, 0) or one["simulated"]]
        _, table = figures.draw(each, less, experiment.paper(), self.directory)
        self.assertEqual([row[0] for row in table[1]], ["uniform", "Zipf 0.95", "Zipf 0.99"])
        less = [one for one in results if figures.key(one) != (0, 0) or one["simulated"]]
        with self.assertRaisesRegex(figures.Missing, "Zipf 0.0 with 0 items"):
            figures.draw(each, less, experiment.paper(), self.directory)


if __name__ == "__main__":
    unittest.main()
