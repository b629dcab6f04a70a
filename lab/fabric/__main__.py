"""`python -m lab.fabric [NAME...]`: the SwitchV2P paper's figures and tables, or those named."""

import sys

from lab import command
from lab.fabric import experiment, figures, report, tables


def drawn(experiments, raw, paper, directory):
    """Each experiment with its records, its table and its picture."""
    every = experiment.results(raw)
    for each in experiments:
        if records := each.records(every):
            table = tables.table(each, records, paper)
            command.write(directory / f"{each.name}.csv", table)
            yield each, records, table, figures.draw(each, records, paper, directory)


PAPER = command.Paper(
    module="fabric",
    directory="switchv2p",
    target="lab-fabric",
    experiment=experiment,
    drawn=drawn,
    page=report.page,
    table=lambda shown: shown[2],
    conditions={
        "traces": "the paper's where present" if experiment.SHARED.exists() else "all drawn"
    },
)

if __name__ == "__main__":
    sys.exit(command.main(PAPER))
