"""Files of measured batches: a compressed table of requests and a summary for each batch."""

import csv
import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path

COLUMNS = "protocol scenario location capacity batch index key outcome latency_ms at_s".split()


@dataclass(frozen=True)
class Row:
    """One request. `at_s` is its start, in seconds after the first request of the run."""

    index: int
    key: int
    outcome: str
    latency_ms: float
    at_s: float


@dataclass(frozen=True)
class Batch:
    run: object
    number: int
    rows: list
    seconds: float
    # Hits and misses by the cache's own counters, including unrecorded requests.
    counted: tuple
    # Hits by replay of the cache's replacement policy, including unrecorded requests.
    replayed_hits: int
    load: float


def write_batch(directory, batch):
    """Writes a batch atomically: the summary is written last; without it the batch is missing."""
    folder = raw_directory(directory, batch.run)
    folder.mkdir(parents=True, exist_ok=True)
    run = batch.run
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(COLUMNS)
    for row in batch.rows:
        place = [run.protocol, run.scenario, run.location.name, run.capacity, batch.number]
        latency, at = f"{row.latency_ms:.4f}", f"{row.at_s:.4f}"
        table.writerow([*place, row.index, row.key, row.outcome, latency, at])
    replace(batch_file(folder, batch.number, "csv.gz"), gzip.compress(text.getvalue().encode()))
    summary = {
        "seconds": batch.seconds,
        "counted_hits": batch.counted[0],
        "counted_misses": batch.counted[1],
        "replayed_hits": batch.replayed_hits,
        "load": batch.load,
    }
    replace(batch_file(folder, batch.number, "json"), json.dumps(summary).encode())


def read_batches(directory, run):
    """The measured batches of a run, in order."""
    folder = raw_directory(directory, run)
    for number in done_batches(directory, run):
        with gzip.open(batch_file(folder, number, "csv.gz"), "rt") as file:
            rows = [
                Row(
                    int(line["index"]),
                    int(line["key"]),
                    line["outcome"],
                    float(line["latency_ms"]),
                    float(line["at_s"]),
                )
                for line in csv.DictReader(file)
            ]
        summary = json.loads(batch_file(folder, number, "json").read_text())
        counted = (summary["counted_hits"], summary["counted_misses"])
        replayed, load = summary["replayed_hits"], summary["load"]
        yield Batch(run, number, rows, summary["seconds"], counted, replayed, load)


def done_batches(directory, run):
    folder = raw_directory(directory, run)
    numbers = range(1, run.batches + 1)
    return [number for number in numbers if batch_file(folder, number, "json").exists()]


def missing_batches(directory, run):
    done = set(done_batches(directory, run))
    return [number for number in range(1, run.batches + 1) if number not in done]


def raw_directory(directory, run):
    return Path(directory) / "raw" / run.name


def batch_file(folder, number, suffix):
    return folder / f"batch-{number:03}.{suffix}"


def replace(path, content):
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(content)
    temporary.replace(path)
