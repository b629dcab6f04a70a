"""`python -m lab.vnf_cache`: repeats the tables and figures of the VNF-Cache paper. Measures the
batches without results, then writes a report with all tables and figures.

Ctrl-C keeps finished batches; run the same command again to continue. Nothing is measured while the
repository has uncommitted changes.
"""

import argparse
import datetime
import json
import os
import platform
import signal
import sys

import pymongo

from lab.library import command, processes, repository
from lab.library.repository import shown
from lab.vnf_cache import experiment, figures, report, runner, tables

RESULTS = repository.RESULTS
NAME = "vnf_cache"


def main():
    arguments = parse()
    directory = results_directory(arguments)
    paper = experiment.load(arguments.short)
    if not arguments.draw:
        for program in (processes.ENROUTE, processes.FERRETDB):
            if not program.exists():
                sys.exit(f"{program.name} is not built; `make lab-{NAME}` builds it")
        repository.refuse_uncommitted()
        status = measure(paper, directory, arguments.short)
        if status:
            return status
    draw(paper, directory)
    print(f"report: {shown(directory / 'report.html')}")
    return 0


def parse():
    parser = argparse.ArgumentParser(prog="python -m lab.vnf_cache", description=__doc__)
    parser.add_argument(
        "--short",
        action="store_true",
        help="measure fewer batches with the same delays; takes ten minutes",
    )
    parser.add_argument(
        "--date", help="date of the results to resume [default: the last unfinished ones, or today]"
    )
    parser.add_argument("--draw", action="store_true", help="only draw the existing results")
    return parser.parse_args()


def measure(paper, directory, short):
    print(f"results: {shown(directory)}")
    directory.mkdir(parents=True, exist_ok=True)
    conditions = directory / "conditions.json"
    if not conditions.exists():
        conditions.write_text(json.dumps(now_and_here(short), indent=2) + "\n")
    # Even if the shell started this with SIGINT ignored. SIGTERM is handled like SIGINT.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    try:
        runner.measure_all(paper, directory, short)
    except KeyboardInterrupt:
        print("\nstopped; finished batches are kept, run the same command again to continue")
        return 130
    except processes.Failed as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return 1
    (directory / "finished").touch()
    return 0


def draw(paper, directory):
    measured = tables.read_all(paper, directory)
    if not measured:
        sys.exit(f"no measured batches in {shown(directory)}; raw results are not committed")
    numbered = {
        "table-1": tables.table_1(paper, measured),
        "table-2": tables.table_2(paper, measured),
        "table-3": tables.table_3(paper, measured),
        "summary": tables.summary(measured),
    }
    for name, table in numbered.items():
        command.write(directory / f"{name}.csv", table)
    drawn = figures.draw_all(paper, measured, directory)
    conditions = json.loads((directory / "conditions.json").read_text())
    page = report.page(paper, measured, numbered, drawn, conditions)
    (directory / "report.html").write_text(page)


def results_directory(arguments):
    """`results/<date>[-short]/vnf_cache`: of the given date, the last unfinished, or today's."""
    suffix = "-short" if arguments.short else ""
    if arguments.date:
        return RESULTS / f"{arguments.date}{suffix}" / NAME
    for path in sorted(RESULTS.glob(f"????-??-??{suffix}/{NAME}"), reverse=True):
        if arguments.draw or not (path / "finished").exists():
            return path
    return RESULTS / f"{datetime.date.today()}{suffix}" / NAME


def now_and_here(short):
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "mode": "short" if short else "full",
        "cores": os.cpu_count(),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "pymongo": pymongo.version,
        "revision": repository.revision(),
        "server": "FerretDB 1.24.0, SQLite",
    }


if __name__ == "__main__":
    sys.exit(main())
