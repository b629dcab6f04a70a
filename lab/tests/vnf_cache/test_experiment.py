import unittest

from lab.vnf_cache import experiment


class VnfCache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.full = experiment.load(short=False)
        cls.short = experiment.load(short=True)

    def test_full_mode_is_the_papers(self):
        uniform = [run for run in self.full.runs if run.workload == "uniform"]
        self.assertTrue(all((run.batches, run.requests) == (30, 1000) for run in uniform))
        self.assertEqual({run.capacity for run in uniform}, {0, 10, 30, 70, 100})
        self.assertEqual(len({run.name for run in self.full.runs}), len(self.full.runs))

    def test_short_mode_saves_batches_and_no_milliseconds(self):
        for full, short in zip(self.full.runs, self.short.runs, strict=True):
            self.assertEqual((full.name, full.location), (short.name, short.location))
            self.assertEqual(full.requests, short.requests)
            self.assertLessEqual(short.batches, full.batches)

    def test_short_mode_ends_within_fifteen_minutes(self):
        seconds = [self.short.expected_s(run, run.batches) for run in self.short.runs]
        self.assertLess(max(seconds), 330)
        self.assertLess(sum(seconds) / self.short.common["lanes"]["count"], 720)

    def test_each_protocol_is_measured_in_the_same_way(self):
        for paper in (self.full, self.short):
            places = {}
            for run in paper.runs:
                places.setdefault(run.protocol, []).append((run.place, run.location, run.requests))
            self.assertEqual(list(places), ["mongodb", "redis", "memcached", "dynamodb"])
            for of_protocol in places.values():
                self.assertEqual(of_protocol, places["mongodb"])

    def test_round_trips_explain_the_papers_means(self):
        # Table 3's misses, from its means and its hits: see scenario-c.toml.
        for location, hit_ms in (("Ohio", 20.6), ("Tokyo", 21.2)):
            table = self.full.paper["table-3"]
            run = self.full.run(f"mongodb-c-{location.lower()}-uniform-10")
            for capacity, mean in zip(table["capacities"], table[location], strict=True):
                if 0 < capacity < 100:
                    share = capacity / 100
                    miss_ms = (mean - share * hit_ms) / (1 - share)
                    crossed = miss_ms - hit_ms
                    self.assertAlmostEqual(crossed, run.location.cache_origin_rtt_ms, delta=2.5)

    def test_ideal_is_paths_alone(self):
        run = self.full.run("mongodb-c-ohio-uniform-100")
        ideal = self.full.ideal_ms(run, 30)
        self.assertEqual(ideal.count(140), 100)
        self.assertEqual(ideal.count(14), 29_900)
        direct = self.full.ideal_ms(self.full.run("mongodb-b-tokyo-uniform-0"), 1)
        self.assertEqual(set(direct), {292})

    def test_ideal_hit_ratio_is_the_share_of_keys_that_fit(self):
        run = self.full.run("mongodb-b-ohio-uniform-30")
        ideal = self.full.ideal_ms(run, 30)
        self.assertAlmostEqual(ideal.count(0) / len(ideal), 0.3, delta=0.01)


if __name__ == "__main__":
    unittest.main()
