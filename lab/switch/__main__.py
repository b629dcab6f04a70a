"""`python -m lab.switch [NAME...]`: runs what is missing of the NetCache paper's figures, then draws
them. `python -m lab.switch figure-10a` does one. As root.

Ctrl-C keeps every finished run; the same command goes on from there.
"""

import argparse
import csv
import datetime
import sys

from lab import __main__ as common
from lab import processes
from lab.switch import experiment, figures, report


def main():
    arguments = parse()
    if not processes.ENROUTE.exists():
        sys.exit("enroute is not built; `make lab-switch` builds it")
    suffix = "-short" if arguments.short else ""
    directory = common.RESULTS / f"{arguments.date}{suffix}" / "netcache"
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
    shown = [one(each, raw, paper, directory) for each in experiment.load([], arguments.short)]
    conditions = {"mode": "short" if arguments.short else "full", "revision": common.revision()}
    (directory / "report.html").write_text(report.page(paper, shown, conditions))
    print(f"report: {common.shown(directory / 'report.html')}")
    return 0


def parse():
    parser = argparse.ArgumentParser(prog="python -m lab.switch", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures [default: all]")
    parser.add_argument("--short", action="store_true", help="shorter runs, fewer points")
    parser.add_argument("--draw", action="store_true", help="run nothing, only draw")
    parser.add_argument("--date", default=str(datetime.date.today()), help="results to go on with")
    return parser.parse_args()


def one(each, raw, paper, directory):
    results, left_out = experiment.results(each, raw)
    if not results:
        return each, None, left_out
    picture, table = figures.draw(each, results, paper, directory)
    with (directory / f"{each.name}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([table[0], *table[1]])
    return each, (picture, table), left_out


if __name__ == "__main__":
    sys.exit(main())
