"""The report: each figure beside the paper's statements."""

from lab.library.page import report, results

METHOD = (
    "<p>Four hosts are network namespaces of one machine, every pair connected by <code>enroute "
    "link</code>; each runs a redis-server in cluster mode. Functions share one state; each repeatedly "
    "writes it once and reads it ten times, at its own rate or at the rate that the distance allows. "
    "<b>Hash-placed</b>: the state stays on kvs2, the node of its hash slot, and functions access that "
    "node directly. <b>Following</b>: functions access <code>enroute state agent</code> on their host, "
    "and <code>enroute state placer --copies off</code> moves the state, both with default intervals. "
    "<b>Copies</b>: the same without that option, so that agents keep copies of what several hosts "
    "read, which the paper's system does not have. Vertical "
    "lines mark the times at which a function starts or moves. The paper's figures have no printed "
    "values; the values stated in its text are beside ours.</p>"
)


def page(paper, shown, judged, conditions):
    """The HTML page. `shown`: each experiment with its picture and table, or None."""
    sections = [(experiment, results(experiment, drawn)) for experiment, drawn in shown]
    return report("AnnaBellaDB", paper, METHOD, conditions, judged, sections)
