"""`python -m lab.annabelladb [NAME...]`: repeats the figures of AnnaBellaDB; needs root."""

import sys

from lab.library import command
from lab.annabelladb import experiment, figures, report


PAPER = command.Paper(
    name="annabelladb",
    experiment=experiment,
    drawn=command.drawn(experiment, figures),
    page=report.page,
    table=lambda shown: shown[1] and shown[1][1],
    conditions={},
)

if __name__ == "__main__":
    sys.exit(command.main(PAPER))
