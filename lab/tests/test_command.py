import contextlib
import dataclasses
import io
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from lab.library import claims, command, processes, repository


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
    page=lambda _paper, _shown, _judged, conditions: conditions["commit"],
    table=lambda _: None,
    conditions={},
)


class Command(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def page(self, commit, *names, uncommitted=(), paper=PAPER):
        """The commit of the page after the command executed missing runs of `names` at `commit`."""
        words = ["lab.none", *names]
        with (
            mock.patch.object(repository, "RESULTS", self.directory),
            mock.patch.object(repository, "commit", return_value=commit),
            mock.patch.object(repository, "uncommitted", return_value=list(uncommitted)),
            mock.patch.object(repository, "shown", str),
            mock.patch.object(claims, "items", return_value=[]),
            mock.patch.object(processes, "ENROUTE", Path(__file__)),
            mock.patch("sys.argv", words),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            self.assertEqual(command.main(paper), 0)
        return (self.directory / commit / "paper" / "report.html").read_text()

    def test_results_are_stored_under_the_commit_that_they_are_of(self):
        for commit in ("one", "two", "one"):
            self.assertEqual(self.page(commit, "a"), commit)
        files = [str(path.relative_to(self.directory)) for path in self.directory.rglob("*.json")]
        self.assertEqual(sorted(files), ["one/paper/raw/a.json", "two/paper/raw/a.json"])

    def test_the_remaining_time_is_that_of_what_was_run(self):
        clock = iter([0, 1, 301, 421, 422]).__next__
        said = [progress for _, progress in command.announced("abcd", clock)]
        # The first had its results; then 300 s and 120 s.
        self.assertEqual(said, [
            "[1 of 4]", "[2 of 4]", "[3 of 4, about 10 min left]", "[4 of 4, about 4 min left]",
        ])

    def test_nothing_is_run_of_what_is_not_committed(self):
        with self.assertRaisesRegex(SystemExit, "lab: code not committed"):
            self.page("one", "a", uncommitted=["code"])
        self.assertEqual(list(self.directory.rglob("*.json")), [])
        self.assertEqual(self.page("one", "a", "--draw=one", uncommitted=["code"]), "one")

    def test_a_cluster_runs_what_a_paper_can_hand_out(self):
        asked = []

        def apart(each, raw, address):
            asked.append((each.name, address))
            run(each, raw)

        self.page("one", "a", "--dask=tcp://host:1", paper=dataclasses.replace(PAPER, apart=apart))
        self.assertEqual(asked, [("a", "tcp://host:1")])
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            self.page("one", "b", "--dask=tcp://host:1")
        self.assertIn("unrecognized arguments: --dask", said.getvalue())


if __name__ == "__main__":
    unittest.main()
