"""One page: each table and figure beside what the deliverable says."""

import html

from lab.library.page import STYLE, picture, table

METHOD = (
    "<p>Values are medians of repetitions, with the smallest and the largest beside them. Table 5, "
    "Figures 6 to 8 and the KPIs are measured by <code>enroute-bench db</code> and <code>enroute-bench "
    "keyserver</code>. In the process, one thread calls the store and copies each value out, as in "
    "section 7.3. Reads of the file bypass the page cache; the paper's do not. 0 GB stands for the "
    "minimum of 32 MiB, which includes the index. Tables 1 to 3 and the rescaled database are under "
    "<code>redis-benchmark</code> with 50 connections, and every key that it requests was stored; the "
    "paper requests ten million keys, most of which do not exist. Both databases have the same memory. "
    "redis-server evicts the least recently used keys, where the paper's swaps or ends: the tables "
    "print the share of keys found. In the short mode, the database of the KPIs has 100,000 keys "
    "instead of a million and a tenth of the memory. Clients and servers share the cores of one "
    "machine.</p>"
)


def page(paper, shown, conditions):
    """`shown`: for each experiment its picture, if it has one, and its table, or None."""
    said = "; ".join(f"{key} {value}" for key, value in conditions.items())
    parts = [f"<h1>{html.escape(paper['title'])}, repeated with enroute</h1>",
             f"<p>Conditions: {html.escape(said)}.</p>", METHOD]
    for experiment, drawn in shown:
        parts.append(f"<h2>{html.escape(experiment.title)}</h2>")
        parts.append(f"<p><b>The paper says:</b> {html.escape(paper['stated'][experiment.name])}</p>")
        if drawn is None:
            parts.append("<p>Not run yet.</p>")
            continue
        svg, numbers = drawn
        if svg:
            parts.append(picture(svg, experiment.name, experiment.title))
        parts.append(table(numbers))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>dReDBox, repeated</title><style>{STYLE}</style>"
        f"<body>{''.join(parts)}</body></html>\n"
    )
