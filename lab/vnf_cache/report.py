"""One self-contained page: tables and figures, the paper's beside ours, and deviations."""

import html
import statistics

from lab.library.page import document, picture, table

NAME = "VNF-Cache"

TITLES = {
    "figure-4": "Figure 4: response times of a key that is not in the cache, and of one that is",
    "figure-5": "Figure 5: densities of response times, scenario B, Tokyo (the scales differ)",
    "figure-6": "Figure 6: densities of response times, scenario C, Ohio (the scales differ)",
    "figure-7": "Figure 7: requests per second over the first 60 s, scenario C, Ohio",
    "table-1": "Table 1: scenario A, the first six requests for one key, in ms",
    "table-2": "Table 2: scenario B, mean response times",
    "table-3": "Table 3: scenario C, mean response times",
    "summary": "Every run",
}

def page(paper, measured, tables, figures, conditions):
    parts = [heading(paper, conditions), method(measured)]
    for name in ("table-1", "table-2", "table-3"):
        parts.append(section(name, table(tables[name]), deviation(name, paper, measured)))
        parts += [
            section(each, picture(svg, each, TITLES[each]), deviation(each, paper, measured))
            for each, svg in figures.items()
            if FOLLOWS[each] == name
        ]
    parts.append(section("summary", table(tables["summary"]), ""))
    return document(NAME, parts)


# The table that each figure follows.
FOLLOWS = {
    "figure-4": "table-2",
    "figure-5": "table-2",
    "figure-6": "table-3",
    "figure-7": "table-3",
}


def heading(paper, conditions):
    said = "; ".join(f"{key} {value}" for key, value in conditions.items())
    return (
        f"<h1>{NAME}, repeated with enroute</h1>"
        f"<p>The evaluation of <cite>{html.escape(paper.paper['title'])}</cite>.</p>"
        f"<p>Conditions: {html.escape(said)}.</p>"
    )


def method(measured):
    runs = [each for each in measured.values() if each.run.workload == "uniform"]
    cached = [each for each in runs if each.run.capacity]
    checked = sum(len(each.rows) for each in cached)
    wrong = sum(each.disagreements for each in cached)
    loads = [batch.load for each in runs for batch in each.batches]
    load = f"{min(loads):.1f} to {max(loads):.1f}" if loads else "unknown"
    return (
        "<p>Client, cache and server are separate processes on one machine; `enroute link` delays "
        "what crosses a path by its round trip time. The client is the official Python driver, the "
        "server a real one that speaks MongoDB's protocol. The time of a request runs from the "
        "driver's call to its return; connections are made before the first one. Every answer is "
        "compared with what was stored.</p>"
        "<p>A request that came back sooner than the path to the server allows is a hit. In "
        "scenario A, without such a path, a replay of the cache's replacement policy says which "
        f"were hits. Both are compared with the cache's own counters after each batch: {wrong} of "
        f"{checked:,} requests were counted differently.</p>"
        "<p><b>Ideal</b> is the same requests if programs took no time: a hit costs the round trip "
        "to the cache, a miss the whole path. Keys are uniform and independent, so these misses "
        "are unavoidable without knowing the future. Runs were measured several at a time on a "
        f"machine that does other work too (load average when batches began: {load}), so tenths of "
        "milliseconds mean little and single slow requests nothing.</p>"
    ).replace("`enroute link`", "<code>enroute link</code>")


def section(name, content, sentence):
    return f"<h2>{html.escape(TITLES[name])}</h2>{content}<p>{html.escape(sentence)}</p>"


def deviation(name, paper, measured):
    """Deviations from the paper and their causes, with the numbers of this measurement."""
    try:
        return DEVIATIONS[name](paper, measured)
    except KeyError as missing:
        return f"Not measured yet: {missing.args[0]}."


def table_1(paper, measured):
    printed = paper.paper["table-1"]
    direct, cache = measured["a-local-uniform-0"], measured["a-local-uniform-100"]
    first = measured["a-local-first-100"]
    later = statistics.median(first.nth(6))
    lost = 1 - printed["cache_requests_per_s"] / printed["direct_requests_per_s"]
    return (
        f"The paper's cache lost {lost:.0%} of the throughput when everything is close; here "
        f"it goes from {direct.requests_per_s:.0f} to {cache.requests_per_s:.0f} requests per "
        f"second. A hit costs {later:.2f} ms, most of it the driver's, and is cheaper than asking "
        "this server, which needs about half a millisecond for a read and more under load; a "
        "faster server would leave less to gain. The paper's Python spent several milliseconds on "
        "each packet. What the machine did besides changed from run to run: compare the medians "
        "of the six requests, measured right after each other, rather than the throughputs."
    )


def table_2(paper, measured):
    return means(paper, measured, "b", "table-2") + (
        " The paper's misses cost about 30 ms (Ohio) to 50 ms (Tokyo) more than the path, as its "
        "means imply, which is why its smallest cache was slower than none."
    )


def table_3(paper, measured):
    return means(paper, measured, "c", "table-3") + (
        " The two round trips are inferred (see scenario-c.toml): the paper's own cost of a hit, "
        "6.5 ms, is not in them, so our hits are lower by about that much. They are inferred from "
        "this very table, so agreement at small capacities shows that they fit, no more. A miss is "
        "cheaper than the direct path because the way through the cache is shorter."
    )


def means(paper, measured, scenario, name):
    sentences = []
    for location in ("ohio", "tokyo"):
        runs = [measured[f"{scenario}-{location}-uniform-{c}"] for c in (10, 30, 70, 100)]
        above = [each.mean_ms - each.ideal_mean_ms for each in runs]
        sentences.append(
            f"{location.title()}: {min(above):.1f} to {max(above):.1f} ms above the ideal, the "
            "driver, the cache and the server's own time together."
        )
        requests, full = len(runs[3].rows), 30_000
        if requests < full:
            sentences.append(
                f"With {requests:,} requests instead of {full:,}, the 100 first misses weigh more "
                "in the last column."
            )
    return " ".join(sentences)


def figure_4(paper, measured):
    evicted, kept = measured["b-ohio-first-1"], measured["b-ohio-first-100"]
    miss = statistics.median(evicted.latencies())
    later = statistics.median(kept.latencies("hit"))
    return (
        f"A miss takes {miss:.1f} ms, the path of 164 ms and the server's own time; the paper's "
        f"cache added another 16 ms. From the second request on a kept key takes {later:.2f} ms "
        "instead of 6.5 ms: no path, and no Python in the cache."
    )


def figure_5(paper, measured):
    hit = statistics.median(measured["b-tokyo-uniform-100"].latencies("hit"))
    miss = statistics.median(measured["b-tokyo-uniform-10"].latencies("miss"))
    return (
        f"Our hits lie around {hit:.2f} ms where the paper's lie between 5 and 15 ms, and our "
        f"misses around {miss:.1f} ms, next to the path's 292 ms, where the paper's lie between "
        "300 and 350 ms. As in the paper a larger cache moves requests from the lower picture to "
        "the upper one; the area under a curve is that share."
    )


def figure_6(paper, measured):
    hit = statistics.median(measured["c-ohio-uniform-100"].latencies("hit"))
    miss = statistics.median(measured["c-ohio-uniform-10"].latencies("miss"))
    return (
        f"Our hits lie around {hit:.1f} ms, the round trip to the cache of 14 ms and the cost of a "
        f"hit; our misses around {miss:.1f} ms for a path of 140 ms. The paper's lie a few "
        "milliseconds to the right of ours by what its Python costs."
    )


def figure_7(paper, measured):
    run = measured["c-ohio-uniform-100"]
    late = [row for row in run.rows if 50 <= row.at_s < 60]
    return (
        f"The course is the paper's: a climb while the cache fills, then {len(late) / 10:.0f} "
        "requests per second with 100 entries (the paper: up to 50), the round trip to the cache "
        "being the limit. One client that waits for each answer cannot be faster than the path "
        "lets it."
    )


DEVIATIONS = {
    "table-1": table_1,
    "table-2": table_2,
    "table-3": table_3,
    "figure-4": figure_4,
    "figure-5": figure_5,
    "figure-6": figure_6,
    "figure-7": figure_7,
}
