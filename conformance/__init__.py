"""Runs public test suites twice: directly against a server, and through the cache.

`python -m conformance redis` or `mongodb`; `make conformance-redis` first installs the suites.

| module | content |
|---|---|
| `comparison` | differences between two runs of a suite |
| `suites` | running each suite and reading its results |
| `outcomes` | pytest plugin: writes the result of each test when it ends |
| `no_test_commands` | pytest plugin: lets PyMongo's suite use servers without test commands |

`allowed/SUITE.txt` lists the tests whose results may differ, with the reason.
"""
