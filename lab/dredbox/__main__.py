"""`python -m lab.dredbox [NAME...]`: repeats the tables and figures of the dReDBox deliverable."""

import os
import platform
import sys

from lab.library import command
from lab.dredbox import experiment, figures, report


def processor():
    """Model name of the processor, from /proc/cpuinfo."""
    with open("/proc/cpuinfo") as file:
        models = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        return next(models, "unknown")


PAPER = command.Paper(
    name="dredbox",
    experiment=experiment,
    drawn=command.drawn(experiment, figures),
    page=report.page,
    table=lambda shown: shown[1] and shown[1][1],
    conditions={
        "processor": processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release().split("-")[0],
    },
)

if __name__ == "__main__":
    sys.exit(command.main(PAPER))
