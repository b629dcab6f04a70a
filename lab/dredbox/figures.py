"""The deliverable's tables and figures, drawn from our runs, beside its printed values."""

import statistics

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from lab.dredbox.load import ENROUTE, SERVERS
from lab.library.style import STYLE, named_once, saved

ORANGE, BLUE, GREY, GREEN, BLACK = "#D55E00", "#0072B2", "#767676", "#009E73", "black"
COLOURS = {"redis-server": ORANGE, ENROUTE: BLUE}


def draw(experiment, results, paper, directory):
    """Writes the figure as SVG and PNG, if the kind has one; returns SVG or None, and a table."""
    with plt.rc_context(STYLE):
        figure, table = OF_KIND[experiment.kind](experiment, results, paper.get(experiment.name))
        if figure is None:
            return None, table
        return saved(figure, directory / experiment.name), table


def memories(experiment, results, stated):
    """Table 5: the paper's rows beside ours, in process and over the network."""
    runs = [run["table-5"] for run in results[experiment.options["bench"]]]
    sizes = stated["gigabytes"]
    rows = [["memory, GB", "", *(f"{size:g}" for size in sizes)]]
    rates = [[run[place]["lookups_per_second"] for run in runs] for place in range(len(sizes))]
    wired = [[run[place]["wire"]["lookups_per_second"] for run in runs]
             for place in range(len(sizes))]
    for name, paper, ours in (("Tmax, ms", "max_ms", "max_ms"), ("Tmin, ms", "min_ms", "min_ms"),
                              ("Tavg, ms", "average_ms", "average_ms")):
        rows.append([name, "paper", *(f"{value:.5f}" for value in stated[paper])])
        rows.append([name, "enroute", *(
            f"{statistics.median(run[place][ours] for run in runs):.5f}"
            for place in range(len(sizes)))])
    rows.append(["lookups/s", "paper", *(f"{value:.0f}" for value in stated["requests_per_s"])])
    rows.append(["lookups/s", "enroute", *(f"{statistics.median(each):.0f}" for each in rates)])
    rows.append(["min–max", f"{len(runs)} runs", *map(spread, rates)])
    rows.append(["over the wire, 1 connection", "enroute",
                 *(f"{statistics.median(each):.0f}" for each in wired)])
    rows.append(["min–max", f"{len(runs)} runs", *map(spread, wired)])
    rows.append(["read from the disk", "enroute", *(
        f"{statistics.median(run[place]['read'] for run in runs):.0f}"
        for place in range(len(sizes)))])
    figure, axes = plt.subplots(figsize=(8, 4.5))
    places = range(len(sizes))
    axes.plot(places, stated["requests_per_s"], "_", color=BLACK, markersize=26,
              markeredgewidth=2, label="paper, in process")
    for each, label, colour in ((rates, "enroute, in process", BLUE),
                                (wired, "enroute, over the wire, one connection", GREEN)):
        axes.errorbar(places, *bars(each), fmt="o-", color=colour, capsize=4, label=label)
    axes.set(xticks=places, xticklabels=[f"{size:g}" for size in sizes], yscale="log",
             xlabel="memory [GB]", ylabel="lookups a second")
    axes.legend()
    return figure, (rows[0], rows[1:])


def retrievals(experiment, results, stated):
    """Figures 6 to 8: 95th percentile of every 1,000 lookups, from the runs of Table 5."""
    runs = [run["table-5"] for run in results[experiment.options["bench"]]]
    figure, panels = plt.subplots(1, len(stated["gigabytes"]), figsize=(11, 3.8))
    rows = []
    named = zip(panels, stated["gigabytes"].items(), stated["says"], strict=True)
    for axes, (name, gigabytes), says in named:
        of = [next(row for row in run if row["gigabytes"] == gigabytes) for run in runs]
        micros = 1e3 * np.array([row["p95_ms"] for row in of])
        turns = np.arange(1, micros.shape[1] + 1)
        axes.fill_between(turns, micros.min(axis=0), micros.max(axis=0), color=BLUE, alpha=0.2,
                          linewidth=0, label="smallest to largest")
        axes.plot(turns, np.median(micros, axis=0), color=BLUE, label="median of runs")
        axes.set(title=name, xlabel="1,000 lookups each", ylabel="95th percentile [µs]",
                 ylim=(0, None))
        from_memory = [1 - row["read"] / (1000 * micros.shape[1]) for row in of]
        rows.append([name, f"{gigabytes:g}", f"{statistics.median(from_memory):.0%}",
                     f"{np.median(micros):.2f}", spread(micros.ravel(), 2), len(runs), says])
    panels[0].legend()
    return figure, (["figure", "memory, GB", "found in memory", "p95, µs", "min–max", "runs",
                     "paper"], rows)


def redis(experiment, results, stated):
    """Tables 1 to 3: redis-benchmark on stored keys, and the share of keys found."""
    rows = []
    figure, axes = plt.subplots(figsize=(8, 4.2))
    fills = experiment.options["fills"]
    names = ("p95_ms", "p99_ms", "max_ms")
    for place, fill in enumerate(fills):
        rate = stated["requests_per_s"][place]
        rows.append([f"Table {place + 1}", f"{fill:.0%}", "paper, redis-server",
                     stated["entries"][place], f"{rate:.0f}", "", "",
                     *(f"≤ {stated[name][place]}" for name in names), ""])
        axes.plot(place, rate, "_", color=BLACK, markersize=60, markeredgewidth=2, label="paper")
        for side, server in enumerate(SERVERS):
            if not (runs := results.get((fill, server))):
                continue
            rates = [run["requests_per_s"] for run in runs]
            middle = {name: statistics.median(run[name] for run in runs)
                      for name in (*names, "found")}
            rows.append([f"Table {place + 1}", f"{fill:.0%}", server, runs[0]["entries"],
                         f"{statistics.median(rates):.0f}", spread(rates), len(runs),
                         *(f"{middle[name]:.2f}" for name in names), f"{middle['found']:.1%}"])
            at = place + 0.4 * side - 0.2
            height, whiskers = bars([rates])
            axes.bar(at, height, 0.36, yerr=whiskers, capsize=4, color=COLOURS[server],
                     label=server)
            axes.annotate(f"{middle['found']:.0%} found", (at, height[0]), ha="center",
                          xytext=(0, 6), textcoords="offset points", fontsize=8)
    axes.set(xticks=range(len(fills)), xticklabels=[f"data {fill:.0%} of memory" for fill in fills],
             ylabel="GETs a second")
    axes.legend(*named_once(axes))
    return figure, (["", "data of memory", "what", "entries", "requests/s", "min–max", "runs",
                     "p95, ms", "p99", "longest", "keys found"], rows)


def rescaled(experiment, results, _stated):
    """Lookups per second and memory over time for each run; a table of each stage's second half."""
    [runs] = results.values()
    stages, stage_s = experiment.options["memory_mib"], experiment.options["stage_s"]
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True)
    for number, run in enumerate(runs):
        at, rate, budget, resident = (
            [sample[name] for sample in run["samples"]]
            for name in ("at_s", "lookups_per_s", "budget_mib", "resident_mib"))
        label = {"label": "a run"} if number == 0 else {}
        above.plot(at, rate, color=BLUE, alpha=0.7, linewidth=1, **label)
        below.plot(at, resident, color=GREEN, alpha=0.7, linewidth=1,
                   **({"label": "resident"} if number == 0 else {}))
    below.step(at, budget, color=BLACK, where="post", label="budget")
    for axes in (above, below):
        for stage in range(1, len(stages)):
            axes.axvline(stage * stage_s, color=GREY, linestyle="--", linewidth=0.7)
        axes.set(ylim=(0, None))
        axes.legend()
    above.set(ylabel="lookups a second")
    below.set(xlabel="seconds", ylabel="MiB")
    rows = [stage_row(place, memory, stage_s, runs) for place, memory in enumerate(stages)]
    return figure, (["from, s", "memory, MiB", "lookups/s", "min–max", "runs", "found in memory",
                     "resident, MiB"], rows)


def stage_row(place, memory, stage_s, runs):
    """Row of one stage: the second half, after entries were copied into memory."""
    begin, end = (place + 0.5) * stage_s, (place + 1) * stage_s
    halves = [[each for each in run["samples"] if begin <= each["at_s"] < end] for run in runs]
    rates, shares, resident = (
        [statistics.mean(each[name] for each in half) for half in halves if half]
        for name in ("lookups_per_s", "from_memory", "resident_mib"))
    return [f"{place * stage_s:g}", memory, f"{statistics.median(rates):.0f}", spread(rates),
            len(rates), f"{statistics.median(shares):.1%}", f"{statistics.median(resident):.0f}"]


def kpis(experiment, results, stated):
    """For each KPI: the requirement, the measured value, and whether it is met."""
    [runs] = results.values()
    subject = experiment.options["bench"]
    rows = []
    for of in stated:
        said = [next(each for each in run[subject] if each["name"] == of["name"]) for run in runs]
        values = [each["value"] for each in said]
        peer = ""
        if said[0]["peer_value"] is not None and "least" not in of:
            beside = statistics.median(each["peer_value"] for each in said)
            peer = f"{said[0]['peer']}: {beside:.4g}"
        rows.append([of["kpi"], *required(of, statistics.median(values)), number(values),
                     spread(values, digits(values)), len(values), said[0]["unit"], peer])
    header = ["KPI", "the paper requires", "met", "enroute", "min–max", "runs", "unit", "beside"]
    return None, (header, rows)


def required(of, value):
    """The requirement as text, and whether the value meets it."""
    if "least" in of:
        return f"≥ {of['least']}", "yes" if value >= of["least"] else "no"
    if "most" in of:
        return f"≤ {of['most']}", "yes" if value <= of["most"] else "no"
    return "", ""


def digits(values):
    return 0 if min(values) >= 100 else 2


def number(values):
    return f"{statistics.median(values):.{digits(values)}f}"


def spread(values, digits=0):
    return f"{min(values):.{digits}f}–{max(values):.{digits}f}"


def bars(each):
    """Medians, and their distances to the minimum and the maximum."""
    middle = [statistics.median(values) for values in each]
    below = [at - min(values) for at, values in zip(middle, each, strict=True)]
    above = [max(values) - at for at, values in zip(middle, each, strict=True)]
    return middle, (below, above)


OF_KIND = {"memories": memories, "retrievals": retrievals, "redis": redis, "scale-up": rescaled,
           "kpis": kpis}
