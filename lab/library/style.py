"""Style, output files and legends of figures, for matplotlib."""

import matplotlib.pyplot as plt

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "enroute",
}


def saved(figure, path):
    """Writes a figure to `path` with suffixes .svg and .png, and closes it; returns the SVG."""
    svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
    figure.savefig(svg, metadata={"Date": None})
    figure.savefig(png, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return svg.read_text()


def named_once(axes):
    """Handles and labels for a legend in which no label is repeated."""
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    return handles.values(), handles.keys()
