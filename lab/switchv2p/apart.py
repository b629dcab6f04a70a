"""Hands the runs of an experiment to a Dask cluster: on a worker each is a sweep of one run.

Finished runs are appended to `results.jsonl` as they arrive, as `enroute fabric sweep` does; at the
end the whole sweep, which then has no run left, puts them into their order.
"""

import contextlib
import fcntl
import itertools
import os

from lab.library import cluster, processes
from lab.switchv2p import experiment

# Keys of a sweep file of which every combination is a run, in the order of the grid.
LISTS = (
    "topologies", "traces", "seeds", "schemes", "caches", "models", "quirks", "controller_interval_us",
)

FILE = "run.toml"
OUTPUT = "runs"
RESULTS = "results.jsonl"
COSTS = "costs.jsonl"


def run(wanted, raw, address):
    """Executes the runs that have no results yet on the workers of the scheduler at `address`."""
    for sweep in [] if wanted.lacks() else wanted.sweeps:
        experiment.prepare(sweep, raw)
        done = experiment.results(raw)
        todo = [
            one for one in single(sweep)
            if not any(experiment.matches(one, record) for record in done)
        ]
        if todo:
            hand_out(todo, raw, experiment.output(sweep, raw), address)
    experiment.run(wanted, raw)


def hand_out(todo, raw, output, address):
    """Runs sweeps of one run each; stores their results in the directory `output`."""
    with journal(output) as (results, costs):
        for count, files in enumerate(cluster.run(address, [task(one, raw) for one in todo]), 1):
            for file, name in ((results, RESULTS), (costs, COSTS)):
                file.write(files[f"{OUTPUT}/{name}"])
                file.flush()
                os.fsync(file.fileno())
            print(f"{count} of {len(todo)} runs by the workers of {address}", flush=True)


def single(sweep):
    """A sweep of one run for each run of a sweep: one for all sizes if a scheme has no caches."""
    sweep = sweep | {"share": experiment.share(sweep)}
    keys = [key for key in LISTS if key in sweep]
    found = []
    for values in itertools.product(*(sweep[key] for key in keys)):
        one = sweep | {key: [value] for key, value in zip(keys, values, strict=True)}
        if one["schemes"][0] in experiment.CACHELESS and "caches" in sweep:
            one["caches"] = sweep["caches"][:1]
        if one["schemes"] != ["controller"]:
            one.pop("controller_interval_us", None)
        if one not in found:
            found.append(one)
    return found


def task(one, raw):
    """What a worker needs for one run: the sweep file, and the files that it names."""
    text = experiment.document(one, raw)
    names = [name for name in [*text["traces"], *text["topologies"]] if (raw / name).is_file()]
    files = {name: (raw / name).read_bytes() for name in names}
    files[FILE] = experiment.toml(text).encode()
    words = ("fabric", "sweep", FILE, "--output", OUTPUT, "--jobs", "1")
    return cluster.Task(words, files, (f"{OUTPUT}/{RESULTS}", f"{OUTPUT}/{COSTS}"))


@contextlib.contextmanager
def journal(output):
    """The files that results and costs are appended to, locked as by `enroute fabric sweep`."""
    output.mkdir(parents=True, exist_ok=True)
    with (output / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise processes.Failed(f"another sweep writes to {output}; wait for it") from error
        with (output / RESULTS).open("ab+") as results, (output / COSTS).open("ab") as costs:
            results.seek(0)
            # Without an incomplete last line, of a run that was being written when it was stopped.
            results.truncate(results.read().rfind(b"\n") + 1)
            yield results, costs
