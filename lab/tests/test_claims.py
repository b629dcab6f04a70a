import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lab import __main__ as index
from lab.library import claims, command, repository

TABLE = (["scheme", "cache", "fct_us", "of"], [
    ["ours", "1%", "10", "50 %"], ["ours", "9%", "30", ""], ["theirs", "1%", "20", ""],
    ["theirs", "9%", "45", ""], ["paper", "1%", "10.5", ""], ["alone", "5%", "1", ""],
])


def not_run(judged):
    """Claims without a value: their table or cell does not exist."""
    return [(item.name, each.claim.says) for item in judged for each in item.judged
            if each.verdict == claims.NOT_RUN]


class Claims(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)
        command.write(self.directory / "figure-1.csv", TABLE)

    def judged(self, row, column="fct_us", **stated):
        entry = {"says": "time", "row": row, "column": column} | stated
        item = claims.item({"name": "Figure 1", "section": "figure-1", "claims": [entry]}, self.directory)
        return item.judged[0]

    def test_a_value_beyond_the_papers_is_better_in_one_direction_only(self):
        one = {"scheme": "ours", "cache": "1%"}
        for paper, better, expected in (
            (10.9, "", "reproduced"), (11.2, "", "not reproduced"), (11.2, "less", "better"),
            (11.2, "more", "not reproduced"), (9.2, "", "reproduced"), (9.0, "", "not reproduced"),
            (9.0, "less", "not reproduced"), (9.0, "more", "better"),
        ):
            got = self.judged(one, paper=paper, better=better)
            self.assertEqual((got.value, got.verdict), (10, expected), (paper, better))
        self.assertEqual(self.judged(one, paper=10.6, margin=0.5).verdict, "not reproduced")
        self.assertEqual(self.judged(one, least=9, most=11).verdict, "reproduced")
        self.assertEqual(self.judged(one, least=11).verdict, "not reproduced")
        self.assertEqual(self.judged(one, most=9, better="more").verdict, "better")
        self.assertEqual(self.judged(one, paper=8).difference(), "+25.0 %")

    def test_the_papers_value_may_be_in_the_table(self):
        got = self.judged({"scheme": "ours", "cache": "1%"}, paper={"scheme": "paper"})
        self.assertEqual((got.stated(), got.verdict), ("10.5", "reproduced"))
        got = self.judged({"scheme": "ours", "cache": "1%"}, paper={"scheme": "absent"})
        self.assertEqual((got.stated(), got.verdict), ("", "not run"))

    def test_a_row_is_divided_by_the_one_with_the_same_cache(self):
        quotients = {"over": {"scheme": "ours"}, "per": "cache"}
        self.assertEqual(self.judged({"scheme": "theirs"}, take="least", least=1, **quotients).value, 1.5)
        self.assertEqual(self.judged({"scheme": "theirs"}, take="most", least=1, **quotients).value, 2)
        self.assertIsNone(self.judged({"scheme": "alone"}, take="most", least=1, **quotients).value)

    def test_one_cell_is_expected_and_a_missing_one_is_not_run(self):
        with self.assertRaisesRegex(ValueError, "'time': 2 cells"):
            self.judged({"scheme": "ours"}, least=1)
        for row, column in (({"scheme": "none"}, "fct_us"), ({"scheme": "alone"}, "absent"),
                            ({"scheme": "alone"}, "of")):
            self.assertEqual(self.judged(row, column, least=1).verdict, "not run", (row, column))
        self.assertEqual(self.judged({"scheme": "ours", "cache": "1%"}, "of", paper=50).value, 50)
        self.assertEqual(self.judged({"scheme": "alone"}, least=1, tables=["figure-2"]).verdict, "not run")

    def test_an_item_is_as_bad_as_its_worst_claim_and_says_why(self):
        row = {"scheme": "alone"}
        entry = {"name": "Figure 1", "section": "figure-1", "claims": [
            {"says": "good", "row": row, "column": "fct_us", "paper": 1},
            {"says": "by column", "row": row, "columns": ["fct_us", "fct_us"], "most": 0, "cause": "why"},
        ]}
        item = claims.item(entry, self.directory)
        self.assertEqual(len(item.judged), 3)
        self.assertEqual((item.verdict, item.causes()), ("not reproduced", "why"))
        _, rows = claims.summary([item])
        self.assertEqual(rows, [["Figure 1", "not reproduced", "by column: fct_us", "≤ 0", "1"]])

    def test_the_index_has_36_items_and_fails_while_one_is_not_run(self):
        for name in index.PAPERS:
            (self.directory / "one" / name).mkdir(parents=True)
        with (
            mock.patch.object(repository, "RESULTS", self.directory),
            mock.patch.object(repository, "shown", str),
            mock.patch("sys.argv", ["lab", "--draw=one"]),
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            self.assertEqual(index.main(), 1)
        page = (self.directory / "one" / "index.html").read_text()
        self.assertEqual(page.count("<tr><td>"), 36)
        self.assertIn("36 tables and figures: 0 reproduced", page)
        self.assertIn('href="switchv2p/report.html#table-4"', page)
        self.assertEqual(said.getvalue().count("not run"), 36)

    def test_each_item_is_in_the_section_of_an_experiment(self):
        for name in index.PAPERS:
            known = {path.stem for path in (repository.EXPERIMENTS / name).glob("*.toml")}
            if name == "vnf_cache":
                known = {f"{kind}-{number}-mongodb" for kind, numbers in
                         (("table", (1, 2, 3)), ("figure", (4, 5, 6, 7))) for number in numbers}
            sections = {item.section for item in claims.items(name, self.directory)}
            self.assertLessEqual(sections, known - {"paper", "claims"}, name)


if __name__ == "__main__":
    unittest.main()
