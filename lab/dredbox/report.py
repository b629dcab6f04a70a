"""The report: each table and figure beside the deliverable's statements."""

from lab.library.page import report, results

METHOD = (
    "<p>Values are medians of all runs, with the minimum and the maximum beside them. Table 5, "
    "Figures 6 to 8 and the KPIs are measured by <code>enroute-bench db</code> and <code>enroute-bench "
    "keyserver</code>. In process, one thread calls the store and copies each value, as in section "
    "7.3. Reads of the file bypass the page cache; the paper's do not. 0 GB stands for the minimum of "
    "32 MiB, which includes the index. Tables 1 to 3 and the rescaled database are measured with "
    "<code>redis-benchmark</code> and 50 connections, and every requested key was stored; the paper "
    "requests ten million keys, most of which do not exist. Both databases have the same memory. "
    "redis-server evicts the least recently used keys, where the paper's swaps or terminates: the "
    "tables print the share of keys found. In short mode, the database of the KPIs has 100,000 keys "
    "instead of a million and a tenth of the memory. Clients and servers share the cores of one "
    "machine.</p>"
)


def page(paper, shown, judged, conditions):
    """The HTML page. `shown`: each experiment with its picture (or None) and table, or None."""
    sections = [(experiment, results(experiment, drawn)) for experiment, drawn in shown]
    return report("dReDBox", paper, METHOD, conditions, judged, sections)
