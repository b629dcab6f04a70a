"""Pictures of what `make bench-…` measured: target/bench/NAME.svg, from the newest raw results.

Called by those commands; needs no argument.
"""

import json
import sys

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

from lab.library.repository import ROOT, shown
from lab.library.style import STYLE, saved

BENCH = ROOT / "target" / "bench"
GOAL_MS = 10
# A read takes longer: what is shorter is one read, sent at once.
FIRST_MS = 0.001
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#999999")


def main():
    pictures = {"staleness": staleness}
    found = {name: newest(BENCH, name) for name in pictures}
    if not any(found.values()):
        sys.exit(f"{shown(BENCH)}: expected raw results, found none: run make bench-cache")
    for name, path in found.items():
        if path:
            figure = pictures[name](json.loads(path.read_text()))
            saved(figure, BENCH / name)
            print(f"picture: {shown(BENCH / name)}.svg")


def newest(bench, name):
    """The newest raw results with this name; directories are named by date."""
    return max(bench.glob(f"raw/*/{name}.json"), default=None)


@matplotlib.rc_context(STYLE)
def staleness(distributions):
    """For each line, the share of writes around the cache that are invisible for longer than a
    time: a tail on two logarithmic axes."""
    figure, axes = plt.subplots(figsize=(7, 4))
    for (name, times_ms), colour in zip(distributions.items(), COLOURS):
        count = len(times_ms)
        # Times of 0 have no place on a logarithmic axis; the share of all others remains right.
        tail = [(time, 1 - rank / count) for rank, time in enumerate(sorted(times_ms)) if time > 0]
        if tail:
            axes.step(*zip(*tail, strict=True), where="post", color=colour, label=name)
        else:
            axes.plot([], [], color=colour, label=f"{name}: never")
    axes.axvline(GOAL_MS, color="black", linestyle="--", linewidth=0.8)
    axes.axhline(0.01, color="black", linestyle=":", linewidth=0.8)
    axes.annotate(f"{GOAL_MS} ms", (GOAL_MS, 1), ha="right", xytext=(-4, -2),
                  textcoords="offset points", fontsize=8)
    axes.annotate("p99", (FIRST_MS, 0.01), va="bottom", fontsize=8)
    axes.set(xlim=(FIRST_MS, 2 * GOAL_MS), xscale="log", yscale="log", xlabel="milliseconds after the acknowledgement",
             ylabel="share of writes not yet visible")
    axes.legend(fontsize=8, loc="lower left")
    return figure


if __name__ == "__main__":
    main()
