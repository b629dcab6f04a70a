import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lab.library import repository


class Repository(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        patch = mock.patch.object(repository, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)

    def commit(self):
        (self.root / "code").write_text("a")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
            self.git(*words)

    def git(self, *words):
        named = ["-c", "user.name=lab", "-c", "user.email=lab@localhost"]
        subprocess.run(["git", "-C", str(self.root), *named, *words], check=True)

    def test_changed_and_new_files_are_refused_by_name(self):
        self.commit()
        repository.refuse_uncommitted()
        (self.root / "new").write_text("b")
        with self.assertRaisesRegex(SystemExit, "lab: new not committed"):
            repository.refuse_uncommitted()
        (self.root / "code").write_text("b")
        with self.assertRaisesRegex(SystemExit, "lab: code and 1 more not committed"):
            repository.refuse_uncommitted()

    def test_results_are_not_what_results_depend_on(self):
        self.commit()
        results = self.root / "lab" / "results" / "today"
        results.mkdir(parents=True)
        (results / "table.csv").write_text("b")
        self.assertEqual(repository.uncommitted(), [])
        before = repository.commit()
        self.git("add", ".")
        self.git("commit", "-qm", "results")
        self.assertEqual(repository.commit(), before)
        (self.root / "code").write_text("b")
        self.git("commit", "-qam", "two")
        self.assertNotEqual(repository.commit(), before)

    def test_a_copy_without_history_is_not_refused(self):
        repository.refuse_uncommitted()
        self.assertEqual(repository.commit(), "unknown")


if __name__ == "__main__":
    unittest.main()
