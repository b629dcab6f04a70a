"""Where the lab's files are, and which revision of the repository this is."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "lab" / "experiments"
RESULTS = ROOT / "lab" / "results"


def revision():
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def shown(path):
    return path.relative_to(ROOT)
