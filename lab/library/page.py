"""HTML report: one page without external files."""

import html
import re

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-size: 14px; margin: 1rem 0 }
td, th { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap }
tr.enroute { font-weight: 600 }
.wide { overflow-x: auto }
figure { margin: 1rem 0 }
svg { max-width: 100%; height: auto }
td.text { text-align: left; white-space: normal }
.not-reproduced, .not-run { color: #a32f00 }
.better, .reproduced { color: #00664b }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #e3e3e3 }
  a { color: #8ab8ff }
  td, th { border-color: #3a3d44 }
  figure { background: white }
  .not-reproduced, .not-run { color: #ff9d70 }
  .better, .reproduced { color: #5fd3ad }
}
figcaption { max-width: 50rem }
"""


def table(numbered):
    header, rows = numbered
    cells = "".join(f"<th>{html.escape(str(each).replace('_', ' '))}</th>" for each in header)
    body = "".join(
        f'<tr class="{"enroute" if "enroute" in row[:2] else ""}">'
        + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{cells}</tr>{body}</table></div>'


def picture(svg, name, title):
    """An SVG document for inclusion in a page: no prologue, ids unique in the page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", body)
    label = html.escape(title)
    return f'<figure role="img" aria-label="{label}">{body}</figure>'


def report(name, paper, method, conditions, judged, sections):
    """The report. `sections`: for each experiment, the parts of its section. `judged`: the items of
    `claims`."""
    stated = "; ".join(f"{key} {value}" for key, value in conditions.items())
    parts = [f"<h1>{html.escape(paper['title'])}, repeated with enroute</h1>",
             f"<p>Conditions: {html.escape(stated)}.</p>", method]
    for experiment, section in sections:
        parts.append(heading(experiment.title, experiment.name))
        parts.append(f"<p><b>The paper says:</b> {html.escape(paper['stated'][experiment.name])}</p>")
        parts += section + verdicts(judged, experiment.name)
    return document(name, parts)


def heading(title, section):
    """A heading that a link can name."""
    return f'<h2 id="{section}">{html.escape(title)}</h2>'


def verdicts(judged, section):
    """What the paper says beside our values, for the items that a section shows."""
    return [claims_of(item) for item in judged if item.section == section]


def claims_of(item):
    rows = "".join(
        f'<tr><td class="text">{html.escape(each.claim.says)}</td><td>{each.stated()}</td>'
        f"<td>{each.here()}</td><td>{each.difference()}</td>{verdict_cell(each.verdict)}</tr>"
        for each in item.judged
    )
    reason = item.causes()
    why = f"<p>Why not: {html.escape(reason)}.</p>" if reason else ""
    return (
        f"<p><b>{html.escape(item.name)}: {verdict_word(item.verdict)}</b></p>"
        '<div class="wide"><table><tr><th class="text">what</th><th>paper</th><th>here</th>'
        f"<th>difference</th><th></th></tr>{rows}</table></div>{why}"
    )


def verdict_cell(verdict):
    return f"<td>{verdict_word(verdict)}</td>"


def verdict_word(verdict):
    return f'<span class="{verdict.replace(" ", "-")}">{verdict}</span>'


def document(name, parts):
    """An HTML page with these parts; `name` is the paper's system."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{name}, repeated</title><style>{STYLE}</style>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def results(experiment, drawn):
    """The parts of a section. `drawn`: picture (or None) and table; None if it was not run."""
    if drawn is None:
        return ["<p>Not run yet.</p>"]
    svg, numbers = drawn
    return ([picture(svg, experiment.name, experiment.title)] if svg else []) + [table(numbers)]
