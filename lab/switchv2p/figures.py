"""The paper's figures, drawn from our runs; values of the reference are open marks."""

import tomllib
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from lab.switchv2p import experiment as experiments
from lab.switchv2p import tables
from lab.library.style import STYLE, named_once, saved

COLOURS = {
    "nocache": "#767676", "locallearning": "#56B4E9", "gwcache": "#E69F00", "bluebird": "#0072B2",
    "ondemand": "#CC79A7", "direct": "#000000", "switchv2p": "#D55E00",
    "controller 150 µs": "#009E73", "controller 300 µs": "#7CC7A8",
}
# The paper's figures show the rules of the published code; those of the text are thin lines.
LINES = {"published": {"linestyle": "-", "marker": "o", "markersize": 4},
         "paper": {"linestyle": ":", "linewidth": 1}}

BUILT_IN = {
    "ft8-10k": {"pods": 8, "racks_per_pod": 4, "spines_per_pod": 4, "cores": 16,
                "gateways_per_rack": 10},
    "ft16-400k": {"pods": 50, "racks_per_pod": 8, "spines_per_pod": 8, "cores": 16,
                  "gateways_per_rack": 10},
}


def draw(experiment, records, paper, directory):
    """Writes one figure as SVG and PNG; returns the SVG, or None without data."""
    if experiment.kind not in OF_KIND or not records:
        return None
    with plt.rc_context(STYLE):
        figure = OF_KIND[experiment.kind](experiment, records, paper)
        return saved(figure, directory / experiment.name)


def cache_sizes(experiment, records, paper):
    """Hit rate and improvement over NoCache by cache size."""
    panels = ("hit rate [%]", "FCT, times better", "first packet, times better")
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    sizes = sorted({tables.share(each["cache"]) for each in records if each["cache"] != "0"})
    for (name, model), runs in series(records).items():
        points = {}
        for run in runs:
            base = tables.baseline(records, run)
            if base is None or not run["fct_us"]:
                continue
            values = (run["hit_rate"] * 100, base["fct_us"] / run["fct_us"],
                      base["first_packet_latency_us"] / run["first_packet_latency_us"])
            where = sizes if run["cache"] == "0" else [tables.share(run["cache"])]
            points |= dict.fromkeys(where, values)
        for panel, axis in enumerate(axes):
            if panel == 0 and name in ("bluebird", "direct", "ondemand"):
                continue
            xs = sorted(points)
            axis.plot([100 * x for x in xs], [points[x][panel] for x in xs], color=COLOURS[name],
                      label=name if model == "published" else None, **LINES[model])
    reference(axes, records, paper)
    for axis, title in zip(axes, panels, strict=True):
        axis.set_xscale("log")
        axis.set_xlabel("cache of all switches [% of addresses]")
        axis.set_title(title)
        axis.set_ylim(bottom=0)
    if any(each["model"] == "paper" for each in records):
        axes[1].plot([], [], color="black", label="rules of the text", **LINES["paper"])
    figure.legend(*named_once(axes[1]), loc="outside lower center", ncols=5)
    return figure


def reference(axes, records, paper):
    traces = {Path(each["trace"]).name.removesuffix(".csv.gz") for each in records}
    told = paper["reference"]
    if told["trace"] not in traces:
        return
    base = told["rows"]["nocache"]
    for name, each in told["rows"].items():
        values = (each["hit_rate"] * 100, base["fct_us"] / each["fct_us"],
                  base["first_packet_latency_us"] / each["first_packet_latency_us"])
        for panel, axis in enumerate(axes):
            if panel or name not in ("bluebird", "direct", "ondemand"):
                axis.plot(50, values[panel], "D", markerfacecolor="none", markersize=8,
                          markeredgecolor=COLOURS[name], label="the authors' simulator")


def series(records):
    """The runs of each scheme and model."""
    found = {}
    for each in records:
        found.setdefault((tables.label(each), each["model"]), []).append(each)
    return found


def dimensions(record):
    stem = Path(record["topology"]).stem
    if stem in BUILT_IN:
        return BUILT_IN[stem]
    with (experiments.DIRECTORY / "topologies" / f"{stem}.toml").open("rb") as file:
        return tomllib.load(file)


def bytes_of(record, pod):
    """Bytes of a pod's spines, then of its ToRs."""
    size, every = dimensions(record), record["switch_bytes"]
    spines, racks = size["spines_per_pod"], size["racks_per_pod"]
    first_spine = size["cores"] + pod * spines
    first_tor = size["cores"] + size["pods"] * spines + pod * racks
    return every[first_spine:first_spine + spines] + every[first_tor:first_tor + racks]


def heat(records, columns, values, unit):
    """A heat map for each model, with a row for each scheme."""
    models = sorted({each["model"] for each in records}, reverse=True)
    figure, axes = plt.subplots(len(models), 1, figsize=(9, 3.4 * len(models)), squeeze=False)
    for axis, model in zip(axes[:, 0], models, strict=True):
        runs = [each for each in records if each["model"] == model]
        runs.sort(key=lambda each: tables.SCHEMES.index(each["scheme"]))
        grid = np.array([values(each) for each in runs]) / 1e9
        shown = axis.imshow(grid, cmap="YlOrRd", vmin=0, aspect="auto")
        axis.set_yticks(range(len(runs)), [each["scheme"] for each in runs])
        axis.set_xticks(range(len(columns)), columns)
        axis.set_title(f"{model}: {unit}")
        axis.grid(visible=False)
        for (y, x), value in np.ndenumerate(grid):
            colour = "white" if value > 0.6 * grid.max() else "black"
            axis.text(x, y, f"{value:.2g}", ha="center", va="center", fontsize=8, color=colour)
        figure.colorbar(shown, ax=axis)
    return figure


def pods(experiment, records, paper):
    count = dimensions(records[0])["pods"]
    return heat(records, range(1, count + 1),
                lambda each: [sum(bytes_of(each, pod)) for pod in range(count)], "GB in each pod")


def switches(experiment, records, paper):
    last = dimensions(records[0])["pods"] - 1
    columns = range(1, len(bytes_of(records[0], last)) + 1)
    return heat(records, columns, lambda each: bytes_of(each, last),
                "GB of pod 8's spines (1-4) and ToRs (5-8; 8 has the gateways)")


def over(records, key, name, title):
    """FCT and first packet latency as functions of one property of the topology."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    for (scheme, model), runs in series(records).items():
        runs.sort(key=key)
        for axis, value in zip(axes, ("fct_us", "first_packet_latency_us"), strict=True):
            axis.plot([key(each) for each in runs], [each[value] for each in runs],
                      color=COLOURS[scheme], label=scheme, **LINES[model])
    for axis, what in zip(axes, ("FCT [µs]", "first packet latency [µs]"), strict=True):
        axis.set_xlabel(name)
        axis.set_title(what)
        if title == "gateways":
            # Schemes without enough gateways take a thousand times as long.
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        if title == "pods":
            axis.set_xscale("log", base=2)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def gateways(experiment, records, paper):
    return over(records, lambda each: 4 * dimensions(each)["gateways_per_rack"], "gateways",
                "gateways")


def pod_counts(experiment, records, paper):
    return over(records, lambda each: dimensions(each)["pods"], "pods", "pods")


OF_KIND = {"cache-sizes": cache_sizes, "pods": pods, "switches": switches, "gateways": gateways,
           "pod-counts": pod_counts}
