"""pytest plugin: appends `[NAME, RESULT]` to the file $OUTCOMES when a step of a test ends.

The results up to then remain if the run is killed, unlike those in the reports of pytest itself.
"""

import json
import os


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        with open(os.environ["OUTCOMES"], "a") as file:
            print(json.dumps([report.nodeid, report.outcome]), file=file)
