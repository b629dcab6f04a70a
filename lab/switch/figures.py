"""The paper's figures from our runs, and the numbers they are drawn from."""

import statistics

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt

from lab.figures import STYLE

ORANGE, BLUE, GREY, GREEN = "#D55E00", "#0072B2", "#767676", "#009E73"


def draw(experiment, results, paper, directory):
    """One figure as SVG and PNG: the SVG's text, and a table of its numbers."""
    with plt.rc_context(STYLE):
        figure, table = OF_KIND[experiment.kind](results, paper)
        figure.savefig(directory / f"{experiment.name}.svg", metadata={"Date": None})
        figure.savefig(directory / f"{experiment.name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)
    return (directory / f"{experiment.name}.svg").read_text(), table


class Missing(Exception):
    """A run that everything else is compared with lost too much, or is still to come."""


def packets(results, _paper):
    ns = {each["name"]: statistics.median(each["values"]) for each in results[0]}
    figure, (sizes, caches) = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    by_size, by_cache = (16, 128, 512, 1024), (1024, 1 << 14, 1 << 16, 1 << 20)
    rows = []
    for suffix, label, colour in (("", "fixed slots", BLUE), (" in registers", "register arrays",
                                                              ORANGE)):
        points = [(size, ns[f"hit {size} B{suffix}"]) for size in by_size]
        sizes.plot(*zip(*points, strict=True), "o-", color=colour, label=f"hit, {label}")
        rows += [[f"hit, {label}", f"{size} B", f"{value:.0f}"] for size, value in points]
        keys = {1024: f"hit 128 B{suffix}"}
        keys |= {count: f"hit 128 B of {count} keys{suffix}" for count in by_cache[1:]}
        points = [(count, ns[name]) for count, name in keys.items() if name in ns]
        caches.plot(*zip(*points, strict=True), "o-", color=colour, label=f"hit, {label}")
        rows += [[f"hit, {label}", f"{count} keys", f"{value:.0f}"] for count, value in points]
    points = [(size, ns[f"update {size} B"]) for size in by_size if f"update {size} B" in ns]
    if points:
        sizes.plot(*zip(*points, strict=True), "o-", color=GREEN, label="update")
        rows += [["update", f"{size} B", f"{value:.0f}"] for size, value in points]
    for name, colour in (("put of a cached key", GREEN), ("miss", GREY)):
        sizes.axhline(ns[name], color=colour, linestyle=":", label=name)
        rows.append([name, "", f"{ns[name]:.0f}"])
    sizes.axhline(ns["smallest hit 128 B"], color="black", linestyle="--",
                  label="smallest responder, 128 B")
    rows.append(["smallest responder", "128 B", f"{ns['smallest hit 128 B']:.0f}"])
    sizes.set(xlabel="bytes of the value", ylabel="ns a packet", ylim=(0, None))
    caches.set(xlabel="items cached", xscale="log")
    sizes.legend(), caches.legend()
    return figure, (["what", "of", "ns"], rows)


def skew(results, paper):
    """Cache and servers stacked, beside NoCache, as shares of uniform keys without a cache."""
    real = [each for each in results if not each["simulated"]]
    simulated = {key(each): each for each in results if each["simulated"]}
    uniform = of(real, 0.0, 0)["throughput_qps"]
    uniform_simulated = simulated[0.0, 0]["throughput_qps"]
    figure, axes = plt.subplots(figsize=(8, 4))
    rows, names = [], []
    # A rack without its other half lost too much in every run, and is left out.
    pairs = {key(each) for each in real}
    skews = sorted(each for each, cached in pairs if cached and (each, 0) in pairs)
    for place, each in enumerate(skews):
        without, cached = of(real, each, 0), of(real, each, 10_000)
        names.append("uniform" if each == 0 else f"zipf {each}")
        shares = [without["throughput_qps"] / uniform, cached["switch_qps"] / uniform,
                  cached["servers_qps"] / uniform]
        axes.bar(place - 0.2, shares[0], 0.38, color=GREY, label="NoCache")
        axes.bar(place + 0.2, shares[2], 0.38, color=BLUE, label="NetCache, servers")
        axes.bar(place + 0.2, shares[1], 0.38, bottom=shares[2], color=ORANGE,
                 label="NetCache, switch")
        gain = cached["throughput_qps"] / without["throughput_qps"]
        pair = [simulated[each, cached]["throughput_qps"] for cached in (0, 10_000)]
        axes.plot([place - 0.2, place + 0.2], [each / uniform_simulated for each in pair], "D",
                  color="black", markerfacecolor="none", label="simulated")
        stated = paper["figure-10a"]
        rows.append([names[-1], f"{shares[0]:.3f}", stated["share_of_uniform"].get(str(each), ""),
                     f"{gain:.1f}", stated["gain"].get(str(each), ""), f"{pair[1] / pair[0]:.1f}",
                     f"{shares[1] + shares[2]:.2f}", f"{cached['loss']:.3f}"])
    axes.set(xticks=range(len(names)), xticklabels=names,
             ylabel="throughput, of uniform without a cache")
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(handles.values(), handles.keys())
    return figure, (["keys", "NoCache of uniform", "paper", "NetCache over NoCache", "paper",
                     "simulated", "NetCache of uniform", "lost"], rows)


def key(each):
    return each["config"]["skew"], each["config"]["cached"]


def of(results, skew, cached):
    for each in results:
        if key(each) == (skew, cached):
            return each
    raise Missing(f"Zipf {skew} with {cached} items cached")


def writes(results, _paper):
    figure, axes = plt.subplots(figsize=(7, 4))
    rows = []
    for cached, colour in ((0, GREY), (10_000, ORANGE)):
        for write_skew, line in ((0.0, "-"), (0.99, "--")):
            points = sorted(
                (each["config"]["writes"], each["throughput_qps"]) for each in results
                if each["config"]["cached"] == cached
                and each["config"]["write_skew"] == write_skew
            )
            name = f"{'NetCache' if cached else 'NoCache'}, {'skewed' if write_skew else 'uniform'}"
            if points:
                axes.plot(*zip(*points, strict=True), "o", linestyle=line, color=colour,
                          label=f"{name} writes")
            rows += [[f"{name} writes", share, f"{qps:.0f}"] for share, qps in points]
    axes.set(xlabel="share of writes", ylabel="answers a second", ylim=(0, None))
    axes.legend()
    return figure, (["", "writes", "answers a second"], rows)


def cached(results, _paper):
    figure, axes = plt.subplots(figsize=(7, 4))
    rows = []
    for simulated in (False, True):
        for each, colour in zip(sorted({each["config"]["skew"] for each in results}),
                                (BLUE, ORANGE), strict=False):
            runs = {run["config"]["cached"]: run["throughput_qps"] for run in results
                    if run["config"]["skew"] == each and run["simulated"] == simulated}
            if 0 not in runs:
                raise Missing(f"Zipf {each} without a cache")
            points = [(max(count, 1), qps / runs[0]) for count, qps in sorted(runs.items())]
            label = f"zipf {each}{', simulated' if simulated else ''}"
            axes.plot(*zip(*points, strict=True), "D:" if simulated else "o-", color=colour,
                      label=label)
            rows += [[label, count, f"{runs[count] / runs[0]:.1f}"] for count in sorted(runs)]
    axes.set(xlabel="items cached", ylabel="throughput over NoCache", xscale="log", ylim=(0, None))
    axes.legend()
    return figure, (["", "items", "over NoCache"], rows)


def change(results, _paper):
    run = results[0]
    answered = [each["switch"] + each["servers"] for each in run["seconds"]]
    figure, axes = plt.subplots(figsize=(9, 3.5))
    axes.plot(range(len(answered)), answered, color=ORANGE, label="each second")
    tens = [statistics.mean(answered[at:at + 10]) for at in range(0, len(answered), 10)]
    axes.step([10 * at for at in range(len(tens) + 1)], [*tens, tens[-1]], where="post", color=BLUE,
              label="each ten seconds")
    axes.plot(range(len(answered)), [each["switch"] for each in run["seconds"]], color=GREY,
              linestyle=":", label="the switch's part")
    axes.set(xlabel="seconds", ylabel="answers a second", ylim=(0, None))
    axes.legend()
    rows = [["answers a second, mean", f"{statistics.mean(answered):.0f}"],
            ["least in a second", f"{min(answered)}"], ["most in a second", f"{max(answered)}"],
            ["lost", f"{run['loss']:.4f}"]]
    if run["recovery_s"]:
        rows.append(["seconds to 90 % of before", ", ".join(f"{each:.1f}"
                                                          for each in run["recovery_s"])])
    return figure, (["", ""], rows)


OF_KIND = {"packets": packets, "skew": skew, "writes": writes, "cached": cached, "change": change}
