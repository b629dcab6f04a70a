"""The paper's figures, drawn from our runs, and tables of their values."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from lab.annabelladb.experiment import ALONE, FOLLOWING, HASH, PLACEMENTS
from lab.library.style import STYLE, saved

# As in the paper: the baseline is red, AnnaBellaDB green. Copies, which it does not have, are blue.
COLOURS = {HASH: "#D55E00", ALONE: "#009E73", FOLLOWING: "#0072B2"}
LABELS = {HASH: "hash-placed", ALONE: "following", FOLLOWING: "following, copies"}
GREY = "#767676"
# Columns of the ratios to hash-placed.
RATIOS = ("ratio", "ratio, copies")
# Width of the sliding window, as in the paper.
WINDOW_S = 2


def draw(experiment, runs, paper, directory):
    """Writes one figure as SVG and PNG; returns the SVG and a table of its values."""
    with plt.rc_context(STYLE):
        figure, table = OF_KIND[experiment.kind](experiment, runs, paper)
        return saved(figure, directory / experiment.name), table


def access_times(experiment, runs, paper):
    """Mean access time in a sliding window, by completion; one panel for each round-trip time."""
    rtts = sorted({rtt for rtt, _ in runs}, reverse=True)
    figure, panels = plt.subplots(1, len(rtts), figsize=(5 + 4 * len(rtts), 4), squeeze=False)
    rows = []
    for axes, rtt in zip(panels[0], rtts, strict=True):
        for placement in PLACEMENTS:
            if run := runs.get((rtt, placement)):
                middle, mean = sliding(run, experiment.seconds)
                axes.plot(middle, mean, color=COLOURS[placement], label=label(run))
        launches(axes, experiment)
        axes.set(title=f"{rtt / 2000:g} ms each way", ylabel="access time, mean of 2 s [ms]")
        rows += phases(experiment, runs, rtt, paper)
        axes.legend()
    header = ["each way", "seconds", *(f"{LABELS[each]}, ms" for each in PLACEMENTS),
              *RATIOS, "the paper"]
    return figure, (header, rows)


def label(run):
    moved = f", moved {run.moves} times" if run.placement != HASH else ""
    return LABELS[run.placement] + moved


def sliding(run, seconds, step=0.25):
    """Centers of the windows that have accesses, and the mean access time in each."""
    middle = np.arange(WINDOW_S / 2, seconds - WINDOW_S / 2 + step / 2, step)
    sums = np.concatenate([[0.0], np.cumsum(run.took_ms)])
    first = np.searchsorted(run.ended_s, middle - WINDOW_S / 2)
    last = np.searchsorted(run.ended_s, middle + WINDOW_S / 2)
    count = last - first
    some = count > 0
    return middle[some], (sums[last] - sums[first])[some] / count[some]


def phases(experiment, runs, rtt, paper):
    """Mean access time in each phase that the paper names, and in the whole run."""
    told = paper.get(experiment.name, {}).get("phases", [])
    bounds = [(*each["starts"], each["says"]) for each in told] + [(0, len(experiment.hosts), "")]
    for first, last, says in bounds:
        begin, end = first * experiment.apart_s, last * experiment.apart_s
        means = [mean(runs.get((rtt, placement)), begin, end) for placement in PLACEMENTS]
        yield [f"{rtt / 2000:g} ms", f"{begin:g} to {end:g}", *(f"{each:.3f}" for each in means),
               *(f"{each / means[0]:.3f}" for each in means[1:]), says]


def mean(run, begin, end):
    if run is None:
        return float("nan")
    there = run.took_ms[(run.ended_s >= begin) & (run.ended_s < end)]
    return float(there.mean()) if len(there) else float("nan")


def launches(axes, experiment):
    for at in experiment.starts:
        axes.axvline(at, color=GREY, linestyle="--", linewidth=0.7)
    axes.set(xlabel="seconds", xlim=(0, experiment.seconds), ylim=(0, None))


def throughput(experiment, runs, _paper):
    """Accesses completed in each second, over all functions."""
    (rtt,) = experiment.rtt_us
    figure, axes = plt.subplots(figsize=(9, 4))
    ends, rows = {}, []
    for placement in PLACEMENTS:
        if run := runs.get((rtt, placement)):
            edges = np.arange(0, experiment.seconds + 1)
            counts, _ = np.histogram(run.ended_s, edges)
            axes.plot(edges[:-1] + 0.5, counts, color=COLOURS[placement], label=label(run))
            ends[placement] = counts
    launches(axes, experiment)
    axes.set(ylabel="accesses a second")
    axes.legend()
    # The second half of each stay, after the slots have moved.
    for number, start in enumerate(experiment.starts, 1):
        there = slice(int(start + experiment.apart_s / 2), int(start + experiment.apart_s))
        of = [float(ends[each][there].mean()) if each in ends else float("nan")
              for each in PLACEMENTS]
        rows.append([str(number), str(experiment.hosts[number - 1]), *(f"{each:.0f}" for each in of),
                     *(f"{each / of[0]:.2f}" for each in of[1:])])
    header = ["functions", "the last on kvs", *(f"{LABELS[each]}/s" for each in PLACEMENTS), *RATIOS]
    return figure, (header, rows)


def distribution(experiment, runs, paper):
    """Quartiles beside the paper's, and the cumulative distribution of access times."""
    (rtt,) = experiment.rtt_us
    figure, axes = plt.subplots(figsize=(7, 4))
    rows = [[name, "paper", *(f"{each:g}" for each in values)]
            for name, values in paper[experiment.name]["ms"].items()]
    for placement in PLACEMENTS:
        if run := runs.get((rtt, placement)):
            times = np.sort(run.took_ms)
            share = np.linspace(0, 1, len(times))
            shown = np.unique(np.linspace(0, len(times) - 1, 500).astype(int))
            axes.plot(times[shown], share[shown], color=COLOURS[placement], label=label(run))
            quartiles = np.percentile(times, [0, 25, 50, 75, 100])
            values = [*quartiles[:3], times.mean(), *quartiles[3:]]
            rows.append([LABELS[placement], "enroute", *(f"{each:.3f}" for each in values)])
    axes.set(xscale="log", xlabel="access time [ms]", ylabel="share of accesses", ylim=(0, 1))
    axes.legend()
    return figure, (["placement", "source", "min, ms", "Q1", "median", "mean", "Q3", "max"], rows)


OF_KIND = {"access-times": access_times, "throughput": throughput, "distribution": distribution}
