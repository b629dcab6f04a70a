"""One page: each figure beside the statements of the paper."""

from lab.library.page import report, results

METHOD = (
    "<p>Black marks are values stated in the paper's text; its pictures print no values. Figure 9 is "
    "the program alone, run by <code>BPF_PROG_TEST_RUN</code>, without the cost of measuring. "
    "Figures 10 and 11 are the program on a router between clients and 128 rate-limited queues of "
    "one server, in network namespaces of one machine. Clients send at the rate with a loss of "
    "0.5 % to 0.75 %; a run that lost more than 2 % is omitted. Rates are 1/40,000 of the paper's: "
    "compare ratios. White marks with dotted lines, or alone, are the same rack at the paper's rates, "
    "simulated packet by packet. At the paper's rates, an item that is written as often as it is read "
    "is probably seldom back in the switch before its next read; at ours it is. The real controller "
    "also admits hot keys into places that are kept free, so that 10 items become about 60."
    "</p>"
)


def page(paper, shown, conditions):
    """`shown`: for each experiment its picture, its table, and runs left out."""
    sections = [(experiment, section(experiment, drawn, omitted)) for experiment, drawn, omitted in shown]
    return report("NetCache", paper, METHOD, conditions, sections)


def section(experiment, drawn, omitted):
    if drawn is None:
        lost = f"; {omitted} of its runs lost more than 2 %" if omitted else ""
        return [f"<p>Not run yet{lost}.</p>"]
    note = f"<p>{omitted} of its runs lost more than 2 % and are left out.</p>"
    return results(experiment, drawn) + ([note] if omitted else [])
