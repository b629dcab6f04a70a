import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

from lab.dredbox import experiment, figures, load, report
from lab.library import claims, command, processes
from lab.tests.test_claims import not_run


def figure(name, value, peer="openssl speed"):
    return {"name": name, "value": value, "unit": "x", "peer": peer, "peer_value": 2.0}


def benched(each, number):
    """Plausible output of one round of `enroute-bench`."""
    paper = experiment.paper()
    rows = [{
        "gigabytes": gigabytes, "lookups_per_second": 1000.0 * number, "max_ms": 0.1,
        "min_ms": 0.001, "average_ms": 0.01, "read": 25_000, "p95_ms": [0.002 * number] * 50,
        "wire": {"lookups_per_second": 500.0, "max_ms": 1.0, "min_ms": 0.1, "resident_mib": 90.0},
    } for gigabytes in paper["table-5"]["gigabytes"]]
    kpis = [figure(of["name"], 100.0 * number) for of in paper["key-server"] + paper["database"]]
    return {"table-5": rows, each.options["bench"]: kpis}


def said(each, number):
    """Plausible output of a run of an experiment."""
    if "bench" in each.options:
        return benched(each, number)
    if each.kind == "redis":
        return {"entries": 100, "requests_per_s": 50.0 * number, "p50_ms": 0.1, "p95_ms": 0.2,
                "p99_ms": 0.3, "max_ms": 1.5, "found": 0.75}
    samples = [
        {"at_s": at / 4, "lookups_per_s": 10.0 * memory, "from_memory": 0.5,
         "budget_mib": memory, "resident_mib": memory - 1}
        for at, memory in enumerate(
            memory for memory in each.options["memory_mib"]
            for _ in range(4 * each.options["stage_s"]))
    ]
    return {"samples": samples}


class DReDBox(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)
        self.paper = experiment.paper()

    def measured(self, each):
        for _, name, _ in each.runs():
            number = int(name.rpartition(" ")[2])
            (self.directory / f"{name}.json").write_text(json.dumps(said(each, number)))
        return experiment.results(each, self.directory)

    def one(self, name, short=False):
        return experiment.load([name], short)[0]

    def table(self, name, short=False):
        each = self.one(name, short)
        return figures.draw(each, self.measured(each), self.paper, self.directory)[1]

    def test_every_data_file_is_drawn_from_its_own_runs(self):
        files = {path.stem for path in experiment.DIRECTORY.glob("*.toml")} - {"paper", "claims"}
        for short in (True, False):
            every, shown = experiment.load([], short), []
            self.assertEqual({each.name for each in every}, files)
            for each in every:
                results = self.measured(each)
                runs = sum(len(of) for of in results.values())
                self.assertEqual(runs, len(list(each.runs())), each.name)
                picture, table = figures.draw(each, results, self.paper, self.directory)
                if picture:
                    ElementTree.fromstring(picture)
                self.assertTrue(all(len(row) == len(table[0]) for row in table[1]), each.name)
                command.write(self.directory / f"{each.name}.csv", table)
                shown.append((each, (picture, table)))
            judged = claims.items("dredbox", self.directory)
            self.assertEqual(not_run(judged), [])
            page = report.page(self.paper, shown, judged, {"mode": "short"})
            self.assertIn("669886", page)
            self.assertIn("Tables 1 to 3", page)

    def test_table_5_has_the_papers_row_beside_the_median_and_the_spread_of_ours(self):
        _, rows = self.table("table-5")
        at = next(place for place, row in enumerate(rows) if row[:2] == ["lookups/s", "paper"])
        self.assertEqual(rows[at][2:4], ["360478", "439428"])
        self.assertEqual(rows[at + 1][1:3], ["enroute", "3000"])
        self.assertEqual(rows[at + 2][1:3], ["5 runs", "1000–5000"])

    def test_figures_6_to_8_are_drawn_from_the_runs_of_table_5(self):
        names = [[name for _, name, _ in self.one(each).runs()]
                 for each in ("table-5", "figures-6-8")]
        self.assertEqual(*names)
        _, rows = self.table("figures-6-8")
        self.assertEqual(rows[1][1:6], ["0.1", "50%", "6.00", "2.00–10.00", 5])

    def test_a_stage_of_rescaling_counts_its_second_half(self):
        each = self.one("scale-up")
        samples = said(each, 1)["samples"]
        for sample in samples:
            if sample["at_s"] % each.options["stage_s"] < each.options["stage_s"] / 2:
                sample["lookups_per_s"] = 0.0
        row = figures.stage_row(1, 128, each.options["stage_s"], [{"samples": samples}])
        self.assertEqual(row, ["30", 128, "1280", "1280–1280", 1, "50.0%", "127"])

    def test_a_kpi_says_whether_the_papers_limit_is_met(self):
        _, rows = self.table("key-server")
        met = {row[0].partition(":")[0]: row[1:4] for row in rows}
        self.assertEqual(met["3.2.1.2"], ["≥ 30000", "no", "300"])
        self.assertEqual(rows[3][1:3] + [rows[3][-1]], ["", "", "openssl speed: 2"])

    def test_a_run_that_is_there_is_not_repeated_and_a_failed_one_keeps_the_others(self):
        each = self.one("tables-1-3", short=True)
        done = []

        def measure(server, _memory, fill, _requests, _directory):
            if len(done) == 2:
                raise RuntimeError("no room")
            done.append((fill, server))
            return {"requests_per_s": 1.0}

        with mock.patch.object(load, "filled", measure), mock.patch("builtins.print"):
            with self.assertRaisesRegex(processes.Failed, "no room"):
                experiment.run(each, self.directory)
            self.assertEqual(len(experiment.results(each, self.directory)), 2)
            first = list(done)
            done.clear()
            with self.assertRaises(processes.Failed):
                experiment.run(each, self.directory)
        self.assertEqual(len(set(first + done)), 4)
        self.assertEqual(list(self.directory.glob("run-*")), [])

    def test_a_bench_that_fails_ends_with_what_it_said(self):
        with mock.patch.object(processes, "BENCH", Path(sys.executable)):
            with self.assertRaisesRegex(processes.Failed, "rounds"):
                experiment.bench("--no-such-option", ["table-5"], True, self.directory)

    def test_an_unknown_name_lists_the_known(self):
        with self.assertRaisesRegex(SystemExit, "tables-1-3, table-5, .*database"):
            experiment.load(["figure-99"], True)


if __name__ == "__main__":
    unittest.main()
