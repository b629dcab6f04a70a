"""The report: each figure beside the paper's statements."""

from lab.library.page import report, results

METHOD = (
    "<p>Black marks are values stated in the paper's text; its figures have no printed values. Figure "
    "9 measures the program alone with <code>BPF_PROG_TEST_RUN</code>, without the overhead of the "
    "measurement. Figures 10 and 11 measure the program on a router between clients and 128 "
    "rate-limited queues of one server, in network namespaces of one machine. Clients send at the "
    "rate at which 0.5 % to 0.75 % is lost; a run that lost more than 2 % is omitted. Rates are "
    "1/40,000 of the paper's: compare ratios. White marks are the same rack at the paper's rates, "
    "simulated packet by packet. At the paper's rates, an item that is written as often as it is read "
    "is probably rarely in the switch again before its next read; at ours it is. The real controller "
    "also admits hot keys into reserved places, so that 10 items become about 60."
    "</p>"
)


def page(paper, shown, judged, conditions):
    """The HTML page. `shown`: each experiment with its picture and table, or None, and the number
    of omitted runs."""
    sections = [(experiment, section(experiment, drawn, omitted)) for experiment, drawn, omitted in shown]
    return report("NetCache", paper, METHOD, conditions, judged, sections)


def section(experiment, drawn, omitted):
    if drawn is None:
        lost = f"; {omitted} of its runs lost more than 2 %" if omitted else ""
        return [f"<p>Not run yet{lost}.</p>"]
    note = f"<p>{omitted} of its runs lost more than 2 % and are omitted.</p>"
    return results(experiment, drawn) + ([note] if omitted else [])
