import ast
import unittest

from lab.library.repository import EXPERIMENTS, ROOT

PAPERS = {"vnf_cache", "netcache", "switchv2p", "annabelladb", "dredbox"}


def imported(package):
    """The folders of the lab that a folder imports."""
    for path in (ROOT / "lab" / package).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lab"):
                yield node.module.partition(".")[2].partition(".")[0]


class Names(unittest.TestCase):
    def test_the_library_imports_no_paper_and_no_paper_another(self):
        self.assertEqual(set(imported("library")), {"library"})
        for paper in PAPERS:
            self.assertLessEqual(set(imported(paper)), {paper, "library"})

    def test_experiments_and_targets_are_named_as_the_papers_folders(self):
        folders = {path.parent.name for path in (ROOT / "lab").glob("*/__main__.py")}
        self.assertEqual(folders, PAPERS)
        self.assertEqual({path.name for path in EXPERIMENTS.iterdir()}, PAPERS)
        makefile = (ROOT / "Makefile").read_text()
        for paper in PAPERS:
            self.assertIn(f"\nlab-{paper}: ", makefile)
            self.assertIn(f"\nlab-{paper}-short: ", makefile)


if __name__ == "__main__":
    unittest.main()
