"""Paths of the lab's files, and the commit that results belong to."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "lab" / "experiments"
RESULTS = ROOT / "lab" / "results"
NOT_RESULTS = ":!lab/results"


def commit():
    """The last commit that changed anything but results; `unknown` outside of a Git checkout."""
    try:
        return git("log", "-1", "--format=%h", "--abbrev=8", "--", ".", NOT_RESULTS).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def results(commit, short, paper):
    """Where results of a paper's experiments are stored."""
    return RESULTS / f"{commit}{'-short' if short else ''}" / paper


def uncommitted():
    """Files with uncommitted changes, except results; empty outside of a Git checkout."""
    try:
        said = git("status", "--porcelain", "-z", "--no-renames", "--", ".", NOT_RESULTS)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [entry[3:] for entry in said.split("\0") if entry]


def refuse_uncommitted():
    """Exits with an error if a file that results depend on is not committed."""
    if changed := uncommitted():
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        sys.exit(
            f"lab: {changed[0]}{more} not committed: results are recorded with the commit that "
            "produced them. Commit or stash the changes, or use --draw to draw existing results"
        )


def git(*words):
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def shown(path):
    return path.relative_to(ROOT)
