"""Runs the data files in `experiments/switchv2p/` with `enroute fabric sweep`."""

import json
import math
import os
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lab.library import command, processes, repository
from lab.switchv2p import traces

DIRECTORY = repository.EXPERIMENTS / "switchv2p"

# Prefix of the directories with results; the share of the traces follows.
RUNS = "runs-"

# Schemes without caches in switches: their results have no cache size.
CACHELESS = ("nocache", "direct", "ondemand")


@dataclass(frozen=True)
class Experiment:
    """One figure or table: its sweeps, of which most have one, and the kind of plot."""

    name: str
    title: str
    kind: str
    sweeps: list

    def records(self, every):
        """The records that belong to its sweeps, in the order of `every`."""
        if self.lacks():
            return []
        return [each for each in every if any(matches(sweep, each) for sweep in self.sweeps)]

    def lacks(self):
        """Why it cannot be run: a comparison with the authors' output needs their trace."""
        needed = [name for sweep in self.sweeps for name in sweep["traces"]]
        if self.kind != "reference":
            return None
        return next((traces.missing(name, self.name) for name in needed if not traces.file(name)), None)

    def runs(self):
        """Number of results of the complete sweeps."""
        return sum(map(runs_of, self.sweeps))


def runs_of(sweep):
    """Number of results of a complete sweep: a scheme without caches runs once."""
    def count(key):
        return len(sweep.get(key, [None]))

    of_scheme = [
        1 if scheme in CACHELESS
        else count("caches") * (count("controller_interval_us") if scheme == "controller" else 1)
        for scheme in sweep["schemes"]
    ]
    return sum(of_scheme) * math.prod(
        count(key) for key in ("traces", "topologies", "models", "quirks"))


def paper():
    return read(DIRECTORY / "paper.toml")


def load(names, short):
    """The experiments with these names; all if there are none."""
    paths = sorted(DIRECTORY.glob("*.toml"), key=lambda path: order(path.stem))
    known = {path.stem: path for path in paths if path.stem not in ("paper", "claims")}
    loaded = [one(path, short) for path in command.chosen(names, known)]
    if names and (lacks := next((each.lacks() for each in loaded if each.lacks()), None)):
        raise SystemExit(f"lab: {lacks}")
    return loaded


def order(name):
    """Figures by number, then tables, then the rest."""
    kind, _, number = name.partition("-")
    digits = "".join(each for each in number if each.isdigit())
    return ({"figure": 0, "table": 1}.get(kind, 2), int(digits or 0), name)


def one(path, short):
    file = read(path)
    sweeps = file["sweep"] if isinstance(file["sweep"], list) else [file["sweep"]]
    for sweep in sweeps:
        shorter = sweep.pop("short", file.get("short", {}))
        sweep.update(shorter if short else {})
    return Experiment(path.stem, file["title"], file["kind"], sweeps)


def run(experiment, raw):
    """Executes the runs that have no results yet."""
    if lacks := experiment.lacks():
        print(f"{experiment.name}: skipped: {lacks}", flush=True)
        return
    for sweep in experiment.sweeps:
        prepare(sweep, raw)
        file = raw / f"{experiment.name}.toml"
        file.write_text(toml(document(sweep, raw)))
        words = [processes.ENROUTE, "fabric", "sweep", file, "--output", output(sweep, raw)]
        status = subprocess.run(words, check=False).returncode
        if status:
            raise processes.Failed(f"{experiment.name}: enroute fabric sweep ended with status {status}")


def prepare(sweep, raw):
    """Writes the files of its traces."""
    for name in sweep["traces"]:
        traces.prepare(name, raw)


def document(sweep, raw):
    """The content of a sweep's file, with names of files relative to `raw`."""
    return sweep | {
        "traces": [traces.named(name)[0] for name in sweep["traces"]],
        "share": share(sweep),
        "topologies": [place(name, raw) for name in sweep.get("topologies", ["ft8-10k"])],
    }


def output(sweep, raw):
    """Directory of its results. Results with the same share of a generated trace are in one
    directory, so that no run is repeated and different shares are not confused."""
    return raw / f"{RUNS}{share(sweep)}"


def results(raw):
    """All results, each with its share of a generated trace; without a line that is incomplete."""
    return [
        json.loads(line) | {"share": float(path.parent.name.removeprefix(RUNS))}
        for path in sorted(raw.glob(f"{RUNS}*/results.jsonl"))
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]


def share(sweep):
    """The share of its traces that a sweep generates."""
    return float(sweep.get("share", min(traces.named(name)[1] for name in sweep["traces"])))


def place(name, raw):
    """Path of a file relative to the sweep file; a built-in name is returned unchanged."""
    path = DIRECTORY / name
    return os.path.relpath(path, raw) if path.suffix == ".toml" else str(name)


def matches(sweep, record):
    """Whether this record is a run of the sweep."""
    names = [Path(traces.named(name)[0]).name for name in sweep["traces"]]
    topologies = [Path(name).stem for name in sweep.get("topologies", ["ft8-10k"])]
    quirks = sweep.get("quirks", [{}])
    intervals = [0.0, *sweep.get("controller_interval_us", [150.0])]
    return (
        record["share"] == share(sweep)
        and Path(record["trace"]).name in names
        and record["scheme"] in sweep["schemes"]
        and Path(record["topology"]).stem in topologies
        and record["model"] in sweep["models"]
        and record["cache"] in ["0", *sweep.get("caches", ["50%"])]
        and record["quirks"] in quirks
        and record["migrations"] == sweep.get("migrations", [])
        and record["controller_interval_us"] in intervals
        and record["seed"] in sweep.get("seeds", [1])
    )


def toml(values):
    """Lists, strings and numbers as TOML; a table inside a list is an inline table."""
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in values.items())


def toml_value(value):
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {toml_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)


def read(path):
    with path.open("rb") as file:
        return tomllib.load(file)
