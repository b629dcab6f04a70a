"""A plugin of pytest: appends `[NAME, RESULT]` to the file OUTCOMES when a step of a test ends.

A run that is killed leaves the results until then, which the reports of pytest itself do not.
"""

import json
import os


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        with open(os.environ["OUTCOMES"], "a") as file:
            print(json.dumps([report.nodeid, report.outcome]), file=file)
