"""`python -m lab`: one page for all papers, with a verdict for each of their tables and figures.

Reads the tables that `python -m lab.PAPER` wrote for a commit, and writes `index.html` beside them.
The status is 1 while a table or figure has no result.
"""

import argparse
import html
import sys

from lab.library import claims, command, page, repository

# In the order of the page, with the titles of the papers.
PAPERS = {
    "vnf_cache": "VNF-Cache",
    "netcache": "NetCache",
    "switchv2p": "SwitchV2P",
    "annabelladb": "AnnaBellaDB",
    "dredbox": "dReDBox",
}

INTRODUCTION = (
    "<p>Each table and figure of five papers, repeated with enroute. A statement of a paper is "
    "<b>reproduced</b> if our value deviates from the paper's by at most a stated share (10 % unless "
    "the data file names another), <b>better</b> if it deviates more in the direction that users want. "
    "An item has the worst verdict of its statements; its name leads to all of them, with pictures. "
    "The papers are at hand as text only, so curves are not digitised: what is compared are the "
    "values that text, tables and captions state, and they are drawn in the same pictures. Parameters "
    "and statements are the files of <code>lab/experiments</code>.</p>"
)


def main():
    arguments = parse()
    commit = arguments.draw or repository.commit()
    judged = {
        name: claims.items(name, repository.results(commit, arguments.short, name)) for name in PAPERS
    }
    directory = repository.results(commit, arguments.short, ".")
    if not directory.exists():
        sys.exit(f"lab: no results of {commit}; `make lab` measures them")
    path = directory / "index.html"
    path.write_text(index(judged, commit, arguments.short))
    rows = [[title, *row] for name, title in PAPERS.items()
            for row in claims.summary(judged[name])[1]]
    print(command.plain((["system", *claims.summary([])[0]], rows)))
    print(f"index: {repository.shown(path)}")
    return int(any(row[2] == claims.NOT_RUN for row in rows))


def parse():
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    parser.add_argument("--short", action="store_true", help="show the results of the short runs")
    command.add_draw(parser)
    return parser.parse_args()


def index(judged, commit, short):
    every = [item for items in judged.values() for item in items]
    counts = ", ".join(
        f"{sum(item.verdict == verdict for item in every)} {verdict}"
        for verdict in reversed(claims.WORST_FIRST)
    )
    parts = [
        "<h1>Five papers, repeated with enroute</h1>",
        f"<p>Commit {html.escape(commit)}, {'short' if short else 'full'} runs: "
        f"{len(every)} tables and figures: {counts}.</p>",
        INTRODUCTION,
    ]
    for name, title in PAPERS.items():
        rows = "".join(row(name, item) for item in judged[name])
        parts.append(
            f'<h2>{title}</h2><div class="wide"><table><tr><th>item</th><th>verdict</th>'
            '<th class="text">paper</th><th class="text">here</th>'
            f'<th class="text">why not</th></tr>{rows}</table></div>'
        )
    return page.document("Five papers", parts)


def row(name, item):
    decisive = [each for each in item.judged if each.verdict == item.verdict]
    said = f"{decisive[0].claim.says}: {decisive[0].stated()}"
    return (
        f'<tr><td><a href="{name}/report.html#{item.section}">{html.escape(item.name)}</a></td>'
        f'{page.verdict_cell(item.verdict)}<td class="text">{html.escape(said)}</td>'
        f'<td class="text">{decisive[0].here()}</td>'
        f'<td class="text">{html.escape(item.causes())}</td></tr>'
    )


if __name__ == "__main__":
    sys.exit(main())
