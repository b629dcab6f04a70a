import unittest

from conformance import comparison, memcached, suites


class Comparison(unittest.TestCase):
    def test_equal_runs_have_no_differences(self):
        run = {"a": "passed", "b": "failed"}
        self.assertEqual(comparison.differences(run, dict(run), {}), [])

    def test_differing_and_absent_results_are_named_with_the_reason_if_allowed(self):
        direct = {"a": "passed", "b": "passed", "c": "skipped"}
        through = {"a": "failed", "c": "skipped", "d": "passed"}
        found = comparison.differences(direct, through, {"a": "slow"})
        self.assertEqual(
            [str(difference) for difference in found],
            [
                "a: direct passed, through the cache failed (allowed: slow)",
                "b: direct passed, through the cache absent",
                "d: direct absent, through the cache passed",
            ],
        )

    def test_a_star_allows_all_names_that_begin_so(self):
        allowed = {"a.t: *": "slow", "a.t: 2": "other"}
        reasons = [comparison.reason(name, allowed) for name in ("a.t: 1", "a.t: 2", "b.t: 1", "a.t:")]
        self.assertEqual(reasons, ["slow", "other", None, None])

    def test_an_allowed_difference_needs_a_reason(self):
        text = "# comment\n\nname with spaces\ta reason\n"
        self.assertEqual(comparison.allowed_differences(text), {"name with spaces": "a reason"})
        for line in ("no reason", "empty\t ", "\tno name"):
            with self.assertRaisesRegex(ValueError, "line 1: expected NAME<TAB>REASON"):
                comparison.allowed_differences(line)

    def test_every_committed_list_of_allowed_differences_can_be_read(self):
        for suite in suites.SUITES:
            suite.allowed()

    def test_counts_are_by_result(self):
        run = {"a": "passed", "b": "failed", "c": "passed"}
        self.assertEqual(comparison.counts(run), "3 tests: 2 passed, 1 failed, 0 skipped")


class Output(unittest.TestCase):
    def test_the_last_result_of_a_python_test_counts_unless_one_failed(self):
        lines = ['["a", "passed"]', '["b", "passed"]', '["b", "failed"]', '["b", "passed"]']
        self.assertEqual(suites.pytest_results(lines), {"a": "passed", "b": "failed"})

    def test_results_of_memcached_own_tests_are_read_from_the_output(self):
        output = (
            "1..5\nok 1 - stored\nnot ok 2 - fetched\n#   Failed test 'fetched'\nok 3\n"
            "ok 4 # skip no extstore\nok 5 - later # TODO some day\n"
        )
        expected = {
            "getset.t: 1 stored": "passed",
            "getset.t: 2 fetched": "failed",
            "getset.t: 3": "passed",
            "getset.t: 4": "skipped",
            "getset.t: 5 later": "skipped",
        }
        self.assertEqual(memcached.tap_results("getset.t", output, 0), expected)
        died = memcached.tap_results("getset.t", "ok 1 - stored\n", 255)
        self.assertEqual(died, {"getset.t: 1 stored": "passed", "getset.t: ended": "failed"})
        skipped = memcached.tap_results("tls.t", "1..0 # SKIP no TLS\n", 0)
        self.assertEqual(skipped, {"tls.t": "skipped"})

    def test_results_of_redis_own_tests_are_read_from_the_output(self):
        output = (
            "[ready]: 4711\n"
            "[\x1b[0;32mok\x1b[0m]: SET and GET (3 ms)\n"
            "[ok]: SET (with options) (0 ms)\n"
            "[err]: GET in tests/unit/type/string.tcl\nExpected '1' to be '2'\n"
            "[ignore]: DEBUG: Tag: needs:debug denied\n"
            "[exception]: Executing test client: ERR.\n"
        )
        self.assertEqual(
            suites.tcl_results("unit/type/string", output),
            {
                "unit/type/string: SET and GET": "passed",
                "unit/type/string: SET (with options)": "passed",
                "unit/type/string: GET": "failed",
                "unit/type/string: DEBUG: Tag: needs:debug denied": "skipped",
                "unit/type/string: exception": "failed",
            },
        )


if __name__ == "__main__":
    unittest.main()
