"""Public test suites, run twice: directly against a server, and through the cache.

`python -m conformance redis` or `mongodb`; `make conformance-redis` installs what it needs first.

| module | what it is |
|---|---|
| `comparison` | two runs of a suite, and how they differ |
| `suites` | how each suite is run, and how its results are read |
| `outcomes` | plugin of pytest: writes the result of each test as it ends |
| `no_test_commands` | plugin of pytest: lets PyMongo's suite use servers without test commands |

`allowed/SUITE.txt` has the tests whose result may differ, with the reason.
"""
