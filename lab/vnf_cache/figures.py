"""The paper's figures: the paper's and measured values on the same axes.

The paper's figures have no printed values. Its panels show values that its text and tables state or
imply, and name the source.
"""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from lab.library.style import STYLE, saved

# The colours of Okabe and Ito, which colour-blind readers can distinguish; line styles for print
# in grey.
BLACK, ORANGE, SKY, GREEN, BLUE = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2"
VERMILION, GREY = "#D55E00", "#767676"
STYLES = {
    0: (BLACK, ":"),
    10: (VERMILION, "-"),
    30: (ORANGE, "--"),
    70: (SKY, "-."),
    100: (BLUE, "-"),
}

PAPER, OURS = "paper", "enroute"


def draw_all(paper, measured, directory, protocol):
    """Writes the figures of a protocol with enough measurements as SVG and PNG; returns the SVGs by
    name."""
    drawn = {}
    with plt.rc_context(STYLE):
        for name, draw in (
            ("figure-4", figure_4),
            ("figure-5", lambda *arguments: densities("b", "figure-5", *arguments)),
            ("figure-6", lambda *arguments: densities("c", "figure-6", *arguments)),
            ("figure-7", figure_7),
        ):
            figure = draw(paper, measured)
            if figure is None:
                continue
            drawn[name] = saved(figure, directory / f"{name}-{protocol}")
    return drawn


def figure_4(paper, measured):
    """Ten requests for a key that is evicted each time, and ten for one that is kept."""
    evicted, kept = (measured.get(f"b-ohio-first-{capacity}") for capacity in (1, 100))
    if not evicted or not kept:
        return None
    printed = paper.paper["figure-4"]
    places = np.arange(1, 11)
    ours = [[np.median(each.nth(place)) for place in places] for each in (evicted, kept)]
    theirs = [[printed["miss_ms"]] * 10, [printed["hit_first_ms"]] + [printed["hit_later_ms"]] * 9]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, title, bars in (
        (axes[0], "Paper (averages its text states)", theirs),
        (axes[1], f"enroute (median of {len(kept.batches)} keys)", ours),
    ):
        axis.bar(places - 0.2, bars[0], 0.4, color=ORANGE, label="key not in the cache")
        axis.bar(places + 0.2, bars[1], 0.4, color=GREEN, hatch="//", edgecolor="white",
                 label="key in the cache from the 2nd request on")
        later = np.mean(bars[1][1:])
        axis.annotate(f"{later:.2g} ms", (6.2, later), (6.2, 36), ha="center", color="#00664b",
                      arrowprops={"arrowstyle": "-", "color": GREEN},
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})
        axis.axhline(evicted.run.miss_rtt_ms, color=BLACK, linestyle="--", linewidth=1,
                     label=f"ideal miss: the path, {evicted.run.miss_rtt_ms} ms")
        axis.set_title(title)
        axis.set_xticks(places)
        axis.set_xlabel("request for the same key")
        axis.grid(visible=False, axis="x")
    axes[0].set_ylabel("response time [ms]")
    axes[0].set_ylim(0, 215)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def densities(scenario, name, paper, measured):
    """Density of response times of hits and of misses; a curve's area is its share of requests."""
    location = paper.paper[name]["location"]
    runs = {
        capacity: measured.get(f"{scenario}-{location.lower()}-uniform-{capacity}")
        for capacity in (10, 30, 70, 100)
    }
    if not all(runs.values()):
        return None
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.6), sharex="row")
    for row, outcome in enumerate(("hit", "miss")):
        limits(axes[row], paper, name, outcome, runs)
        draw_stated(axes[row][0], paper, name, outcome)
        draw_measured(axes[row][1], runs, outcome)
        path = runs[10].run.hit_rtt_ms if outcome == "hit" else runs[10].run.miss_rtt_ms
        for axis in axes[row]:
            axis.set_xlabel(f"response time of {'hits' if outcome == 'hit' else 'misses'} [ms]")
            if path:
                axis.axvline(path, color=BLACK, linestyle="--", linewidth=1)
        if path:
            axes[row][0].text(path, -0.5, f" ideal: the path, {path} ms", va="bottom")
    for axis, title in (
        (axes[0][0], f"Paper, {location} (range its text states, or mean its tables imply)"),
        (axes[0][1], f"enroute, {location} (density)"),
    ):
        axis.set_title(title, fontsize=11)
    handles, labels = axes[0][1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def draw_stated(axis, paper, name, outcome):
    """Draws the known values of the paper: ranges from its text, means implied by its tables."""
    ranges, means = stated(paper, name, outcome)
    for place, capacity in enumerate((100, 70, 30, 10)):
        colour = STYLES[capacity][0]
        if capacity in ranges:
            low, high = ranges[capacity]
            axis.barh(place, high - low, left=low, height=0.5, color=colour, alpha=0.35)
            middle = (low * high) ** 0.5 if axis.get_xscale() == "log" else (low + high) / 2
            axis.text(middle, place, f"{low} to {high}", ha="center", va="center")
        elif capacity in means:
            axis.plot(means[capacity], place, "D", color=colour, markersize=8)
            axis.text(means[capacity], place, f"   {means[capacity]:.0f}", va="center")
        else:
            axis.text(0.97, place, "not stated", ha="right", va="center", color=GREY,
                      transform=axis.get_yaxis_transform())
    axis.set_yticks(range(4), ["cache 100", "cache 70", "cache 30", "cache 10"])
    axis.set_ylim(-0.6, 3.6)
    axis.grid(visible=False, axis="y")


def stated(paper, name, outcome):
    """Ranges and means by capacity.

    A miss's mean follows from a table's mean, as a share c/100 of uniform requests hits.
    """
    printed = paper.paper[name]
    table = paper.paper["table-2" if name == "figure-5" else "table-3"]
    if "hit_ms" in printed:
        hit = printed["hit_ms"]
        ranges = {}
    else:
        hit = sum(printed["hit_range_ms"]) / 2
        of_capacity = {"hit": (100, "hit_range_ms"), "miss": (10, "miss_range_ms")}[outcome]
        ranges = {of_capacity[0]: printed[of_capacity[1]]}
    if outcome == "hit":
        return ranges, {} if ranges else {100: hit}
    means = zip(table["capacities"], table[printed["location"]], strict=True)
    return ranges, {
        capacity: (mean - capacity / 100 * hit) / (1 - capacity / 100)
        for capacity, mean in means
        if 0 < capacity < 100
    }


def draw_measured(axis, runs, outcome):
    logarithmic = outcome == "hit" and not runs[10].run.hit_rtt_ms
    for capacity, each in runs.items():
        values = np.array(each.latencies(outcome))
        share = len(values) / len(each.rows)
        colour, style = STYLES[capacity]
        label = f"cache {capacity}"
        if len(values) < 2:
            continue
        grid, density = curve(np.log10(values) if logarithmic else values)
        axis.plot(10**grid if logarithmic else grid, share * density, style, color=colour,
                  label=label)
    axis.set_ylabel("share per decade" if logarithmic else "share per ms")
    axis.set_ylim(bottom=0)


def limits(axes, paper, name, outcome, runs):
    """Sets the scale of both panels of a row: it includes all stated and most measured values."""
    ranges, means = stated(paper, name, outcome)
    every = np.concatenate([each.latencies(outcome) for each in runs.values()])
    told = [value for pair in ranges.values() for value in pair] + list(means.values())
    told.append(runs[10].run.hit_rtt_ms if outcome == "hit" else runs[10].run.miss_rtt_ms)
    told = [value for value in told if value]
    low = min([np.percentile(every, 0.5), *told])
    high = max([np.percentile(every, 98), *told])
    if outcome == "hit" and not runs[10].run.hit_rtt_ms:
        axes[0].set_xscale("log")
        axes[0].set_xlim(low * 0.6, high * 2)
        axes[0].xaxis.set_major_formatter("{x:g}")
    else:
        room = (high - low) * 0.12
        axes[0].set_xlim(low - room, high + 2 * room)


def curve(values, points=400):
    """Kernel density estimate: Gaussian kernels, Silverman's rule with a robust spread."""
    values = np.asarray(values, dtype=float)
    quarter, three = np.percentile(values, [25, 75])
    spread = min(values.std(), (three - quarter) / 1.349) or values.std() or 1e-3
    width = 0.9 * spread * len(values) ** -0.2
    low, high = np.percentile(values, [0.5, 99])
    grid = np.linspace(low - 5 * width, high + 5 * width, points)
    # Values are binned first: 30,000 kernels on 400 points would take too long.
    counts, edges = np.histogram(values, bins=min(2000, 10 * len(values)))
    middles = (edges[1:] + edges[:-1]) / 2
    kernels = np.exp(-0.5 * ((grid[:, None] - middles[None, counts > 0]) / width) ** 2)
    return grid, kernels @ counts[counts > 0] / (len(values) * width * np.sqrt(2 * np.pi))


def figure_7(paper, measured):
    """Requests in each of the first 60 seconds."""
    printed = paper.paper["figure-7"]
    location, seconds = printed["location"], printed["seconds"]
    names = {0: f"b-{location.lower()}-uniform-0"} | {
        capacity: f"c-{location.lower()}-uniform-{capacity}" for capacity in (10, 30, 70, 100)
    }
    if not all(name in measured for name in names.values()):
        return None
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True)
    low, high = printed["direct_range_per_s"]
    most = printed["cache_100_most_per_s"]
    axes[0].axhspan(low, high, color=BLACK, alpha=0.35, linewidth=0)
    axes[0].text(1, high + 1.5, f"no cache: {low} to {high} per second")
    axes[0].axhline(most, color=BLUE)
    axes[0].text(1, most + 1.5, f"cache 100: up to {most} per second after the warm-up")
    axes[0].set_title("Paper (values its text states)")
    for capacity, name in names.items():
        each, (colour, style) = measured[name], STYLES[capacity]
        label = f"cache {capacity}" if capacity else "no cache"
        middle = np.arange(seconds) + 0.5
        axes[1].plot(middle, rates([row.at_s for row in each.rows], seconds), style, color=colour,
                     label=label)
        ideal = np.cumsum([0, *each.ideal_ms[:-1]]) / 1000
        axes[1].plot(middle, smooth(rates(ideal, seconds)), color=colour, linewidth=0.8, alpha=0.6)
    axes[1].set_title("enroute (thin: ideal, mean of 5 s)")
    axes[1].set_ylim(0, None)
    axes[0].set_ylabel("requests per second")
    for axis in axes:
        axis.set_xlim(0, seconds)
        axis.set_xlabel("time since the first request [s]")
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def rates(at_s, seconds):
    """Number of requests that started in each second."""
    return np.histogram(at_s, bins=seconds, range=(0, seconds))[0].astype(float)


def smooth(values, width=5):
    """Moving mean; windows are shorter at both ends."""
    window = np.ones(width)
    return np.convolve(values, window, "same") / np.convolve(np.ones(len(values)), window, "same")
