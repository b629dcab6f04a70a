"""One page: each figure beside what the paper says."""

import html

from lab.library.page import STYLE, picture, table

METHOD = (
    "<p>Black is what the paper's text states; its pictures print no values. Figure 9 is the "
    "program by itself, run by <code>BPF_PROG_TEST_RUN</code>, what measuring costs taken off. "
    "Figures 10 and 11 are the program on a router between clients and 128 rate-limited queues of "
    "one server, in network namespaces of one machine; clients ask as much as loses 0.5 % to "
    "0.75 %, and a run that lost more than 2 % is left out. Rates are a forty-thousandth of the "
    "paper's: compare ratios. White marks with dotted lines, or alone, are the same rack at the "
    "paper's rates, simulated packet by packet. At those, we think, an item written as often as it is "
    "read is seldom back in the switch before it is asked for, and at ours it is; and the real "
    "controller caches what becomes hot into what is kept free, so that 10 items become about 60."
    "</p>"
)


def page(paper, shown, conditions):
    """`shown`: for each experiment its picture, its table, and runs left out."""
    said = "; ".join(f"{key} {value}" for key, value in conditions.items())
    parts = [f"<h1>{html.escape(paper['title'])}, repeated with enroute</h1>",
             f"<p>Conditions: {html.escape(said)}.</p>", METHOD]
    for experiment, drawn, left_out in shown:
        parts.append(f"<h2>{html.escape(experiment.title)}</h2>")
        parts.append(f"<p><b>The paper says:</b> {html.escape(paper['stated'][experiment.name])}</p>")
        if drawn is None:
            lost = f"; {left_out} of its runs lost more than 2 %" if left_out else ""
            parts.append(f"<p>Not run yet{lost}.</p>")
            continue
        svg, numbers = drawn
        parts += [picture(svg, experiment.name, experiment.title), table(numbers)]
        if left_out:
            parts.append(f"<p>{left_out} of its runs lost more than 2 % and are left out.</p>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>NetCache, repeated</title><style>{STYLE}</style>"
        f"<body>{''.join(parts)}</body></html>\n"
    )
