"""Runs the data files in `experiments/dredbox/` with `enroute-bench` and `redis-benchmark`."""

import functools
import itertools
import json
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lab.dredbox import load as loads
from lab.library import command, processes, repository

DIRECTORY = repository.EXPERIMENTS / "dredbox"


@dataclass(frozen=True)
class Experiment:
    """Tables or figures: their runs, the number of repetitions, and the kind of plot."""

    name: str
    title: str
    kind: str
    repetitions: int
    # All other keys of the data file: the parameters of a run.
    options: dict
    short: bool

    def runs(self):
        """For each run: its case, its name, and a function that measures it in a directory.

        Experiments that are drawn from the same runs use the same names.
        """
        for number in range(1, self.repetitions + 1):
            for case, name, measure in self.cases():
                yield case, f"{name} {number}", measure

    def cases(self):
        options = self.options
        if "bench" in options:
            subject, only = options["bench"], options["only"]
            name = " ".join([subject, *only])
            yield subject, name, functools.partial(bench, subject, only, self.short)
        elif self.kind == "redis":
            for fill, server in itertools.product(options["fills"], loads.SERVERS):
                measure = functools.partial(loads.filled, server, options["memory_mib"], fill,
                                            options["requests"])
                yield (fill, server), f"{self.name} {fill} {server}", measure
        else:
            yield None, self.name, functools.partial(loads.rescaled, **options)


def paper():
    return tomllib.loads((DIRECTORY / "paper.toml").read_text())


def load(names, short):
    """The experiments with these names; all if there are none."""
    paths = [DIRECTORY / f"{name}.toml" for name in paper()["stated"]]
    known = {path.stem: path for path in paths}
    return [one(path, short) for path in command.chosen(names, known)]


def one(path, short):
    file = tomllib.loads(path.read_text())
    shorter = file.pop("short")
    options = file | shorter if short else file
    own = {name: options.pop(name) for name in ("title", "kind", "repetitions")}
    return Experiment(path.stem, **own, options=options, short=short)


def run(experiment, raw):
    """Executes the runs that have no results yet."""
    for _, name, measure in experiment.runs():
        path = raw / f"{name}.json"
        if path.exists():
            continue
        print(f"  {name}", flush=True)
        # On the same disk as the results: the system's temporary directory may be in memory.
        with tempfile.TemporaryDirectory(prefix="run-", dir=raw) as directory:
            try:
                result = measure(Path(directory))
            except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
                raise processes.Failed(f"{name}: {error}") from error
        part = path.with_suffix(".part")
        part.write_text(json.dumps(result) + "\n")
        part.replace(path)


def results(experiment, raw):
    """Results of the finished runs, by case."""
    found = {}
    for case, name, _ in experiment.runs():
        path = raw / f"{name}.json"
        if path.exists():
            found.setdefault(case, []).append(json.loads(path.read_text()))
    return found


def bench(subject, only, short, directory):
    """The raw values of one round of `enroute-bench`, by measurement."""
    options = [f"--only={name}" for name in only] + (["--short"] if short else [])
    processes.bench(subject, "--rounds=1", f"--output={directory}", *options)
    kept = directory.glob("raw/*/*.json")
    return {path.stem: json.loads(path.read_text()) for path in kept}
