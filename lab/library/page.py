"""Parts of a report: one self-contained page."""

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
    """An SVG document as part of a page: no prologue, and names no other picture has."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", body)
    label = html.escape(title)
    return f'<figure role="img" aria-label="{label}">{body}</figure>'
