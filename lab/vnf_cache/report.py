"""The report: the paper's tables and figures beside ours, with deviations."""

import html
import statistics

from lab.library.page import document, heading, picture, table, verdicts
from lab.vnf_cache import tables

NAME = "VNF-Cache"

TITLES = {
    "figure-4": "Figure 4: response times of a key that is not in the cache, and of one that is",
    "figure-5": "Figure 5: densities of response times, scenario B, Tokyo (the scales differ)",
    "figure-6": "Figure 6: densities of response times, scenario C, Ohio (the scales differ)",
    "figure-7": "Figure 7: requests per second over the first 60 s, scenario C, Ohio",
    "table-1": "Table 1: scenario A, the first six requests for one key, in ms",
    "table-2": "Table 2: scenario B, mean response times",
    "table-3": "Table 3: scenario C, mean response times",
    "carried-over": "Does it carry over? Response times as multiples of the ideal",
    "summary": "Every run",
}

PROTOCOLS = {
    "mongodb": "MongoDB",
    "redis": "Redis",
    "memcached": "memcached",
    "dynamodb": "DynamoDB",
}


def page(paper, measured, common, parts, judged, conditions):
    """The report. `parts`: for each protocol, its tables and its figures. `judged`: the items of
    `claims`."""
    page = [introduction(paper, conditions), method(measured)]
    page.append(section("carried-over", table(common["carried-over"]), answer(common["carried-over"])))
    for name in ("table-1", "table-2", "table-3"):
        for protocol, (numbered, _) in parts.items():
            said = deviation(name, paper, measured[protocol])
            page.append(section(name, table(numbered[name]), said, protocol))
            page += verdicts(judged, f"{name}-{protocol}")
        for each in [each for each in FOLLOWS if FOLLOWS[each] == name]:
            for protocol, (_, drawn) in parts.items():
                if each in drawn:
                    svg = picture(drawn[each], f"{each}-{protocol}", TITLES[each])
                    said = deviation(each, paper, measured[protocol])
                    page.append(section(each, svg, said, protocol))
                    page += verdicts(judged, f"{each}-{protocol}")
    page.append(section("summary", table(common["summary"]), ""))
    return document(NAME, page)


def answer(carried_over):
    """Whether the paper's result carries over to each protocol, from the numbers."""
    header, rows = carried_over
    first, last = header.index("10"), header.index("100")
    sentences = []
    for protocol in dict.fromkeys(row[2] for row in rows):
        own = [row for row in rows if row[2:4] == [protocol, "typical"]]
        ratios = [float(ratio) for row in own for ratio in row[first:last]]
        saved = [row[-1] for row in own]
        carries = "carries over" if max(ratios) <= tables.CLOSE else "does not carry over everywhere"
        sentences.append(
            f"{PROTOCOLS[protocol]}: {carries}. With 10, 30 and 70 entries a read takes "
            f"{min(ratios):.3f} to {max(ratios):.3f} times the ideal; with 100 entries it takes "
            f"{min(saved)} to {max(saved)} less than without a cache."
        )
    sentences.append(
        f"A result carries over if typical times are at most {tables.CLOSE} times those of the paths "
        "alone; typical is the mean with each request at the median of hits or of misses, without the "
        "pauses of a machine with other load, which are in the means. "
        "The ideal with 100 entries is the time of the first misses, so that in scenario B the time "
        "of a driver's call decides that column; the next one has the difference in ms."
    )
    return " ".join(sentences)


# The table that each figure follows.
FOLLOWS = {
    "figure-4": "table-2",
    "figure-5": "table-2",
    "figure-6": "table-3",
    "figure-7": "table-3",
}


def introduction(paper, conditions):
    said = "; ".join(f"{key} {value}" for key, value in conditions.items())
    return (
        f"<h1>{NAME}, repeated with enroute</h1>"
        f"<p>The evaluation of <cite>{html.escape(paper.paper['title'])}</cite>.</p>"
        f"<p>Conditions: {html.escape(said)}.</p>"
    )


def method(measured):
    every = [each for runs in measured.values() for each in runs.values()]
    runs = [each for each in every if each.run.workload == "uniform"]
    cached = [each for each in runs if each.run.capacity]
    checked = sum(len(each.rows) for each in cached)
    wrong = sum(each.disagreements for each in cached)
    loads = [batch.load for each in runs for batch in each.batches]
    load = f"{min(loads):.1f} to {max(loads):.1f}" if loads else "unknown"
    return (
        "<p>Client, cache and server are separate processes on one machine; `enroute link` emulates "
        "the round-trip time of each path. The clients are PyMongo, redis-py, pymemcache and boto3, "
        "which signs each request; the servers are FerretDB, which speaks MongoDB's protocol, "
        "redis-server, memcached and DynamoDB Local. The response time is measured from the driver's "
        "call to its return; connections are established before. Every value is compared with the "
        "stored one.</p>"
        "<p>A request that took less time than the path to the server is a hit. In scenario A, "
        "without such a path, a replay of the cache's replacement policy decides. Both are compared "
        f"with the cache's own counters after each batch: {wrong} of {checked:,} requests were "
        "counted differently.</p>"
        "<p><b>Ideal</b> is the time of the same requests if only the path took time: a hit takes "
        "the round trip to the cache, a miss the round trip to the server. Keys are uniform and "
        "independent, so these misses are unavoidable without knowledge of the future. Several runs "
        "were measured at the same time on a machine with other load (load average at the start of "
        f"batches: {load}), so differences of tenths of a millisecond and single slow requests are "
        "not significant.</p>"
    ).replace("`enroute link`", "<code>enroute link</code>")


def section(name, content, sentence, protocol=None):
    title = TITLES[name] + (f", {PROTOCOLS[protocol]}" if protocol else "")
    head = heading(title, f"{name}-{protocol}" if protocol else name)
    return f"{head}{content}<p>{html.escape(sentence)}</p>"


def deviation(name, paper, measured):
    """Deviations of this measurement from the paper, and their causes."""
    try:
        return DEVIATIONS[name](paper, measured)
    except KeyError as missing:
        return f"Not measured yet: {missing.args[0]}."


def table_1(paper, measured):
    printed = paper.paper["table-1"]
    direct, cache = measured["a-local-uniform-0"], measured["a-local-uniform-100"]
    kept, unkept = measured["a-local-first-100"], measured["a-local-first-0"]
    hit, read = statistics.median(kept.nth(6)), statistics.median(unkept.nth(6))
    lost = 1 - printed["cache_requests_per_s"] / printed["direct_requests_per_s"]
    faster = "faster" if hit < read else "slower"
    return (
        f"With all programs on one host, the paper's cache reduced the throughput by {lost:.0%}; "
        f"here it changes from {direct.requests_per_s:.0f} to {cache.requests_per_s:.0f} requests "
        f"per second. A hit takes {hit:.2f} ms, mostly in the driver, and is {faster} than a read "
        f"from this server, which takes {read:.2f} ms. The paper's Python program took several "
        "milliseconds for each packet. The other load of the machine changed from run to run: "
        "compare the medians of the six requests, which were measured in sequence, rather than the "
        "throughputs."
    )


def table_2(paper, measured):
    return means(paper, measured, "b", "table-2") + (
        " The paper's means imply misses of about 30 ms (Ohio) to 50 ms (Tokyo) more than the path, "
        "so its smallest cache was slower than no cache."
    )


def table_3(paper, measured):
    return means(paper, measured, "c", "table-3") + (
        " The two round-trip times are inferred (see scenario-c.toml). They exclude the paper's cost "
        "of a hit, 6.5 ms, so our hits are faster by about that time. They are inferred from this "
        "table, so agreement at small capacities only confirms the inference. A miss is faster than "
        "the direct path because the path through the cache is shorter."
    )


def means(paper, measured, scenario, name):
    sentences = []
    for location in ("ohio", "tokyo"):
        runs = [measured[f"{scenario}-{location}-uniform-{c}"] for c in (10, 30, 70, 100)]
        above = [each.mean_ms - each.ideal_mean_ms for each in runs]
        sentences.append(
            f"{location.title()}: {min(above):.1f} to {max(above):.1f} ms above the ideal, which is "
            "the time of driver, cache and server."
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
        f"A miss takes {miss:.1f} ms: the path of 164 ms and the server's own time; the paper's "
        f"cache added another 16 ms. A kept key takes {later:.2f} ms from the second request on, "
        "instead of 6.5 ms: there is no path, and the cache is not written in Python."
    )


def figure_5(paper, measured):
    hit = statistics.median(measured["b-tokyo-uniform-100"].latencies("hit"))
    miss = statistics.median(measured["b-tokyo-uniform-10"].latencies("miss"))
    return (
        f"Our hits take about {hit:.2f} ms (median), the paper's between 5 and 15 ms. Our misses take "
        f"about {miss:.1f} ms, close to the path's 292 ms, the paper's between 300 and 350 ms. As in "
        "the paper, a larger cache moves requests from misses to hits; the area under a curve is its "
        "share of requests."
    )


def figure_6(paper, measured):
    hit = statistics.median(measured["c-ohio-uniform-100"].latencies("hit"))
    miss = statistics.median(measured["c-ohio-uniform-10"].latencies("miss"))
    return (
        f"Our hits take about {hit:.1f} ms (median): the round trip to the cache of 14 ms and the cost "
        f"of a hit. Our misses take about {miss:.1f} ms for a path of 140 ms. The paper's take a few "
        "milliseconds more, the cost of its Python program."
    )


def figure_7(paper, measured):
    run = measured["c-ohio-uniform-100"]
    late = [row for row in run.rows if 50 <= row.at_s < 60]
    return (
        "As in the paper, the rate rises while the cache fills. With 100 entries it reaches "
        f"{len(late) / 10:.0f} requests per second (the paper: up to 50). The round trip to the cache "
        "is the limit, because one client waits for each reply."
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
