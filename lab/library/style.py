"""Style of figures, for matplotlib, and what all of them share."""

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
    """Saves a figure as SVG and PNG, with the suffixes added to `path`, and closes it; the SVG."""
    svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
    figure.savefig(svg, metadata={"Date": None})
    figure.savefig(png, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return svg.read_text()


def named_once(axes):
    """Handles and labels of a legend that has each label once."""
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    return handles.values(), handles.keys()
