"""Reads the data files in `experiments/vnf_cache/`."""

import tomllib
from dataclasses import dataclass

from lab.library import repository
from lab.vnf_cache import workload

DIRECTORY = repository.EXPERIMENTS / "vnf_cache"

# Time of one request to the server without the path; used only to estimate the remaining time.
SERVICE_MS = 1.5


@dataclass(frozen=True)
class Location:
    """A location of the server: its round-trip times."""

    name: str
    direct_rtt_ms: float
    client_cache_rtt_ms: float
    cache_origin_rtt_ms: float


@dataclass(frozen=True)
class Run:
    """One workload on one cache, which is empty at the start. Each run has its own process."""

    protocol: str
    scenario: str
    location: Location
    # "uniform": batches of random keys. "first": each batch requests one new key repeatedly.
    workload: str
    # Number of entries; 0 is the direct path without a cache.
    capacity: int
    batches: int
    requests: int
    alone: bool

    @property
    def name(self):
        return f"{self.protocol}-{self.place}"

    @property
    def place(self):
        """The same for each protocol."""
        return f"{self.scenario}-{self.location.name.lower()}-{self.workload}-{self.capacity}"

    @property
    def hit_rtt_ms(self):
        return self.location.client_cache_rtt_ms

    @property
    def miss_rtt_ms(self):
        """Round-trip time of a request that reaches the server."""
        if not self.capacity:
            return self.location.direct_rtt_ms
        return self.location.client_cache_rtt_ms + self.location.cache_origin_rtt_ms


@dataclass(frozen=True)
class Experiment:
    """Contents of the paper's data files."""

    common: dict
    scenarios: dict
    paper: dict
    runs: list

    def run(self, name):
        return next(run for run in self.runs if run.name == name)

    def batch_keys(self, run, batch):
        """The keys of one batch, and whether each one's latency is recorded."""
        keys, seed = self.common["workload"]["keys"], self.common["workload"]["seed"]
        if run.workload == "uniform":
            return [(key, True) for key in workload.uniform(seed, batch, keys, run.requests)]
        return workload.first(batch, keys, run.requests, displaced=0 < run.capacity < 2)

    def ideal_ms(self, run, batches):
        """Latencies if only the path took time: the round-trip time of each hit and each miss.

        Hits and misses are those of a FIFO cache of this capacity. Keys are uniform and independent,
        so no cache without knowledge of the future has fewer misses.
        """
        pairs = [pair for batch in range(1, batches + 1) for pair in self.batch_keys(run, batch)]
        stored = workload.Replay(run.capacity)
        outcomes = [(stored.read(key), recorded) for key, recorded in pairs]
        hits = [hit for hit, recorded in outcomes if recorded]
        return [run.hit_rtt_ms if hit else run.miss_rtt_ms for hit in hits]

    def expected_s(self, run, batches):
        """Estimated time for these batches, in seconds."""
        asked = 2 if run.workload == "first" and run.capacity == 1 else 1
        return sum(self.ideal_ms(run, batches)) * asked / 1000 + (
            batches * run.requests * SERVICE_MS / 1000
        )


def load(short):
    """Reads the data files."""
    common, paper = read(DIRECTORY / "common.toml"), read(DIRECTORY / "paper.toml")
    files = [read(path) for path in sorted(DIRECTORY.glob("scenario-*.toml"))]
    scenarios = {file["letter"]: file for file in files}
    runs = [
        run
        for protocol in common["protocols"]["names"]
        for file in files
        for run in runs_of(protocol, file, common, short)
    ]
    return Experiment(common, scenarios, paper, runs)


def runs_of(protocol, file, common, short):
    others = common["protocols"]
    fewer = short and protocol != others["names"][0]
    locations = [Location(**entry) for entry in file["location"]]
    uniform, first = file["uniform"], file.get("first")
    for location in locations:
        for position, capacity in enumerate(uniform["capacities"]):
            batches = uniform["batches_short"][position] if short else uniform["batches"]
            batches = others["batches_short"] if fewer else batches
            yield Run(
                protocol=protocol,
                scenario=file["letter"],
                location=location,
                workload="uniform",
                capacity=capacity,
                batches=batches,
                requests=common["workload"]["requests"],
                alone=file["alone"],
            )
    for capacity in first["capacities"] if first else []:
        yield Run(
            protocol=protocol,
            scenario=file["letter"],
            location=next(each for each in locations if each.name == first["location"]),
            workload="first",
            capacity=capacity,
            batches=first["keys_short"] if short else first["keys"],
            requests=first["requests"],
            alone=file["alone"],
        )


def read(path):
    with path.open("rb") as file:
        return tomllib.load(file)
