"""The paper's tables, computed from measured batches, and a summary of all runs."""

import statistics
from dataclasses import dataclass, field

from lab.vnf_cache import results


@dataclass
class Measured:
    """All measurements of one run."""

    run: object
    batches: list
    # Latencies of the same requests if only the path took time.
    ideal_ms: list = field(default_factory=list)

    @property
    def rows(self):
        return [row for batch in self.batches for row in batch.rows]

    def latencies(self, outcome=None):
        return [row.latency_ms for row in self.rows if outcome in (None, row.outcome)]

    @property
    def mean_ms(self):
        return statistics.fmean(self.latencies())

    @property
    def typical_ms(self):
        """The mean, if each request took the median of its outcome: without pauses."""
        counted = [self.latencies(outcome) for outcome in {row.outcome for row in self.rows}]
        return sum(len(each) * statistics.median(each) for each in counted) / len(self.rows)

    @property
    def ideal_mean_ms(self):
        return statistics.fmean(self.ideal_ms)

    @property
    def requests_per_s(self):
        return len(self.rows) / sum(batch.seconds for batch in self.batches)

    @property
    def hit_ratio(self):
        return sum(row.outcome == "hit" for row in self.rows) / len(self.rows)

    @property
    def disagreements(self):
        """Number of requests that the cache's counters or the replay count differently."""
        if self.run.workload == "first" or not self.run.capacity:
            return 0
        return sum(disagreement(batch) for batch in self.batches)

    def rate(self, begin_s, end_s):
        """Requests per second that start in this part of the run."""
        return sum(begin_s <= row.at_s < end_s for row in self.rows) / (end_s - begin_s)

    def nth(self, index):
        """Latencies of the requests at this position of their batch; the first is 1."""
        return [row.latency_ms for row in self.rows if row.index == index]


def disagreement(batch):
    by_label = sum(row.outcome == "hit" for row in batch.rows)
    by_counter, misses = batch.counted
    uncounted = abs(by_counter + misses - len(batch.rows))
    return max(abs(by_label - by_counter), abs(by_label - batch.replayed_hits), uncounted)


def read_all(paper, directory):
    """Measurements by protocol and place; runs without a finished batch are absent."""
    measured = {protocol: {} for protocol in paper.common["protocols"]["names"]}
    for run in paper.runs:
        batches = list(results.read_batches(directory, run))
        if batches:
            ideal = paper.ideal_ms(run, len(batches))
            measured[run.protocol][run.place] = Measured(run, batches, ideal)
    return measured


def summary(measured):
    header = (
        "protocol scenario location workload capacity batches requests mean_ms p50_ms p99_ms ideal_mean_ms "
        "requests_per_s hit_ratio hits_by_counters misses_by_counters disagreements load_mean"
    ).split()
    rows = []
    for each in [each for runs in measured.values() for each in runs.values()]:
        run, latencies = each.run, sorted(each.latencies())
        counted = [sum(batch.counted[i] for batch in each.batches) for i in (0, 1)]
        rows.append(
            [
                run.protocol,
                run.scenario.upper(),
                run.location.name,
                run.workload,
                run.capacity,
                len(each.batches),
                len(latencies),
                f"{each.mean_ms:.3f}",
                f"{statistics.median(latencies):.3f}",
                f"{latencies[int(len(latencies) * 0.99)]:.3f}",
                f"{each.ideal_mean_ms:.3f}",
                f"{each.requests_per_s:.1f}",
                f"{each.hit_ratio:.4f}",
                *counted,
                each.disagreements,
                f"{statistics.fmean(batch.load for batch in each.batches):.1f}",
            ]
        )
    return header, rows


def numbered(paper, measured):
    """The paper's tables, for the measurements of one protocol."""
    return {
        "table-1": table_1(paper, measured),
        "table-2": table_2(paper, measured),
        "table-3": table_3(paper, measured),
    }


def table_1(paper, measured):
    """Scenario A: the first six requests for one key, and the overhead of the cache."""
    printed = paper.paper["table-1"]
    rows = three_rows(
        "paper",
        (printed["direct_ms"], printed["direct_mean_ms"], printed["direct_requests_per_s"]),
        (printed["cache_ms"], printed["cache_mean_ms"], printed["cache_requests_per_s"]),
    )
    names = ("a-local-first-0", "a-local-uniform-0", "a-local-first-100", "a-local-uniform-100")
    if all(name in measured for name in names):
        direct_first, direct, cache_first, cache = (measured[name] for name in names)
        rows += three_rows("enroute", *map(ordered, (direct_first, cache_first), (direct, cache)))
    header = ["source", "path", *map(str, range(1, 7)), "mean_ms", "requests_per_s"]
    return header, rows


def ordered(first, uniform):
    medians = [statistics.median(first.nth(index)) for index in range(1, first.run.requests + 1)]
    return medians, uniform.mean_ms, uniform.requests_per_s


def three_rows(source, direct, cache):
    def row(path, values):
        return [source, path, *(f"{value:.2f}" for value in values[0]), *values[1:]]

    over = [there - here for here, there in zip(direct[0], cache[0], strict=True)]
    means = [f"{direct[1]:.2f}", f"{cache[1]:.2f}", f"{cache[1] - direct[1]:.2f}"]
    rates = [f"{direct[2]:.0f}", f"{cache[2]:.0f}", f"{cache[2] - direct[2]:.0f}"]
    return [
        row("without cache", (direct[0], means[0], rates[0])),
        row("with cache", (cache[0], means[1], rates[1])),
        row("overhead", (over, means[2], rates[2])),
    ]


def table_2(paper, measured):
    return means(paper, measured, "b", "table-2")


def table_3(paper, measured):
    return means(paper, measured, "c", "table-3")


def means(paper, measured, scenario, name):
    """Mean response times by capacity (the paper's, ours, ideal), and the number of requests."""
    printed = paper.paper[name]
    capacities = printed["capacities"]
    rows = []
    for location in [entry["name"] for entry in paper.scenarios[scenario]["location"]]:
        ours = [uniform(paper, measured, scenario, location, each) for each in capacities]
        rates = printed["requests_per_s"][location]

        def row(source, quantity, values, place=location):
            return [place, source, quantity, *values]

        def each_of_ours(form, quantity, ours=ours):
            return [form.format(getattr(each, quantity)) if each else "" for each in ours]

        rows += [
            row("paper", "mean_ms", [f"{value:.2f}" for value in printed[location]]),
            row("enroute", "mean_ms", each_of_ours("{:.2f}", "mean_ms")),
            row("ideal", "mean_ms", each_of_ours("{:.2f}", "ideal_mean_ms")),
            row("paper", "requests_per_s", [rates.get(str(each), "") for each in capacities]),
            row("enroute", "requests_per_s", each_of_ours("{:.1f}", "requests_per_s")),
            row("enroute", "hit_ratio", each_of_ours("{:.3f}", "hit_ratio")),
            row("enroute", "requests", [len(each.rows) if each else "" for each in ours]),
        ]
    return ["location", "source", "quantity", "none", *map(str, capacities[1:])], rows


def of_figures(paper, measured):
    """The quantities of Figures 4 to 7 that the paper's text or tables state, measured."""
    rows = []
    if stored := both(measured, "b-ohio-first-1", "b-ohio-first-100"):
        evicted, kept = stored
        rows += [["Figure 4", "miss, ms", median(evicted.latencies())],
                 ["Figure 4", "later hits, ms", median(kept.latencies("hit"))]]
    for figure, scenario in ((5, "b"), (6, "c")):
        place = f"{scenario}-{paper.paper[f'figure-{figure}']['location'].lower()}-uniform"
        if stored := both(measured, f"{place}-100", f"{place}-10"):
            large, small = stored
            rows += [[f"Figure {figure}", "hit, ms", median(large.latencies("hit"))],
                     [f"Figure {figure}", "miss, ms", median(small.latencies("miss"))]]
    location = paper.paper["figure-7"]["location"].lower()
    if stored := both(measured, f"b-{location}-uniform-0", f"c-{location}-uniform-100"):
        direct, cached = stored
        rows += [["Figure 7", "without cache, requests/s", f"{direct.rate(0, LATE_S[1]):.1f}"],
                 ["Figure 7", "100 entries, requests/s", f"{cached.rate(*LATE_S):.1f}"]]
    return ["figure", "quantity", "enroute"], rows


# The part of Figure 7 after the warm-up of a cache, in seconds.
LATE_S = (50, 60)


def both(measured, *names):
    """The measurements with these names; None if one is missing."""
    return [measured[name] for name in names] if all(name in measured for name in names) else None


def median(values):
    return f"{statistics.median(values):.3f}" if values else ""


# Means up to this times the ideal are those of the paths.
CLOSE = 1.05


def carried_over(paper, measured):
    """Response times over the ideal, of all protocols side by side: means, and typical ones."""
    capacities = paper.paper["table-2"]["capacities"]
    rows = []
    for scenario in ("b", "c"):
        for location in [entry["name"] for entry in paper.scenarios[scenario]["location"]]:
            for protocol, runs in measured.items():
                ours = [uniform(paper, runs, scenario, location, each) for each in capacities]
                if not all(ours):
                    continue
                for quantity in ("mean_ms", "typical_ms"):
                    times = [getattr(each, quantity) for each in ours]
                    pairs = list(zip(times, [each.ideal_mean_ms for each in ours], strict=True))
                    ratios = [f"{time / ideal:.3f}" for time, ideal in pairs]
                    above = max(time - ideal for time, ideal in pairs)
                    place = [scenario.upper(), location, protocol, quantity.removesuffix("_ms")]
                    saved = f"{1 - times[-1] / times[0]:.1%}"
                    rows.append([*place, *ratios, f"{above:.2f}", saved])
    header = "scenario location protocol of none".split() + [str(each) for each in capacities[1:]]
    return [*header, "most_above_ideal_ms", "saved_by_100"], rows


def uniform(paper, measured, scenario, location, capacity):
    """The run of one cell; the direct path may belong to another scenario."""
    owner = paper.scenarios[scenario].get("direct_from", scenario) if not capacity else scenario
    return measured.get(f"{owner}-{location.lower()}-uniform-{capacity}")
