"""Checks the alerts for Prometheus: by promtool, and against the metrics of running services."""

import contextlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from lab.library import processes
from lab.library.repository import ROOT

ENROUTE = ROOT / "target" / "debug" / "enroute"
MONITORING = ROOT / "monitoring"
RULES = MONITORING / "enroute.rules.yml"
RULES_TESTS = MONITORING / "enroute.rules.test.yml"
PAGE = "docs/guide/troubleshooting.md"

CACHE = """
[admin]
listen = "127.0.0.1:0"

[[listener]]
listen = "redis://127.0.0.1:0"
origin = "redis://127.0.0.1:{closed}"
"""

EDGE = """
[admin]
listen = "127.0.0.1:0"

[edge]
listen = "127.0.0.1:0"

[[edge.site]]
domain = "shop.example"
certificate = "{directory}/shop.pem"
key = "file:{directory}/shop.key"
origin = "http://127.0.0.1:{closed}"
"""

CERTIFICATE = """
umask 077
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
    -keyout shop.key -out shop.pem -subj /CN=shop.example -addext subjectAltName=DNS:shop.example
"""

# What `/metrics` adds to the name of a histogram.
OF_HISTOGRAMS = re.compile("_(bucket|sum|count)$")


class Alerts(unittest.TestCase):
    def test_promtool_finds_the_rules_valid_and_each_alert_fires_for_its_condition_alone(self):
        promtool("check", "rules", RULES)
        promtool("test", "rules", RULES_TESTS)

    def test_each_alert_has_a_unit_test_a_severity_and_a_page_that_explains_it(self):
        rules, tests = RULES.read_text(), RULES_TESTS.read_text()
        alerts = re.split(r"\n *- alert: ", rules)[1:]
        page = (ROOT / PAGE).read_text()
        for alert in alerts:
            name = alert.split("\n", 1)[0]
            with self.subTest(name):
                self.assertIn(f'alertname="{name}", alertstate="firing"', tests)
                self.assertRegex(alert, r"severity: (critical|warning|info)\b")
                self.assertRegex(alert, r'summary: "[^"]+\."\n')
                self.assertRegex(alert, rf"(?m) runbook: {PAGE}#{name.lower()}$")
                self.assertIn(f"\n### {name}\n", page)
        names = {alert.split("\n", 1)[0] for alert in alerts}
        self.assertEqual(names, set(re.findall(r"(?m)^### (Enroute\w+)$", page)))

    def test_each_metric_of_a_rule_is_one_of_a_running_service(self):
        asked = set(re.findall(r"\benroute_\w+", RULES.read_text()))
        self.assertGreater(len(asked), 20)
        self.assertLessEqual({OF_HISTOGRAMS.sub("", name) for name in asked}, metrics())


def metrics():
    """Names of all metrics of a cache, a database and an edge."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        subprocess.run(["sh", "-euc", CERTIFICATE], cwd=directory, check=True, capture_output=True)
        paths = {}
        for service, config in (("cache", CACHE), ("edge", EDGE)):
            paths[service] = directory / f"{service}.toml"
            text = config.format(directory=directory, closed=processes.free_port())
            paths[service].write_text(text)
        database = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        commands = (
            ["cache", "--config", paths["cache"]],
            ["edge", "--config", paths["edge"]],
            ["db", "--dir", directory / "data", *database],
        )
        return set().union(*(exposed(stack, command) for command in commands))


def exposed(stack, command):
    """Names of the metrics of the service that `command` starts."""
    program = stack.enter_context(processes.running(processes.need(ENROUTE), *command))
    admin = program.line(re.compile(r"admin: (\S+)/").search, processes.START_S)[1]
    with urllib.request.urlopen(f"{admin}/metrics") as answer:
        return set(re.findall(r"(?m)^# TYPE (\S+) ", answer.read().decode()))


def promtool(*arguments):
    command = [processes.need(shutil.which("promtool")), *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


if __name__ == "__main__":
    unittest.main()
