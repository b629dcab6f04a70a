"""The paper's figures, drawn from our runs, and tables of their values.

The paper's figures have no printed values; values stated in its text are drawn in black.
"""

import statistics

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt

from lab.library.style import STYLE, named_once, saved

ORANGE, BLUE, GREY, GREEN, BLACK = "#D55E00", "#0072B2", "#767676", "#009E73", "black"


def draw(experiment, results, paper, directory):
    """Writes one figure as SVG and PNG; returns the SVG and a table of its values."""
    with plt.rc_context(STYLE):
        stated = paper.get(experiment.name, {})
        figure, table = OF_KIND[experiment.kind](results, stated)
        return saved(figure, directory / experiment.name), table


class Missing(Exception):
    """A run that the figure needs lost too much, or has no result yet."""


def packets(results, stated):
    ns = {each["name"]: statistics.median(each["values"]) for each in results[0]}
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    by_size, by_cache = (16, 128, 512, 1024), (1024, 1 << 14, 1 << 16, 1 << 20)
    of_size = {size: f"{size} B" for size in by_size}
    of_cache = {count: f"128 B of {count} keys" for count in by_cache} | {1024: "128 B"}
    rows = []
    for axes, columns, unit in zip(panels, (of_size, of_cache), ("B", "keys"), strict=True):
        for what, name, label, colour in (
            ("hit {}", "hit, fixed slots", "hit, fixed slots", BLUE),
            ("hit {} in registers", "hit, register arrays", "hit, register arrays", ORANGE),
            ("update {}", "update", "update", GREEN),
            ("smallest hit {}", "smallest responder", "smallest responder, hit", GREY),
        ):
            points = [(place, ns[what.format(of)]) for place, of in columns.items()
                      if what.format(of) in ns]
            if columns is of_cache and len(points) < 2:
                continue
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=label)
            rows += [packet_row(name, f"{place} {unit}", value) for place, value in points]
        port_ns = 1e9 / stated["port_qps"]
        last = stated["value_bytes_max"] if columns is of_size else stated["items_max"]
        axes.plot([min(columns), last], [port_ns, port_ns], color=BLACK, linewidth=3,
                  label="paper: a port, as fast as its servers ask")
    for name, line in (("put of a cached key", "--"), ("miss", ":")):
        panels[0].axhline(ns[name], color=GREY, linestyle=line, label=name)
        rows.append(packet_row(name, "128 B", ns[name]))
    rows.append(packet_row("paper, a port", "any", port_ns))
    panels[0].set(title="(a) 1,024 items cached", xlabel="bytes of the value",
                  ylabel="ns a packet, of one core", ylim=(0, None))
    panels[1].set(title="(b) values of 128 B", xlabel="items cached", xscale="log")
    panels[0].legend(loc="upper left"), panels[1].legend(loc="upper left")
    return figure, (["what", "of", "ns", "per second"], rows)


def packet_row(what, of, ns):
    return [what, of, f"{ns:.0f}", f"{1e9 / ns:.0f}"]


def skew(results, stated):
    """Throughput of cache and servers (stacked) and of NoCache, relative to NoCache with uniform
    keys."""
    real = [each for each in results if not each["simulated"]]
    simulated = {key(each): each for each in results if each["simulated"]}
    uniform = of(real, 0.0, 0)["throughput_qps"]
    uniform_simulated = simulated[0.0, 0]["throughput_qps"]
    figure, axes = plt.subplots(figsize=(9, 4.5))
    rows, names = [], []
    # A skew for which one of the two runs has no result is omitted.
    pairs = {key(each) for each in real}
    skews = sorted(each for each, cached in pairs if cached and (each, 0) in pairs)
    for place, each in enumerate(skews):
        without, cached = of(real, each, 0), of(real, each, 10_000)
        names.append("uniform" if each == 0 else f"Zipf {each}")
        shares = [without["throughput_qps"] / uniform, cached["switch_qps"] / uniform,
                  cached["servers_qps"] / uniform]
        sides = (place - 0.2, place + 0.2)
        axes.bar(sides[0], shares[0], 0.36, color=GREY, label="NoCache")
        axes.bar(sides[1], shares[2], 0.36, color=BLUE, label="NetCache, servers' part")
        axes.bar(sides[1], shares[1], 0.36, bottom=shares[2], color=ORANGE,
                 label="NetCache, cache's part")
        gain = cached["throughput_qps"] / without["throughput_qps"]
        pair = [simulated[each, count]["throughput_qps"] / uniform_simulated
                for count in (0, 10_000)]
        axes.plot(sides, pair, "D", color=BLACK, markerfacecolor="white", label="simulated")
        share, times = (stated[what].get(str(each), "") for what in ("share_of_uniform", "gain"))
        if share:
            # The paper states NetCache's throughput as a multiple of NoCache's.
            axes.plot(sides, (share, share * times), "_", color=BLACK, markersize=26,
                      markeredgewidth=2, label="paper")
        if times:
            top = max(sum(shares[1:]), pair[1], share * times if share else 0)
            axes.annotate(f"{gain:.1f}×\npaper {times:g}×", (sides[1], top), ha="center",
                          xytext=(0, 8), textcoords="offset points")
        rows.append([names[-1], f"{shares[0]:.3f}", share, f"{pair[0]:.3f}", f"{gain:.1f}", times,
                     f"{pair[1] / pair[0]:.1f}", f"{shares[1]:.2f}", f"{shares[2]:.2f}",
                     f"{without['loss']:.4f}", f"{cached['loss']:.4f}"])
    axes.set(xticks=range(len(names)), xticklabels=names,
             ylabel="throughput, of NoCache's under uniform keys")
    axes.margins(y=0.2)
    axes.legend(*named_once(axes), loc="upper left")
    return figure, (["keys", "NoCache of uniform", "paper", "simulated", "NetCache over NoCache",
                     "paper", "simulated", "cache's part of uniform", "servers' part",
                     "NoCache lost", "NetCache lost"], rows)


def key(each):
    return each["config"]["skew"], each["config"]["cached"]


def of(results, skew, cached):
    for each in results:
        if key(each) == (skew, cached):
            return each
    raise Missing(f"Zipf {skew} with {cached} items cached")


def writes(results, stated):
    figure, axes = plt.subplots(figsize=(11, 4.2))
    rows = []
    base = {each["simulated"]: each["throughput_qps"] for each in results
            if not each["config"]["writes"] and not each["config"]["cached"]}
    if False not in base:
        raise Missing("nothing cached and nothing written")
    for cached, colour in ((0, GREY), (10_000, ORANGE)):
        for write_skew, marker in ((0.0, "o"), (0.99, "s")):
            for simulated in sorted(base):
                points = sorted(
                    (each["config"]["writes"], each["throughput_qps"] / base[simulated])
                    for each in results
                    if each["simulated"] == simulated and each["config"]["cached"] == cached
                    and (each["config"]["write_skew"] == write_skew
                         or not each["config"]["writes"])
                )
                name = f"{'NetCache' if cached else 'NoCache'}, " \
                       f"{'writes as skewed as reads' if write_skew else 'uniform writes'}"
                if simulated:
                    name += ", simulated"
                if points:
                    axes.plot(*zip(*points, strict=True), f"{marker}{':' if simulated else '-'}",
                              color=colour, label=name,
                              markerfacecolor="white" if simulated or write_skew else colour)
                rows += [[name, share, f"{times:.2f}"] for share, times in points]
    axes.axvline(stated["no_gain_from"], color=BLACK, linestyle="--",
                 label="paper: no gain from here, skewed writes")
    axes.set(xlabel="share of writes", ylabel="throughput, of NoCache's without writes",
             ylim=(0, None))
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure, (["", "writes", "of NoCache without writes"], rows)


def cached(results, stated):
    figure, axes = plt.subplots(figsize=(8, 4.2))
    rows, counts = [], sorted({each["config"]["cached"] for each in results})
    for simulated in (False, True):
        for each, colour in zip(sorted({each["config"]["skew"] for each in results}, reverse=True),
                                (ORANGE, BLUE), strict=False):
            runs = {run["config"]["cached"]: run["throughput_qps"] for run in results
                    if run["config"]["skew"] == each and run["simulated"] == simulated}
            if 0 not in runs:
                raise Missing(f"Zipf {each} without a cache")
            points = [(counts.index(count), qps / runs[0]) for count, qps in sorted(runs.items())]
            label = f"Zipf {each}{', simulated' if simulated else ''}"
            axes.plot(*zip(*points, strict=True), "D:" if simulated else "o-", color=colour,
                      markerfacecolor="white" if simulated else colour, label=label)
            rows += [[label, counts[place], f"{times:.1f}"] for place, times in points]
    axes.axvline(counts.index(stated["balanced_from"]), color=BLACK, linestyle="--",
                 label="paper: enough for 128 servers")
    axes.set(xlabel="items cached", ylabel="throughput over NoCache", ylim=(0, None),
             xticks=range(len(counts)),
             xticklabels=[f"{count:,}" if count else "NoCache" for count in counts])
    axes.legend()
    return figure, (["", "items", "over NoCache"], rows)


def change(results, stated):
    if not results:
        raise Missing("a run with this change")
    figure, axes = plt.subplots(figsize=(9, 3.8))
    rows = []
    for run in sorted(results, key=pause):
        taken = "at once" if pause(run) == 0 else f"every {pause(run) / 1e3:g} s"
        answered = [(each["switch"] + each["servers"]) / 1e3 for each in run["seconds"]]
        # The value of each second is drawn at the middle of the second.
        middles = [second + 0.5 for second in range(len(answered))]
        colour = GREEN if pause(run) else ORANGE
        axes.plot(middles, answered, "s-" if pause(run) else "o-", markersize=3, color=colour,
                  label=f"each second; controller takes hot keys {taken}")
        tens = [answered[at:at + 10] for at in range(0, len(answered), 10)]
        if not pause(run):
            ends = [10 * at for at in range(len(tens))] + [len(answered)]
            axes.stairs([statistics.mean(each) for each in tens], ends, baseline=None, color=BLUE,
                        linewidth=2, label="the same, each ten seconds")
            switch = [each["switch"] / 1e3 for each in run["seconds"]]
            axes.plot(middles, switch, color=GREY, linestyle=":",
                      label="the cache's part of it, each second")
        rows += changed(run, answered, tens, taken)
    every = stated["every_s"]
    for at in range(every, len(answered), every):
        axes.axvline(at, ymax=0.04, color=BLACK, label="popularity changes")
    axes.set(xlabel="seconds", ylabel="thousand answers a second", ylim=(0, None),
             xlim=(0, len(answered)))
    axes.legend(*named_once(axes), loc="lower center", ncols=2,
                bbox_to_anchor=(0.5, 1.0))
    return figure, (["controller takes hot keys", "quantity", "value"], rows)


def pause(run):
    """Interval at which the controller takes reports of hot keys, in milliseconds."""
    return run["config"].get("reports_every_ms", 0)


def changed(run, answered, tens, taken):
    """Rows of the table for one run; slowest and fastest as shares of the mean."""
    mean = statistics.mean(answered)
    rows = [["answers a second, mean", f"{mean * 1e3:.0f}"]]
    for of, values in (("second", answered), ("ten seconds", list(map(statistics.mean, tens)))):
        rows += [[f"slowest {of}", f"{min(values) / mean:.2f}"],
                 [f"fastest {of}", f"{max(values) / mean:.2f}"]]
    rows.append(["lost", f"{run['loss']:.4f}"])
    if run["recovery_s"]:
        rows += [["seconds to 90 % of before, each", ", ".join(f"{each:.1f}" for each in run["recovery_s"])],
                 ["longest recovery, s", f"{max(run['recovery_s']):.1f}"]]
    return [[taken, *row] for row in rows]


OF_KIND = {"packets": packets, "skew": skew, "writes": writes, "cached": cached, "change": change}
