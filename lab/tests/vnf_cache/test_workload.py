import unittest

from lab.vnf_cache import workload


class Workload(unittest.TestCase):
    def test_keys_are_uniform_and_the_same_each_time(self):
        keys = workload.uniform(7, 1, 100, 100_000)
        self.assertEqual(keys, workload.uniform(7, 1, 100, 100_000))
        self.assertNotEqual(keys, workload.uniform(7, 2, 100, 100_000))
        self.assertEqual(set(keys), set(range(1, 101)))
        counts = [keys.count(key) for key in range(1, 101)]
        # Five standard deviations of a binomial with mean 1,000.
        self.assertTrue(all(abs(count - 1000) < 160 for count in counts), counts)

    def test_every_key_has_a_phrase(self):
        phrases = workload.phrases(7, 100)
        self.assertEqual(list(phrases), list(range(1, 101)))
        self.assertEqual(len(set(phrases.values())), 100)

    def test_oldest_key_is_forgotten_first(self):
        cache = workload.Replay(2)
        hits = [cache.read(key) for key in (1, 2, 1, 3, 2, 1)]
        self.assertEqual(hits, [False, False, True, False, True, False])

    def test_nothing_is_kept_without_capacity(self):
        cache = workload.Replay(0)
        self.assertFalse(cache.read(1) or cache.read(1))

    def test_displaced_key_misses_in_a_cache_of_one(self):
        pairs = workload.first(100, 100, 10, displaced=True)
        self.assertEqual([key for key, recorded in pairs if recorded], [100] * 10)
        cache = workload.Replay(1)
        self.assertFalse(any([cache.read(key) for key, _ in pairs]))

    def test_key_that_is_kept_misses_once(self):
        cache = workload.Replay(100)
        hits = [cache.read(key) for key, _ in workload.first(1, 100, 10, displaced=False)]
        self.assertEqual(hits, [False] + [True] * 9)


if __name__ == "__main__":
    unittest.main()
