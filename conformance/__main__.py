"""Runs the test suites of a protocol directly and through the cache, and prints the differences.

Exit status: 0 if all differences are allowed, else 1.
"""

import argparse
import sys
import tempfile
import time

from conformance import comparison, suites


def main():
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("protocol", choices=sorted({suite.scheme for suite in suites.SUITES}))
    parser.add_argument("--suite", help="run only this suite [default: all of the protocol]", choices=names())
    arguments = parser.parse_args()
    chosen = [
        suite
        for suite in suites.SUITES
        if suite.scheme == arguments.protocol and arguments.suite in (None, suite.name)
    ]
    # A list, not a generator: all suites are run, even after one that differs.
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
    print(f"{suite.name}: {len(found)} tests differ, {len(forbidden)} not allowed", flush=True)
    return not forbidden


def confirmed(suite, found, allowed):
    """The differences that occur again: some tests depend on timing and fail occasionally."""
    names = [difference.name for difference in found]
    print(f"{suite.name}: {len(names)} tests differ; running them again", flush=True)
    again = comparison.differences(
        *(measured(suite, cached, names) for cached in (False, True)), allowed
    )
    return [difference for difference in again if difference.name in names]


def measured(suite, cached, names):
    """Results of the suite against a new server, directly or through a new cache."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="enroute-conformance-") as directory:
        results = suite.measure(cached, directory, names)
    way = "through the cache" if cached else "direct"
    took_s = round(time.monotonic() - started)
    print(f"{suite.name}: {way}: {comparison.counts(results)} in {took_s} s", flush=True)
    return results


if __name__ == "__main__":
    main()
