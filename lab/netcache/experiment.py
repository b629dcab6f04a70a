"""Runs the data files in `experiments/netcache/` with `enroute switch`, which needs root, and with
`enroute fabric`."""

import itertools
import json
import tomllib
from dataclasses import dataclass

from lab.library import command, processes, repository

DIRECTORY = repository.EXPERIMENTS / "netcache"

# A run with a higher loss does not measure throughput (the rule of OrbitCache).
LOSS_MAX = 0.02
# Options without meaning in a simulation.
REAL_TIME = ("seconds", "settle")
# Maximum number of attempts of a run that is rejected.
ATTEMPTS = 3


@dataclass(frozen=True)
class Experiment:
    """One figure: its runs and the kind of plot."""

    name: str
    title: str
    kind: str
    file: dict

    def runs(self):
        """A name and a command for each run."""
        if self.kind == "packets":
            rounds = str(self.file["rounds"])
            yield "packets", ["switch", "measure", "packets", "--rounds", rounds]
            return
        grid = self.file["rack"]
        for values in itertools.product(*grid.values()):
            of = dict(zip(grid, values, strict=True))
            if of.get("write-skew") and not of["writes"]:
                continue  # Without writes, their skew makes no difference.
            words = [f"--{name}={value}" for name, value in of.items()]
            yield " ".join(words), ["switch", "rack", *words]
            if self.file.get("simulated"):
                words = [f"--{name}={value}" for name, value in of.items() if name not in REAL_TIME]
                yield " ".join(["simulated", *words]), ["fabric", "rack", "--json", *words]


def paper():
    return tomllib.loads((DIRECTORY / "paper.toml").read_text())


def load(names, short):
    """The experiments with these names; all if there are none."""
    known = {path.stem: path for path in sorted(DIRECTORY.glob("figure-*.toml"), key=order)}
    return [one(path, short) for path in command.chosen(names, known)]


def order(path):
    number = path.stem.removeprefix("figure-")
    return int("".join(each for each in number if each.isdigit())), number


def one(path, short):
    file = tomllib.loads(path.read_text())
    shorter = file.pop("short", {})
    if short and "rack" in file:
        file["rack"] |= shorter
    elif short:
        file |= shorter
    return Experiment(path.stem, file["title"], file["kind"], file)


def run(experiment, raw):
    """Executes the runs that have no results yet. A run with too much loss is repeated; if all
    attempts lose too much, it is omitted."""
    for name, words in experiment.runs():
        path = file_of(experiment, name, raw)
        if path.exists():
            continue
        print(f"  {name}", flush=True)
        for _ in range(ATTEMPTS):
            result = json.loads(processes.output(processes.ENROUTE, *words))
            if not rejected(result):
                break
            print(f"    lost {result['loss']:.1%}", flush=True)
        if words[1] == "rack":
            result["simulated"] = words[0] == "fabric"
        path.write_text(json.dumps(result) + "\n")


def file_of(experiment, name, raw):
    return raw / f"{experiment.name} {name}.json"


def rejected(result):
    return isinstance(result, dict) and result["loss"] > LOSS_MAX


def results(experiment, raw):
    """Results of the finished runs without the rejected ones, and the number of rejected runs."""
    paths = [file_of(experiment, name, raw) for name, _ in experiment.runs()]
    every = [json.loads(path.read_text()) for path in paths if path.exists()]
    kept = [each for each in every if not rejected(each)]
    return kept, len(every) - len(kept)
