"""Repeats the experiments of a paper: executes the runs without results, then writes a report with
all figures and tables.

Results are stored under the commit that they are of. Ctrl-C keeps finished runs; run the same
command again, at the same commit, to continue. Nothing is run while the repository has uncommitted
changes.
"""

import argparse
import csv
import functools
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from lab.library import claims, processes, repository


@dataclass(frozen=True)
class Paper:
    """Parts of one paper's command."""

    # Name of its module in `lab`, its directory in `results/<commit>` and its target
    # `make lab-NAME`.
    name: str
    # Has paper(), load(names, short) and run(experiment, raw).
    experiment: ModuleType
    # drawn(experiments, raw, paper, directory): for each experiment, its content in the report.
    drawn: Callable
    # page(paper, shown, judged, conditions): the report; `judged` are the items of `claims`.
    page: Callable
    # table(shown): the table of one experiment from the output of `drawn`, or None.
    table: Callable
    conditions: dict
    # apart(experiment, raw, address): the same as experiment.run, on a Dask cluster.
    apart: Callable | None = None


def main(paper):
    arguments = parse(paper)
    if not processes.ENROUTE.exists():
        sys.exit(f"enroute is not built; `make lab-{paper.name}` builds it")
    if not arguments.draw:
        repository.refuse_uncommitted()
    experiment, short = paper.experiment, arguments.short
    commit = arguments.draw or repository.commit()
    directory = repository.results(commit, short, paper.name)
    raw = directory / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    run = functools.partial(paper.apart, address=arguments.dask) if arguments.dask else experiment.run
    stated, wanted = experiment.paper(), experiment.load(arguments.names, short)
    try:
        if not arguments.draw:
            for each, progress in announced(wanted):
                print(f"{progress} {each.name}: {each.title}", flush=True)
                run(each, raw)
    except KeyboardInterrupt:
        print("\nstopped; finished runs are kept, run the same command again to continue")
        return 130
    except processes.Failed as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return 1
    shown = list(paper.drawn(experiment.load([], short), raw, stated, directory))
    for each in shown:
        table = paper.table(each)
        if table and each[0].name in arguments.names:
            print(plain(table))
    conditions = {"mode": "short" if short else "full", "commit": commit}
    judged = claims.items(paper.name, directory)
    page = paper.page(stated, shown, judged, conditions | paper.conditions)
    (directory / "report.html").write_text(page)
    print(plain(claims.summary(judged)))
    print(f"report: {repository.shown(directory / 'report.html')}")
    return 0


# An experiment that took less had its results already.
SKIPPED_S = 2


def announced(wanted, clock=time.monotonic):
    """Each experiment, with its number and the time that the rest will take if the others take as
    long as those that were run by now."""
    took, begun = [], clock()
    for number, each in enumerate(wanted):
        left = (len(wanted) - number) * sum(took) / len(took) if took else 0
        about = f", about {math.ceil(left / 60)} min left" if left else ""
        yield each, f"[{number + 1} of {len(wanted)}{about}]"
        ended = clock()
        took += [ended - begun] if ended - begun > SKIPPED_S else []
        begun = ended


def chosen(names, known):
    """The data files with these names; all of `known` if there are none."""
    for name in names:
        if name not in known:
            raise SystemExit(f"unknown name {name}: expected one of {', '.join(known)}")
    return [known[name] for name in names or known]


def drawn(experiment, figures):
    """A `Paper.drawn` that calls figures.draw(), which returns a picture and a table."""
    def each_drawn(experiments, raw, paper, directory):
        """Each experiment with its picture and table; with None if it has no results."""
        for each in experiments:
            results = experiment.results(each, raw)
            if not results:
                yield each, None
                continue
            picture, table = figures.draw(each, results, paper, directory)
            write(directory / f"{each.name}.csv", table)
            yield each, (picture, table)

    return each_drawn


def parse(paper):
    parser = argparse.ArgumentParser(prog=f"python -m lab.{paper.name}", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures and tables to repeat [default: all]")
    parser.add_argument("--short", action="store_true", help="run for less time, at fewer points")
    add_draw(parser)
    parser.set_defaults(dask=None)
    if paper.apart:
        parser.add_argument(
            "--dask", metavar="ADDRESS",
            help="hand the runs to the workers of this Dask scheduler, for example tcp://10.0.0.1:8786",
        )
    return parser.parse_args()


def add_draw(parser):
    parser.add_argument("--draw", metavar="COMMIT", help="only draw the existing results of a commit")


def write(path, table):
    """Writes a table, `(header, rows)`, as CSV."""
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([table[0], *table[1]])


def plain(table):
    """A table as aligned text."""
    lines = [[str(cell) for cell in line] for line in (table[0], *table[1])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
