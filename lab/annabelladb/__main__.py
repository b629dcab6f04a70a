"""`python -m lab.annabelladb [NAME...]`: repeats the AnnaBellaDB paper's figures; needs root."""

import sys

from lab.library import command
from lab.annabelladb import experiment, figures, report


def drawn(experiments, raw, paper, directory):
    """Each experiment with its picture and table, if it was run."""
    for each in experiments:
        runs = experiment.results(each, raw)
        if not runs:
            yield each, None
            continue
        picture, table = figures.draw(each, runs, paper, directory)
        command.write(directory / f"{each.name}.csv", table)
        yield each, (picture, table)


PAPER = command.Paper(
    name="annabelladb",
    experiment=experiment,
    drawn=drawn,
    page=report.page,
    table=lambda shown: shown[1] and shown[1][1],
    conditions={},
)

if __name__ == "__main__":
    sys.exit(command.main(PAPER))
