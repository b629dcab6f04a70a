"""Runs the data files in `experiments/annabelladb/` with `enroute-bench functions`; needs root."""

import gzip
import itertools
import json
import tomllib
from dataclasses import dataclass

import numpy as np

from lab.library import command, processes, repository

DIRECTORY = repository.EXPERIMENTS / "annabelladb"

# The paper's baseline, its own system, and that system with copies of what several hosts read,
# which the paper does not have.
HASH, ALONE, FOLLOWING = "hash", "alone", "following"
PLACEMENTS = (HASH, ALONE, FOLLOWING)


@dataclass(frozen=True)
class Experiment:
    """One figure or table: the times at which functions start or move, and the kind of plot.

    Each round-trip time in `rtt_us` is run with each placement. With `moves`, one function moves to
    the next of `hosts` every `apart_s`; otherwise one more function starts there.
    """

    name: str
    title: str
    kind: str
    rtt_us: list
    rate: float
    apart_s: float
    hosts: list
    moves: bool = False

    @property
    def seconds(self):
        return len(self.hosts) * self.apart_s

    @property
    def starts(self):
        """Times at which a function starts or moves, in seconds."""
        return [place * self.apart_s for place in range(len(self.hosts))]

    def runs(self):
        """A name and a command for each run."""
        stays = [f"{at:g}:{host}" for at, host in zip(self.starts, self.hosts, strict=True)]
        functions = [",".join(stays)] if self.moves else stays
        common = [f"--function={each}" for each in functions]
        common += [f"--rate={self.rate:g}", f"--seconds={self.seconds:g}"]
        for rtt, placement in itertools.product(self.rtt_us, PLACEMENTS):
            yield f"{rtt} {placement}", [f"--rtt={rtt}us", f"--placement={placement}", *common]


@dataclass(frozen=True)
class Run:
    """All accesses of a run, ordered by completion."""

    rtt_us: int
    placement: str
    # Completion time in seconds, and latency in milliseconds.
    ended_s: np.ndarray
    took_ms: np.ndarray
    moves: int


def paper():
    return tomllib.loads((DIRECTORY / "paper.toml").read_text())


def load(names, short):
    """The experiments with these names; all if there are none."""
    known = {path.stem: path for path in sorted(DIRECTORY.glob("*-?.toml"))}
    return [one(path, short) for path in command.chosen(names, known)]


def one(path, short):
    file = tomllib.loads(path.read_text())
    shorter = file.pop("short")
    return Experiment(path.stem, **(file | shorter if short else file))


def run(experiment, raw):
    """Executes the runs that have no results yet."""
    for name, words in experiment.runs():
        path = raw / f"{experiment.name} {name}.json.gz"
        if path.exists():
            continue
        print(f"  {name}, {experiment.seconds:g} s", flush=True)
        said = processes.bench("functions", *words)
        part = path.with_suffix(".part")
        part.write_bytes(gzip.compress(said, 6))
        part.replace(path)


def results(experiment, raw):
    """Its finished runs, by round-trip time and placement."""
    runs = {}
    for rtt, placement in itertools.product(experiment.rtt_us, PLACEMENTS):
        path = raw / f"{experiment.name} {rtt} {placement}.json.gz"
        if path.exists():
            runs[rtt, placement] = read(rtt, placement, json.loads(gzip.decompress(path.read_bytes())))
    return runs


def read(rtt, placement, said):
    at = np.concatenate([each["at_us"] for each in said["accesses"]])
    took = np.concatenate([each["took_us"] for each in said["accesses"]])
    ended = (at + took) / 1e6
    order = np.argsort(ended)
    moved = [line for line in said["status"].splitlines() if line.startswith("moves: ")]
    moves = int(moved[0].removeprefix("moves: ").split(",")[0]) if moved else 0
    return Run(rtt, placement, ended[order], took[order] / 1e3, moves)
