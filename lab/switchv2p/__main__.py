"""`python -m lab.switchv2p [NAME...]`: repeats the SwitchV2P paper's figures and tables."""

import csv
import sys

from lab.library import command
from lab.switchv2p import experiment, figures, report, tables


def drawn(experiments, raw, paper, directory):
    """Each experiment with its records, its table and its picture; without records if only table
    and picture of an earlier run are present."""
    every = experiment.results(raw)
    for each in experiments:
        records = each.records(every)
        if len(records) < each.runs():
            if (directory / f"{each.name}.csv").exists():
                yield each, [], *earlier(directory / f"{each.name}.csv")
        else:
            table = tables.table(each, records, paper)
            command.write(directory / f"{each.name}.csv", table)
            yield each, records, table, figures.draw(each, records, paper, directory)


def earlier(path):
    """The table and the picture that an earlier run left: raw results are not kept with them."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    picture = path.with_suffix(".svg")
    return (header, rows), picture.read_text() if picture.exists() else None


PAPER = command.Paper(
    name="switchv2p",
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
