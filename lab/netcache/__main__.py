"""`python -m lab.netcache [NAME...]`: repeats the figures of the NetCache paper; needs root."""

import os
import platform
import sys

from lab.library import command
from lab.netcache import experiment, figures, report


def drawn(experiments, raw, paper, directory):
    """Each experiment with its picture and table, or None, and the number of omitted runs."""
    for each in experiments:
        results, left_out = experiment.results(each, raw)
        if not results:
            yield each, None, left_out
            continue
        try:
            picture, table = figures.draw(each, results, paper, directory)
        except figures.Missing as missing:
            print(f"{each.name}: not drawn, no result for: {missing}", file=sys.stderr)
            yield each, None, left_out
            continue
        command.write(directory / f"{each.name}.csv", table)
        yield each, (picture, table), left_out


PAPER = command.Paper(
    name="netcache",
    experiment=experiment,
    drawn=drawn,
    page=report.page,
    table=lambda shown: shown[1] and shown[1][1],
    conditions={"cores": os.cpu_count(), "kernel": platform.release().split("-")[0]},
)

if __name__ == "__main__":
    sys.exit(command.main(PAPER))
