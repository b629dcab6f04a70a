"""One page: each figure beside what the paper says."""

import html

from lab.library.page import STYLE, picture, table

METHOD = (
    "<p>Four hosts are network namespaces of one machine, every pair joined by <code>enroute "
    "link</code>; a redis-server in cluster mode is on each. Functions share one state, write it once "
    "and read it ten times, over and over, as fast as they want or as its distance lets them. "
    "<b>Hash-placed</b>: the state stays on kvs2, where the hash puts it, and functions ask that node "
    "themselves. <b>Following</b>: functions ask <code>enroute state agent</code> beside them, and "
    "<code>enroute state placer</code> moves the state, both at their default periods. Vertical lines: "
    "a function starts or moves. The paper prints pictures without values; what its text states is "
    "beside ours.</p>"
)


def page(paper, shown, conditions):
    """`shown`: for each experiment its picture and table, or None."""
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
        parts += [picture(svg, experiment.name, experiment.title), table(numbers)]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>AnnaBellaDB, repeated</title><style>{STYLE}</style>"
        f"<body>{''.join(parts)}</body></html>\n"
    )
