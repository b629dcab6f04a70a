"""Runs the suites of a protocol directly and through the cache, and prints how the results differ.

Exit status: 0 if they differ only where allowed, else 1.
"""

import argparse
import contextlib
import sys
import tempfile
import time

from conformance import comparison, suites
from lab.library import processes
from lab.library.repository import ROOT

ENROUTE = ROOT / "target" / "debug" / "enroute"


def main():
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("protocol", choices=sorted({suite.scheme for suite in suites.SUITES}))
    parser.add_argument("--suite", help="run this suite alone", choices=names())
    arguments = parser.parse_args()
    chosen = [
        suite
        for suite in suites.SUITES
        if suite.scheme == arguments.protocol and arguments.suite in (None, suite.name)
    ]
    # A list: each suite is run, also after one that differs.
    sys.exit(not all([is_the_same(suite) for suite in chosen]))


def names():
    return [suite.name for suite in suites.SUITES]


def is_the_same(suite):
    allowed = suite.allowed()
    for name, reason in allowed.items():
        print(f"{suite.name}: allowed to differ: {name}: {reason}")
    direct, through = (measured(suite, cached, []) for cached in (False, True))
    found = comparison.differences(direct, through, allowed)
    if found:
        found = confirmed(suite, found, allowed)
    for difference in found:
        print(f"{suite.name}: {difference}")
    forbidden = [difference for difference in found if not difference.allowed]
    print(f"{suite.name}: {len(found)} differ, {len(forbidden)} of them not allowed", flush=True)
    return not forbidden


def confirmed(suite, found, allowed):
    """Those that differ again: some tests depend on time and fail now and then."""
    names = [difference.name for difference in found]
    print(f"{suite.name}: {len(names)} differ; they are run again", flush=True)
    again = comparison.differences(
        *(measured(suite, cached, names) for cached in (False, True)), allowed
    )
    return [difference for difference in again if difference.name in names]


def measured(suite, cached, names):
    """The results of the suite at a new server, with or without a cache before it."""
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="enroute-conformance-"))
        address = stack.enter_context(suite.origin())
        if cached:
            address = stack.enter_context(cache(suite.scheme, address))
        results = suite.run(address, directory, names)
    way = "through the cache" if cached else "direct"
    took_s = round(time.monotonic() - started)
    print(f"{suite.name}: {way}: {comparison.counts(results)} in {took_s} s", flush=True)
    return results


@contextlib.contextmanager
def cache(scheme, to):
    urls = "--listen", f"{scheme}://127.0.0.1:0", "--origin", f"{scheme}://{to}"
    with processes.running(ENROUTE, "cache", *urls) as program:
        yield program.address()


if __name__ == "__main__":
    main()
