"""`python -m lab.fabric [NAME...]`: runs what is missing of the SwitchV2P paper's figures and
tables, then draws them. `python -m lab.fabric figure-5a` does one.

Ctrl-C keeps every finished run; the same command goes on from there.
"""

import argparse
import csv
import datetime
import sys

from lab import __main__ as common
from lab import processes
from lab.fabric import experiment, figures, report, tables


def main():
    arguments = parse()
    if not processes.ENROUTE.exists():
        sys.exit("enroute is not built; `make lab-fabric` builds it")
    suffix = "-short" if arguments.short else ""
    directory = common.RESULTS / f"{arguments.date}{suffix}" / "switchv2p"
    raw = directory / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    paper, wanted = experiment.paper(), experiment.load(arguments.names, arguments.short)
    try:
        if not arguments.draw:
            for each in wanted:
                print(f"{each.name}: {each.title}", flush=True)
                experiment.run(each, raw)
    except KeyboardInterrupt:
        print("\nstopped; finished runs are kept, the same command goes on from here")
        return 130
    except experiment.Failed as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return 1
    every = experiment.results(raw)
    shown = [one(each, every, paper, directory) for each in experiment.load([], arguments.short)]
    shown = [each for each in shown if each[1]]
    (directory / "report.html").write_text(report.page(paper, shown, conditions(arguments)))
    print(f"report: {common.shown(directory / 'report.html')}")
    return 0


def parse():
    parser = argparse.ArgumentParser(prog="python -m lab.fabric", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures and tables [default: all]")
    parser.add_argument("--short", action="store_true", help="shorter traces, fewer cache sizes")
    parser.add_argument("--draw", action="store_true", help="run nothing, only draw")
    parser.add_argument("--date", default=str(datetime.date.today()), help="results to go on with")
    return parser.parse_args()


def one(each, every, paper, directory):
    records = each.records(every)
    table = tables.table(each, records, paper)
    if records:
        with (directory / f"{each.name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([table[0], *table[1]])
    return each, records, table, figures.draw(each, records, paper, directory)


def conditions(arguments):
    return {
        "mode": "short" if arguments.short else "full",
        "revision": common.revision(),
        "traces": "the paper's where present" if experiment.SHARED.exists() else "all drawn",
    }


if __name__ == "__main__":
    sys.exit(main())
