"""Packet-level simulator of data-center fabrics whose switches cache addresses (SwitchV2P).

The same simulator as `enroute fabric`: the same options and seed give the same results, byte for
byte, on any machine. docs/guide/fabric.md of enroute describes options, traces and results.

    import enroute_fabric as ef

    result = ef.run(trace="hadoop.csv.gz", scheme="switchv2p", cache="50%")
    result.hit_rate, result.fct_us_p99

    results = ef.sweep(
        {"schemes": ["nocache", "switchv2p"], "traces": ["hadoop"], "caches": ["1%", "50%"]},
        output="hadoop.results",
    )
    results.to_pandas()

Runs release the interpreter's lock, and Ctrl-C stops them. Errors are `InputError` (a ValueError)
for options, traces and topologies, OSError for files, MemoryError for a run that does not fit into
memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, overload

from enroute_fabric import _native
from enroute_fabric._native import InputError

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = ["InputError", "Layer", "Result", "Results", "Solve", "run", "sweep"]
__version__ = _native.VERSION


class Layer(TypedDict):
    """Counters of all switches of a layer."""

    bytes: int
    hits: int
    first_hits: int


class Solve(TypedDict):
    """One solve of the scheme `controller`."""

    at_us: float
    variables: int
    entries: int
    gap: float


class Result:
    """Inputs and results of one run.

    Times are in microseconds if the name ends in `_us` or has `_us_`, and means unless the name
    ends in a percentile; `end_ns` is in nanoseconds of simulated time. Packets of both directions
    count. `hit_rate` is a share, from 0 to 1.

    `cost` has the processor time and the elapsed time of the run in seconds (`cpu_s`, `wall_s`),
    and packets and switches passed per second of it; it differs between machines. None for a
    result of a sweep, which writes it to `costs.jsonl`.
    """

    # Inputs.
    scheme: str
    topology: str
    trace: str
    digest: str
    cache: str
    cache_entries: int
    model: str
    quirks: dict[str, bool]
    transport: str
    migrations: list[str]
    learn_probability: float
    controller_interval_us: float
    seed: int
    # Results.
    packets_sent: int
    packets_received: int
    packets_dropped: int
    packets_in_flight: int
    packets_repeated: int
    gateway_packets: int
    hit_rate: float
    flows: int
    flows_completed: int
    fct_us: float
    fct_us_p50: float
    fct_us_p99: float
    first_packet_latency_us: float
    packet_latency_us: float
    packet_hops: float
    learning_packets: int
    invalidation_packets: int
    misdelivered: int
    last_misdelivered_us: float
    core: Layer
    spine: Layer
    tor: Layer
    events: int
    packet_hops_simulated: int
    end_ns: int
    switch_bytes: list[int]
    pod_bytes: list[int]
    # Of the scheme `controller`.
    solves: list[Solve]

    cost: dict[str, float] | None

    def __init__(self, texts: tuple[str, str], cost: str | None = None) -> None:
        self._line, self._row = texts
        self.cost = json.loads(cost) if cost else None
        self.solves = []
        self.__dict__.update(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Inputs and results by name."""
        fields: dict[str, Any] = json.loads(self._line)
        return fields

    def to_json(self) -> str:
        """The line that `enroute fabric run --json` prints."""
        return self._line

    def to_row(self) -> dict[str, Any]:
        """The columns of `results.csv`, and the lists: `core_hits` instead of `core["hits"]`."""
        row: dict[str, Any] = json.loads(self._row)
        return row

    def __repr__(self) -> str:
        inputs = f"scheme={self.scheme!r}, topology={self.topology!r}, trace={self.trace!r}"
        return f"<Result {inputs}, cache={self.cache!r}, seed={self.seed}, hit_rate={self.hit_rate}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self._line == other._line

    def __hash__(self) -> int:
        return hash(self._line)


class Results(Sequence[Result]):
    """Results of several runs.

    `before` and `now`: number of runs of a sweep that had a result before, and that were executed.
    """

    def __init__(self, results: Iterable[Result], before: int = 0, now: int = 0) -> None:
        self._results = list(results)
        self.before = before
        self.now = now

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        if isinstance(index, slice):
            return Results(self._results[index])
        return self._results[index]

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        return f"<Results of {len(self)} runs>"

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each run, with the columns of `Result.to_row`. Needs pandas."""
        import pandas

        return pandas.DataFrame([result.to_row() for result in self])

    def to_arrow(self) -> pyarrow.Table:
        """The same as a table of Arrow. Needs pyarrow."""
        import pyarrow

        rows = [result.to_row() for result in self]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
        return pyarrow.table({
            name: pyarrow.array(values, _arrow_type(pyarrow, values))
            for name, values in columns.items()
        })


def _arrow_type(pyarrow: Any, values: list[Any]) -> Any:
    """Numbers of seeds, bytes and packets have 64 bits without a sign."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, int):
        return pyarrow.uint64()
    if isinstance(first, list) and all(isinstance(each, int) for each in first):
        return pyarrow.list_(pyarrow.uint64())
    return None


def run(
    trace: str | os.PathLike[str],
    *,
    scheme: str = "switchv2p",
    topology: str | os.PathLike[str] = "ft8-10k",
    cache: str | int = "50%",
    model: str = "paper",
    quirks: Mapping[str, bool] | None = None,
    protocol: str = "tcp",
    transport: str = "cubic",
    migrations: Sequence[str] = (),
    learn_probability: float | None = None,
    controller_interval_us: float = 150.0,
    share: float = 1.0,
    seed: int = 1,
) -> Result:
    """Executes one run, as `enroute fabric run`. It uses one core.

    trace: a `.csv` or `.csv.gz` file, or a workload to generate: hadoop, websearch, rpc,
        microbursts, video, incast.
    scheme: nocache, locallearning, gwcache, bluebird, ondemand, direct, switchv2p, or switchv2p-
        with no-invalidations, no-timestamp-vector, no-spillover, no-promotion,
        no-learning-packets or tor-only.
    topology: ft8-10k, ft16-400k, or a TOML file.
    cache: memory of all switches together: a percentage of all addresses ("50%"), or a number of
        entries.
    model: paper (the rules of the text) or published (the authors' code, with its quirks).
    quirks: quirks that differ from the model, by name.
    protocol: what a row of a trace is that does not state it: tcp (a flow) or udp (a datagram).
    transport: congestion control of TCP: cubic or dctcp.
    migrations: VMs that move to another server, as VM:SERVER@TIME ("5200:68@500us").
    learn_probability: probability of a learning packet for each packet that a gateway ToR sees,
        from 0 to 1; None: 0.005.
    controller_interval_us: interval of the scheme `controller`, in µs of simulated time, at least
        1. The wheel has no solver, so it refuses this scheme.
    share: length of a generated workload, as a factor of the paper's.
    seed: seed of the run and of a generated workload, from 0 to 2**64 - 1.

    Raises InputError, OSError, or MemoryError before the run starts.
    """
    texts, cost = _native.run({
        "trace": os.fspath(trace),
        "scheme": scheme,
        "topology": os.fspath(topology),
        "cache": str(cache),
        "model": model,
        "quirks": dict(quirks or {}),
        "protocol": protocol,
        "transport": transport,
        "migrations": list(migrations),
        "learn_probability": learn_probability,
        "controller_interval_us": controller_interval_us,
        "share": share,
        "seed": str(seed),
    })
    return Result(texts, cost)


def sweep(
    experiment: str | os.PathLike[str] | Mapping[str, Any],
    *,
    output: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
) -> Results:
    """Executes every combination of the lists of an experiment, as `enroute fabric sweep`.

    experiment: a TOML file, or a dict with its keys: `schemes`, `traces`, `topologies`, `caches`,
        `models`, `quirks`, `seeds`, `controller_interval_us` are lists of which every combination
        is a run; `protocol`, `transport`, `share`, `migrations`, `learn_probability` apply to all
        runs. Files named in a dict are relative to the current directory, those named in a file to
        that file.
    output: directory for `results.jsonl`, `results.csv` and `costs.jsonl`. Default: the file with
        the extension `.results`; a dict needs it.
    jobs: number of simultaneous runs, at least 1; None: one for each core.

    Each finished run is on disk before the next one begins. After Ctrl-C or a crash the same call
    resumes the sweep; a finished one returns at once. Returns the results of all its runs, in the
    order of the grid.

    Raises InputError, OSError or MemoryError before a run starts, or for the first run that fails.
    """
    if isinstance(experiment, Mapping):
        if output is None:
            raise TypeError("sweep() of a dict needs output: a directory for its results")
        text = "".join(f"{key} = {_toml(value)}\n" for key, value in experiment.items())
        before, now, records = _native.sweep_lists(text, os.fspath(output), jobs)
    else:
        directory = None if output is None else os.fspath(output)
        before, now, records = _native.sweep_file(os.fspath(experiment), directory, jobs)
    return Results(map(Result, records), before, now)


def _toml(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, str | os.PathLike):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, Iterable):
        return f"[{', '.join(map(_toml, value))}]"
    raise TypeError(f"expected a string, a number, a list or a dict, got {value!r}")
