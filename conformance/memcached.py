"""Runs memcached's own tests (t/*.t of its source package), each file in a process of its own.

The tests start memcached themselves, with options of their own. What they start is
`memcached_server.py`, which puts the cache before it.
"""

import os
import re
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance.command import run
from lab.library.repository import ROOT

ENROUTE = ROOT / "target" / "debug" / "enroute"
TESTS = ROOT / ".deps" / "memcached-tests"
SERVER = Path(__file__).parent / "memcached_server.py"
FILE_S = 10 * 60
# They mostly wait.
AT_ONCE = 4

# Files of tests that are about something else than the listener, and why.
NOT_RUN = {
    "binary.t": "the binary protocol, which the cache refuses",
    "binary-get.t": "the binary protocol, which the cache refuses",
    "binary-extstore.t": "the binary protocol, which the cache refuses",
    "binary-sasl.t": "the binary protocol, which the cache refuses",
    "issue_50.t": "the binary protocol, which the cache refuses",
    "udp.t": "UDP, which the cache refuses",
    "unixsocket.t": "Unix sockets, which the cache has not",
    "daemonize.t": "the process of the server",
    "issue_67.t": "ports of the server",
    "stats-conns.t": "ports of the server",
    "maxconns.t": "the limit of connections of the server",
}

LINE = re.compile(r"^(not )?ok (\d+)(?: - (.*?))?(?: # (skip|TODO)\b.*)?$", re.MULTILINE)
SKIPPED = re.compile(r"^1\.\.0 # SKIP", re.MULTILINE)


def measure(cached, directory, names):
    """Results by name: file, number and description of a test."""
    place = installed(Path(directory))
    files = sorted({name.partition(":")[0] for name in names}) or all_files()
    environment = {**os.environ, "ENROUTE": str(ENROUTE if cached else ""), "PERL5LIB": str(place / "t" / "lib")}

    def results(file):
        command = ["perl", f"t/{file}"]
        output, status = run(command, place, FILE_S, environment)
        return tap_results(file, output, status)

    found = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for result in pool.map(results, files):
            found.update(result)
    return found


def all_files():
    return sorted(path.name for path in (TESTS / "t").glob("*.t") if path.name not in NOT_RUN)


def installed(place):
    """A directory as the tests expect it: their own, and the programs that they start."""
    (place / "t").symlink_to(TESTS / "t")
    server = shlex.join([sys.executable, str(SERVER)])
    programs = {"memcached-debug": f"exec {server}", "timedrun": "shift\nexec"}
    for name, start in programs.items():
        program = place / name
        program.write_text(f'#!/bin/sh\n{start} "$@"\n')
        program.chmod(0o755)
    return place


def tap_results(file, output, status):
    """Results in the output of one file, in TAP."""
    results = {}
    for failed, number, said, how in LINE.findall(output):
        result = "skipped" if how else "failed" if failed else "passed"
        results[f"{file}: {number} {said}".rstrip()] = result
    if SKIPPED.search(output):
        results[file] = "skipped"
    elif status != 0:
        results[f"{file}: ended"] = "failed"
    return results
