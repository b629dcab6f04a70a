"""Traces: those of the paper's artifact if they are available, otherwise generated from a seed.

The artifact is the authors' repository on GitHub, acsl-technion/SwitchV2P; its traces are in
`switchv2p/datasets`. The environment variable ENROUTE_TRACES names a directory with these files.
"""

import gzip
import itertools
import os
from pathlib import Path

from lab.library import processes, repository

VARIABLE = "ENROUTE_TRACES"
DIRECTORY = Path(
    os.environ.get(VARIABLE) or repository.ROOT.parent / "shared" / "data" / "switchv2p"
)

# Names of the artifact's files, and their protocol, which the files do not state. It has
# `alibaba.csv.gz` as well, for another placement of virtual machines than `rpc` assumes.
ARTIFACT = {
    "hadoop": ("hadoop", "tcp"),
    "hadoop-first20000": ("hadoop", "tcp"),
    "websearch": ("websearch", "tcp"),
    "microbursts": ("microburst", "udp"),
    "video": ("video", "udp"),
    "incast": ("incast", "udp"),
}

# Rows of the traces that are the beginning of a file.
ROWS = {"hadoop-first20000": 20_000}

# Without the file: a generated trace, and the share of it that is generated.
INSTEAD = {"hadoop-first20000": ("hadoop", 0.2)}

MISSING = (
    f"{{name}} needs {{file}} of the authors' traces: clone acsl-technion/SwitchV2P from GitHub, and "
    f"set {VARIABLE} to its directory switchv2p/datasets (now {{directory}}). No conversion is "
    "needed. Figures of the authors' simulator hold for this trace only, not for a generated one"
)


def file(name):
    """The artifact's file with this trace, or None."""
    if name not in ARTIFACT:
        return None
    path = DIRECTORY / f"{ARTIFACT[name][0]}.csv.gz"
    return path if path.exists() else None


def missing(name, needed_by):
    """What to do about a trace without a file."""
    wanted = f"{ARTIFACT[name][0]}.csv.gz"
    return MISSING.format(name=needed_by, file=wanted, directory=DIRECTORY)


def named(name):
    """The name of a trace in a sweep file, and the share of it that is generated."""
    if file(name):
        return f"traces/{name}.csv.gz", 1.0
    return INSTEAD.get(name, (name, 1.0))


def prepare(name, raw):
    """Writes the file that `named` names below `raw`, if there is one: the artifact's rows, after a
    line that states their protocol."""
    source, path = file(name), raw / "traces" / f"{name}.csv.gz"
    if source is None or path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    try:
        with gzip.open(source, "rt") as rows, gzip.open(unfinished, "wt") as prepared:
            prepared.write(f"# protocol={ARTIFACT[name][1]}\n")
            prepared.writelines(itertools.islice(rows, ROWS.get(name)))
    except (OSError, EOFError) as error:
        raise processes.Failed(f"{source}: {error}") from error
    unfinished.rename(path)
