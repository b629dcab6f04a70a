import contextlib
import io
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from lab.library import command, processes, repository


def run(each, raw):
    path = raw / f"{each.name}.json"
    if not path.exists():
        path.write_text("{}")


EXPERIMENT = types.SimpleNamespace(
    paper=dict,
    load=lambda names, _: [types.SimpleNamespace(name=name, title="") for name in names],
    run=run,
)
PAPER = command.Paper(
    name="paper",
    experiment=EXPERIMENT,
    drawn=lambda *_: [],
    page=lambda _paper, _shown, conditions: conditions["revision"],
    table=lambda _: None,
    conditions={},
)


class Command(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def page(self, revision, *names, uncommitted=()):
        """The page after the command executed missing runs of `names`, built from `revision`."""
        words = ["lab.none", "--date=today", *names]
        with (
            mock.patch.object(repository, "RESULTS", self.directory),
            mock.patch.object(repository, "revision", return_value=revision),
            mock.patch.object(repository, "uncommitted", return_value=list(uncommitted)),
            mock.patch.object(repository, "shown", str),
            mock.patch.object(processes, "ENROUTE", Path(__file__)),
            mock.patch("sys.argv", words),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            self.assertEqual(command.main(PAPER), 0)
        return (self.directory / "today" / "paper" / "report.html").read_text()

    def test_a_page_names_the_revisions_that_its_results_are_of(self):
        self.assertEqual(self.page("one", "a"), "one")
        self.assertEqual(self.page("two", "a"), "one")
        self.assertEqual(self.page("three", "a", "b"), "one, three")

    def test_nothing_is_run_of_what_is_not_committed(self):
        with self.assertRaisesRegex(SystemExit, "lab: code not committed"):
            self.page("one", "a", uncommitted=["code"])
        self.assertEqual(list(self.directory.rglob("*.json")), [])
        self.assertEqual(self.page("one", "--draw", "a", uncommitted=["code"]), "")


if __name__ == "__main__":
    unittest.main()
