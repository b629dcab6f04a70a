"""Data files of `experiments/netcache/` as runs of `enroute switch`, as root, and of `fabric`."""

import itertools
import json
import tomllib
from dataclasses import dataclass

from lab.library import command, processes, repository

DIRECTORY = repository.EXPERIMENTS / "netcache"

# OrbitCache's rule: a run with a higher loss is not a measurement of throughput.
LOSS_MAX = 0.02
# Defaults of a simulation.
REAL_TIME = ("seconds", "settle")
# Number of repetitions of a rejected run.
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
                continue  # Where nothing is written, keys written are all the same.
            words = [f"--{name}={value}" for name, value in of.items()]
            yield " ".join(words), ["switch", "rack", *words]
            if self.file.get("simulated"):
                words = [f"--{name}={value}" for name, value in of.items() if name not in REAL_TIME]
                yield " ".join(["simulated", *words]), ["fabric", "rack", "--json", *words]


def paper():
    return tomllib.loads((DIRECTORY / "paper.toml").read_text())


def load(names, short):
    """The experiments of these names, or all."""
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
    """Executes the runs without results; a run with too much loss is repeated, then omitted."""
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
    """Results of its finished runs with little loss, and the number of runs with too much."""
    paths = [file_of(experiment, name, raw) for name, _ in experiment.runs()]
    every = [json.loads(path.read_text()) for path in paths if path.exists()]
    kept = [each for each in every if not rejected(each)]
    return kept, len(every) - len(kept)
