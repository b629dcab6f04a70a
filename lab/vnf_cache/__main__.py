"""`python -m lab.vnf_cache`: repeats the tables and figures of the VNF-Cache paper, for MongoDB, as
in the paper, and for Redis, memcached and DynamoDB. Measures the batches without results, then writes a report with all tables and figures.

Results are stored under the commit that they are of. Ctrl-C keeps finished batches; run the same
command again, at the same commit, to continue. Nothing is measured while the repository has
uncommitted changes.
"""

import argparse
import datetime
import json
import os
import platform
import signal
import sys
from importlib.metadata import version

from lab.library import claims, command, processes, repository
from lab.library.repository import shown
from lab.vnf_cache import experiment, figures, report, runner, tables

NAME = "vnf_cache"
CLIENTS = ("pymongo", "redis", "pymemcache", "boto3")


def main():
    arguments = parse()
    commit = arguments.draw or repository.commit()
    directory = repository.results(commit, arguments.short, NAME)
    paper = experiment.load(arguments.short)
    if not arguments.draw:
        for program in (processes.ENROUTE, processes.FERRETDB, processes.DYNAMODB):
            if not program.exists():
                sys.exit(f"{program.name} is not built; `make lab-{NAME}` builds it")
        repository.refuse_uncommitted()
        status = measure(paper, directory, arguments.short, commit)
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
        help="measure fewer batches with the same delays; takes fifteen minutes",
    )
    command.add_draw(parser)
    return parser.parse_args()


def measure(paper, directory, short, commit):
    print(f"results: {shown(directory)}")
    directory.mkdir(parents=True, exist_ok=True)
    conditions = directory / "conditions.json"
    if not conditions.exists():
        conditions.write_text(json.dumps(now_and_here(short, commit), indent=2) + "\n")
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
    return 0


def draw(paper, directory):
    measured = tables.read_all(paper, directory)
    if not any(measured.values()):
        sys.exit(f"no measured batches in {shown(directory)}; raw results are not committed")
    common = {
        "carried-over": tables.carried_over(paper, measured),
        "summary": tables.summary(measured),
    }
    for name, table in common.items():
        command.write(directory / f"{name}.csv", table)
    parts = {}
    for protocol, runs in measured.items():
        numbered = tables.numbered(paper, runs)
        for name, table in numbered.items():
            command.write(directory / f"{name}-{protocol}.csv", table)
        command.write(directory / f"figures-{protocol}.csv", tables.of_figures(paper, runs))
        parts[protocol] = (numbered, figures.draw_all(paper, runs, directory, protocol))
    conditions = json.loads((directory / "conditions.json").read_text())
    judged = claims.items(NAME, directory)
    page = report.page(paper, measured, common, parts, judged, conditions)
    (directory / "report.html").write_text(page)
    print(command.plain(claims.summary(judged)))


def now_and_here(short, commit):
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "mode": "short" if short else "full",
        "cores": os.cpu_count(),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "clients": ", ".join(f"{name} {version(name)}" for name in CLIENTS),
        "commit": commit,
        "servers": "FerretDB 1.24.0 on SQLite, " + ", ".join(
            [stated("redis-server", "--version"), stated("memcached", "-V"), "DynamoDB Local 2.5"]
        ),
    }


def stated(*command):
    """The first words in which a server states its version."""
    return " ".join(processes.output(*command).decode().split()[:3])


if __name__ == "__main__":
    sys.exit(main())
