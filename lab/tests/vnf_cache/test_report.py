import re
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from lab.library import claims, command
from lab.tests.test_claims import not_run
from lab.vnf_cache import experiment, figures, report, tables
from lab.tests.vnf_cache import synthetic


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.paper = experiment.load(short=True)
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.directory = Path(temporary.name)
        synthetic.measure(cls.paper, cls.directory)
        cls.every = tables.read_all(cls.paper, cls.directory)
        cls.measured = cls.every["mongodb"]

    def test_means_lie_above_the_ideal_by_the_cost(self):
        header, rows = tables.table_2(self.paper, self.measured)
        cells = {tuple(row[:3]): row[3:] for row in rows}
        self.assertEqual(header[3:], ["none", "10", "30", "70", "100"])
        self.assertEqual(cells["Ohio", "paper", "mean_ms"][1], "174.48")
        ours = [float(cell) for cell in cells["Tokyo", "enroute", "mean_ms"]]
        ideal = [float(cell) for cell in cells["Tokyo", "ideal", "mean_ms"]]
        self.assertEqual(ideal[0], 292)
        for mean, least in zip(ours, ideal, strict=True):
            self.assertTrue(0.25 < mean - least < 1.3, (mean, least))

    def test_direct_path_of_scenario_c_is_scenario_bs(self):
        _, two = tables.table_2(self.paper, self.measured)
        _, three = tables.table_3(self.paper, self.measured)
        self.assertEqual(two[1][3], three[1][3])

    def test_overhead_is_the_difference(self):
        _, rows = tables.table_1(self.paper, self.measured)
        _, without, with_cache, overhead = (None, *rows[3:])
        self.assertEqual([row[0] for row in rows], ["paper"] * 3 + ["enroute"] * 3)
        self.assertAlmostEqual(float(with_cache[3]) - float(without[3]), float(overhead[3]), 1)
        self.assertEqual(rows[2][2], "9.42")

    def test_page_holds_every_table_and_figure_and_nothing_from_elsewhere(self):
        parts = {}
        for protocol, runs in self.every.items():
            drawn = figures.draw_all(self.paper, runs, self.directory, protocol)
            self.assertEqual(list(drawn), ["figure-4", "figure-5", "figure-6", "figure-7"])
            for svg in drawn.values():
                ElementTree.fromstring(svg)
            parts[protocol] = (tables.numbered(self.paper, runs), drawn)
        for name, table in parts["mongodb"][0].items():
            command.write(self.directory / f"{name}-mongodb.csv", table)
        figures_4_to_7 = tables.of_figures(self.paper, self.measured)
        command.write(self.directory / "figures-mongodb.csv", figures_4_to_7)
        judged = claims.items("vnf_cache", self.directory)
        self.assertEqual(not_run(judged), [])
        page = report.page(self.paper, self.every, self.common(), parts, judged, {"mode": "synthetic"})
        self.assertEqual(page.count("<svg"), 16)
        # Twelve tables of four protocols, two common ones, and seven of claims.
        self.assertEqual(page.count("<table"), 21)
        for protocol in ("MongoDB", "Redis", "memcached", "DynamoDB"):
            self.assertEqual(page.count(f", {protocol}</h2>"), 7, protocol)
        self.assertNotIn("Not measured yet", page)
        self.assertNotRegex(page, r'(src|href)="(?!#)')
        identities = re.findall(r'\bid="([^"]+)"', page)
        self.assertEqual(len(identities), len(set(identities)))

    def common(self, every=None):
        every = self.every if every is None else every
        return {
            "carried-over": tables.carried_over(self.paper, every),
            "summary": tables.summary(every),
        }

    def test_ratios_to_the_ideal_say_whether_it_carries_over(self):
        header, rows = tables.carried_over(self.paper, self.every)
        self.assertEqual(header[4:9], ["none", "10", "30", "70", "100"])
        self.assertEqual(len(rows), 32)
        for row in rows:
            for ratio in row[4:8]:
                self.assertTrue(1 < float(ratio) < 1.03, row)
            self.assertLess(float(row[9]), synthetic.MISS_COST_MS + 0.1)
        said = report.answer((header, rows))
        self.assertEqual(said.count("carries over. With"), 4)
        # One mean that is far from the ideal is enough.
        slow = [[*row[:5], "1.060", *row[6:]] if row[2] == "redis" else row for row in rows]
        said = report.answer((header, slow))
        self.assertIn("Redis: does not carry over everywhere", said)
        self.assertEqual(said.count("carries over. With"), 3)

    def test_page_can_be_drawn_before_everything_is_measured(self):
        drawn = figures.draw_all(self.paper, {}, self.directory, "mongodb")
        self.assertEqual(drawn, {})
        parts = {"mongodb": (tables.numbered(self.paper, {}), drawn)}
        page = report.page(self.paper, {"mongodb": {}}, self.common({"mongodb": {}}), parts, [], {})
        self.assertIn("Not measured yet", page)

    def test_density_has_area_one(self):
        values = np.random.default_rng(7).normal(14, 0.3, 5000)
        grid, density = figures.curve(values)
        self.assertAlmostEqual(float(np.trapezoid(density, grid)), 1, delta=0.02)

    def test_papers_misses_follow_from_its_means(self):
        _, means = figures.stated(self.paper, "figure-6", "miss")
        self.assertEqual({capacity: round(mean) for capacity, mean in means.items()},
                         {10: 147, 30: 147, 70: 145})

    def test_request_rate_counts_whole_seconds(self):
        self.assertEqual(list(figures.rates([0, 0.5, 0.99, 1.0, 2.5, 60], 3)), [3, 1, 1])


if __name__ == "__main__":
    unittest.main()
