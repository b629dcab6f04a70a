"""`python -m lab.switchv2p [NAME...]`: repeats the figures and tables of the SwitchV2P paper."""

import csv
import sys

from lab.library import command
from lab.switchv2p import apart, experiment, figures, report, tables, traces


def drawn(experiments, raw, paper, directory):
    """Each experiment with its records, its table and its picture. Without complete records, table
    and picture are those of an earlier run, if there are any."""
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
    """Table and picture written by an earlier run, whose raw results are not committed."""
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
    apart=apart.run,
    conditions={
        "traces": f"the authors' {', '.join(real)}" if (real := [
            name for name in traces.ARTIFACT if traces.file(name)
        ]) else "all generated"
    },
)

if __name__ == "__main__":
    sys.exit(command.main(PAPER))
