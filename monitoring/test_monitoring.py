"""Checks the alerts for Prometheus and the dashboard for Grafana.

promtool checks the rules and runs their unit tests. A real Prometheus scrapes every service with an
admin endpoint, and answers each query of the dashboard.
"""

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from lab.library import processes
from lab.library.repository import ROOT

ENROUTE = ROOT / "target" / "debug" / "enroute"
MONITORING = ROOT / "monitoring"
RULES = MONITORING / "enroute.rules.yml"
RULES_TESTS = MONITORING / "enroute.rules.test.yml"
DASHBOARD = MONITORING / "enroute.dashboard.json"
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
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 10 \
    -keyout shop.key -out shop.pem -subj /CN=shop.example -addext subjectAltName=DNS:shop.example
"""

POLICY = """
[[edge]]
name = "shop.example"
allow = [{ keys = ["*"], methods = ["CertificateVerify"] }]
"""

# The data source that is chosen in the dashboard.
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
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


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cls.services = services(stack, directory)
            cls.directory = directory
            cls.addClassCleanup(stack.pop_all().close)

    def test_each_metric_of_rules_and_dashboard_is_one_of_a_running_service(self):
        exposed = set()
        for service in self.services:
            text = get(f"{service}/metrics")
            promtool("check", "metrics", given=text)
            exposed.update(re.findall(r"(?m)^# TYPE (\S+) ", text))
        for path in (RULES, DASHBOARD):
            asked = set(re.findall(r"\benroute_\w+(?=[{\[) ]| *$)", path.read_text()))
            self.assertGreater(len(asked), 20, path)
            self.assertLessEqual({OF_HISTOGRAMS.sub("", name) for name in asked}, exposed, path)

    def test_prometheus_fires_the_alert_about_a_certificate_that_expires_in_ten_days(self):
        with Prometheus(self.directory, self.services) as prometheus:
            alert, *more = prometheus.wait_for(prometheus.firing)
            self.assertEqual(more, [])
            self.assertEqual(alert["labels"]["alertname"], "EnrouteEdgeCertificateExpires")
            self.assertIn("certificate shop.example of the edge", alert["annotations"]["summary"])

    def test_prometheus_answers_every_query_of_the_dashboard(self):
        with Prometheus(self.directory, self.services) as prometheus:
            # A rate needs two samples.
            count = len(self.services)
            scraped = f"min(up) == 1 and count(rate(up[1m])) == {count}"
            prometheus.wait_for(lambda: prometheus.query(scraped))
            groups = prometheus.get("rules")["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            self.assertEqual(len(rules), RULES.read_text().count("- alert: "))
            for panel, target in targets():
                query = target["expr"].replace("$instance", ".*")
                query = query.replace("$__rate_interval", "1m")
                with self.subTest(panel["title"], query=query):
                    # The services have no requests, so no reason for a miss is above 0.
                    if query.endswith("> 0"):
                        prometheus.query(query)
                    else:
                        prometheus.wait_for(lambda query=query: prometheus.query(query))


class Dashboard(unittest.TestCase):
    """Has what Grafana needs of a dashboard in the classic schema."""

    def test_it_can_be_imported(self):
        board = dashboard()
        for key, kind in (("uid", str), ("title", str), ("schemaVersion", int), ("panels", list)):
            self.assertIsInstance(board.get(key), kind, key)
        # Grafana sets it; with one, an import replaces another dashboard.
        self.assertNotIn("id", board)
        self.assertLessEqual({"from", "to"}, board["time"].keys())
        variables = {variable["name"]: variable for variable in board["templating"]["list"]}
        self.assertEqual(variables["datasource"]["type"], "datasource")
        self.assertEqual(variables["datasource"]["query"], "prometheus")
        self.assertEqual(variables["instance"]["type"], "query")
        self.assertEqual(variables["instance"]["datasource"], SOURCE)

    def test_every_panel_has_a_place_a_unit_and_queries_with_the_chosen_source(self):
        panels = dashboard()["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            with self.subTest(panel["title"], id=panel["id"]):
                place = panel["gridPos"]
                columns = range(place["x"], place["x"] + place["w"])
                self.assertLessEqual(columns.stop, 24)
                rows = range(place["y"], place["y"] + place["h"])
                cells = {(column, row) for column in columns for row in rows}
                self.assertFalse(cells & taken, "panels overlap")
                taken |= cells
                if panel["type"] == "row":
                    continue
                self.assertEqual(panel["type"], "timeseries")
                self.assertTrue(panel["description"])
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
                self.assertTrue(panel["targets"])
        for panel, target in targets():
            self.assertEqual((panel["datasource"], target["datasource"]), (SOURCE, SOURCE))
            self.assertTrue(target["refId"] and target["legendFormat"])
            self.assertIn('instance=~"$instance"', target["expr"])


def dashboard():
    return json.loads(DASHBOARD.read_text())


def targets():
    """Each panel with each of its queries."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel, target


def services(stack, directory):
    """Starts every service; the addresses of their admin endpoints. The cluster of the state layer
    is down."""
    subprocess.run(["sh", "-euc", CERTIFICATE], cwd=directory, check=True, capture_output=True)
    paths = {}
    for service, config in (("cache", CACHE), ("edge", EDGE)):
        paths[service] = directory / f"{service}.toml"
        text = config.format(directory=directory, closed=processes.free_port())
        paths[service].write_text(text)
    for name, text in (("policy.toml", POLICY), ("kek", "11" * 32 + "\n")):
        (directory / name).write_text(text)
        (directory / name).chmod(0o600)
    port = processes.free_port()
    here = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    cluster = ["--cluster", f"127.0.0.1:{processes.free_port()}"]
    files = {
        "certificate": "shop.pem", "key": "shop.key", "edge-authorities": "shop.pem",
        "policy": "policy.toml", "kek-file": "kek", "audit": "audit.log",
    }
    keys = [word for name, file in files.items() for word in (f"--{name}", directory / file)]
    addresses = []
    for command in (
        ["cache", "--config", paths["cache"]],
        ["edge", "--config", paths["edge"]],
        ["db", "--dir", directory / "data", *here[2:], "--listen", f"127.0.0.1:{port}"],
        ["keyserver", "serve", "--database", f"redis://127.0.0.1:{port}", *keys, *here],
        ["state", "agent", *cluster, *here],
        ["state", "placer", *cluster, *here[2:]],
    ):
        program = stack.enter_context(processes.running(processes.need(ENROUTE), *command))
        admin = program.line(re.compile(r"admin: (\S+)/").search, processes.START_S)
        addresses.append(admin[1])
    return addresses


class Prometheus:
    """A Prometheus that scrapes `services`, with the rules."""

    def __init__(self, directory, services):
        port = processes.free_port()
        self.url = f"http://127.0.0.1:{port}"
        hosts = [urllib.parse.urlsplit(service).netloc for service in services]
        config = directory / "prometheus.json"
        # JSON is YAML.
        scrape = {"job_name": "enroute", "static_configs": [{"targets": hosts}]}
        # A scrape that takes longer than the interval fails.
        every = {"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "1s"}
        settings = {"global": every, "rule_files": [str(RULES)]}
        config.write_text(json.dumps(settings | {"scrape_configs": [scrape]}))
        self.running = processes.running(
            processes.need(shutil.which("prometheus")),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / str(port)}",
            f"--web.listen-address=127.0.0.1:{port}",
        )

    def __enter__(self):
        self.running.__enter__()
        return self

    def __exit__(self, *error):
        return self.running.__exit__(*error)

    def get(self, path, **arguments):
        answer = get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}")
        return json.loads(answer)["data"]

    def query(self, query):
        return self.get("query", query=query)["result"]

    def firing(self):
        return [alert for alert in self.get("alerts")["alerts"] if alert["state"] == "firing"]

    def wait_for(self, condition):
        """What `condition` returns, once it is true."""
        deadline = time.monotonic() + processes.START_S
        while True:
            with contextlib.suppress(urllib.error.URLError):
                if found := condition():
                    return found
            if time.monotonic() > deadline:
                raise AssertionError(f"not true within {processes.START_S} s")
            time.sleep(0.1)


def get(url):
    with urllib.request.urlopen(url, timeout=processes.START_S) as answer:
        return answer.read().decode()


def promtool(*arguments, given=None):
    command = [processes.need(shutil.which("promtool")), *arguments]
    run = subprocess.run(command, input=given, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


if __name__ == "__main__":
    unittest.main()
