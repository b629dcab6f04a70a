"""The Helm chart renders what Kubernetes and the program accept, as docs/guide/kubernetes.md says.

packaging/test-chart.sh runs it, with a Helm and validators whose versions are pinned. ENROUTE is the
program [default: the debug build], CHART the chart [default: that of the repository],
PROMETHEUS_OPERATOR the sources of the operator.
"""

import copy
import json
import re
import socket
import ssl
import tempfile
import time
import tomllib
import unittest
from pathlib import Path

import yaml
from chart import (
    CHART, CONFIG, ENROUTE, SECRET_MODE, SECRETS, admin_port, as_user, ask, container_of,
    everything, get, helm, kube, one, output, pod, refused, secret_files, template, validated, values,
)

from lab.library import processes
from lab.library.repository import ROOT

GUIDE = ROOT / "docs" / "guide"
RULES = ROOT / "monitoring" / "enroute.rules.yml"
MODES = ("deployment", "daemonset", "sidecar")


class Chart(unittest.TestCase):
    """The chart alone."""

    def test_helm_finds_no_mistake_in_any_mode(self):
        for mode in MODES:
            with self.subTest(mode):
                helm("lint", "--strict", CHART, values=values(mode))

    def test_kubernetes_accepts_every_object_of_every_mode(self):
        kinds = {"sidecar": {"ConfigMap", "PodMonitor", "PrometheusRule"}}
        kinds["deployment"] = kinds["sidecar"] | {"Deployment", "Service", "NetworkPolicy"}
        kinds["daemonset"] = kinds["sidecar"] | {"DaemonSet", "Service", "NetworkPolicy"}
        for mode in MODES:
            with self.subTest(mode):
                found = validated(template(everything(mode)))
                self.assertEqual(set(found), kinds[mode])

    def test_a_value_that_is_wrong_is_named(self):
        sizes = "does not match pattern"
        cases = [
            ("mode", "statefulset", "/mode", "'deployment', 'daemonset', 'sidecar'"),
            ("image.repository", "", "/image/repository", "minLength"),
            ("config.listener", [], "/config/listener", "want 1"),
            ("config.workers", "two", "/config/workers", "want integer"),
            ("config.storage.memory", "1.5GiB", "/config/storage/memory", sizes),
            ("config.storage.memory", None, "/config/storage", "'memory'"),
            ("config.storage.memry", "1GiB", "/config/storage", "'memry' not allowed"),
            ("config.storage.ttl", "1 hour", "/config/storage/ttl", sizes),
            ("config.admin.listen", "127.0.0.1:9130", "/config/admin/listen", sizes),
            ("config.listener.0.orign", "redis://a", "/config/listener/0", "'orign' not allowed"),
            ("config.listener.0.listen", "redis://0.0.0.0", "/config/listener/0/listen", sizes),
            ("config.listener.0.listen", "redis://127.0.0.1:1", "listener[0].listen", "0.0.0.0 or"),
            ("config.listener.0.listen", "redis://[::]:9130", "listener[0].listen", "another port"),
            ("resources.limits.memory", "1Gi", "resources.limits.memory", "368Mi"),
            ("pod.securityContext", {}, "/pod", "'securityContext' not allowed"),
            ("secrets", ["no/name"], "/secrets/0", sizes),
        ]
        for name, value, place, reason in cases:
            with self.subTest(name, value=value):
                given = values("deployment")
                *path, last = name.split(".")
                inner = given
                for part in path:
                    inner = inner[int(part)] if part.isdigit() else inner.setdefault(part, {})
                inner[last] = value
                error = refused(given)
                self.assertIn(place, error)
                self.assertIn(reason, error)
        self.assertIn("/config/listener", refused({"mode": "deployment"}))
        given = values("sidecar")
        given["config"]["listener"][0]["listen"] = "redis://0.0.0.0:6380"
        self.assertIn("expected the host 127.0.0.1 in mode sidecar", refused(given))

    def test_pods_comply_with_the_restricted_pod_security_standard(self):
        for mode in ("deployment", "daemonset"):
            spec = pod(template(values(mode)))
            self.assertEqual(set(spec) & {"hostNetwork", "hostPID", "hostIPC"}, set())
            self.assertFalse(spec["automountServiceAccountToken"])
            self.assertEqual({kind for one in spec["volumes"] for kind in one} - {"name"}, {"configMap"})
            context = spec["containers"][0]["securityContext"]
            self.assertEqual(spec["securityContext"]["fsGroup"], context["runAsGroup"])
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
            self.assertEqual(context["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertTrue(context["runAsNonRoot"] and context["readOnlyRootFilesystem"])
            self.assertFalse(context["allowPrivilegeEscalation"])

    def test_the_policy_admits_no_peer_that_is_not_named(self):
        given = values("deployment")
        given["networkPolicy"] = {"clients": [], "monitoring": []}
        policy = one(template(given), "NetworkPolicy")["spec"]
        self.assertEqual((policy["policyTypes"], policy["ingress"]), (["Ingress"], None))
        to = [{"ipBlock": {"cidr": "192.0.2.1/32"}}]
        given = values("deployment") | {"networkPolicy": {"egress": [{"to": to}]}}
        policy = one(template(given), "NetworkPolicy")["spec"]
        ports = [[port["port"] for port in rule["ports"]] for rule in policy["ingress"]]
        self.assertEqual(ports, [[6380], [9130]])
        self.assertTrue(all(rule["from"] for rule in policy["ingress"]))
        self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
        names = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]}
        self.assertEqual(policy["egress"], [names, {"to": to}])

    def test_labels_connect_the_objects(self):
        for mode in ("deployment", "daemonset"):
            objects = template(everything(mode))
            labels = one(objects, mode)["spec"]["template"]["metadata"]["labels"].items()
            service = one(objects, "Service")["spec"]
            selectors = [one(objects, mode)["spec"]["selector"]["matchLabels"], service["selector"]]
            for kind, field in (("NetworkPolicy", "podSelector"), ("PodMonitor", "selector")):
                selectors.append(one(objects, kind)["spec"][field]["matchLabels"])
            for selector in selectors:
                self.assertTrue(selector and selector.items() <= labels)
            container = pod(objects)["containers"][0]
            mounts = [mount["name"] for mount in container["volumeMounts"]]
            self.assertEqual(mounts, [volume["name"] for volume in pod(objects)["volumes"]])
            ports = {port["name"] for port in container["ports"]}
            self.assertLessEqual({port["targetPort"] for port in service["ports"]}, ports)
            self.assertIn(one(objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["port"], ports)
            local = service.get("internalTrafficPolicy")
            self.assertEqual(local, "Local" if mode == "daemonset" else None)

    def test_the_rules_are_those_of_the_repository_and_find_their_job(self):
        objects = template(everything("deployment"))
        rules = one(objects, "PrometheusRule")["spec"]
        self.assertEqual(rules, yaml.safe_load(RULES.read_text()))
        endpoint = one(objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0]
        job = [rule["replacement"] for rule in endpoint["relabelings"] if rule["targetLabel"] == "job"]
        down = next(rule for rule in rules["groups"][0]["rules"] if rule["alert"] == "EnrouteDown")
        self.assertRegex(job[0], "^" + re.search('job=~"(.*?)"', down["expr"])[1] + "$")

    def test_a_change_of_the_configuration_replaces_the_pods(self):
        given = values("deployment")
        annotations = []
        for memory in ("64MiB", "128MiB", "128MiB"):
            given["config"]["storage"] = {"memory": memory}
            metadata = one(template(given), "Deployment")["spec"]["template"]["metadata"]
            annotations.append(metadata["annotations"]["checksum/config"])
        self.assertEqual(len(set(annotations)), 2)
        self.assertEqual(annotations[1], annotations[2])

    def test_listeners_with_one_port_have_one_port_of_the_service(self):
        given = values("deployment")
        listener = {"listen": "mongodb://0.0.0.0:6380", "origin": "mongodb://a"}
        given["config"]["listener"] += [listener, {**listener, "listen": "mongodb://[::]:1/?tls=true"}]
        objects = validated(template(given))
        ports = [port["port"] for port in objects["Service"]["spec"]["ports"]]
        self.assertEqual(sorted(ports), [1, 6380])


class Program(unittest.TestCase):
    """The chart and the program."""

    def test_versions_are_equal(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        version = output(processes.need(ENROUTE), "--version").split()[1]
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))

    def test_every_option_of_the_guide_reaches_the_program(self):
        page = (GUIDE / "configuration.md").read_text()
        written = tomllib.loads(re.search("```toml\n(.*?)```", page, re.DOTALL)[1])
        # What only the chart decides: hosts.
        written["admin"]["listen"] = "0.0.0.0:9130"
        # Large numbers, for which floats have another form.
        written["limits"]["connections_max"] = 30_000_000
        # What the example leaves out.
        strange = {"cluster": "main", "ttl": {'"<é>&\\': "1s"}}
        written["listener"] += [
            {"listen": "redis://0.0.0.0:1", "origin": "redis://a", **strange},
            {"listen": "redis://0.0.0.0:1", "origin": "redis://original"},
            {"listen": "redis://0.0.0.0:1", "origin": "redis://a", "transparent": True},
            {"listen": "redis://0.0.0.0:1", "origin": "redis://a", "tls": {"names": ["a.example"]}},
        ]
        expected = copy.deepcopy(written)
        advertised = 0
        for at, listener in enumerate(written["listener"]):
            scheme = listener["listen"].split(":")[0]
            address = f"{scheme}://0.0.0.0:{10000 + at}"
            listener["listen"] = expected["listener"][at]["listen"] = address
            if scheme in ("mongodb", "redis") and not self.is_told_apart(listener):
                service = f"cache-enroute.default.svc:{10000 + at}"
                expected["listener"][at]["advertise"] = service
                advertised += 1
        self.assertGreater(advertised, 2)
        objects = validated(template(values("deployment") | {"config": written}))
        found = tomllib.loads(objects["ConfigMap"]["data"]["enroute.toml"])
        # As text, in which an integer is no float.
        self.assertEqual(*(json.dumps(each, indent=1, sort_keys=True) for each in (found, expected)))

        schema = json.loads((CHART / "values.schema.json").read_text())
        config, definitions = schema["properties"]["config"], schema["definitions"]
        known = {**config["properties"], "listener": definitions["listener"]}
        for table in ("storage", "limits", "admin", "listener"):
            options = written[table] if table != "listener" else {
                name: value for listener in written[table] for name, value in listener.items()
            }
            self.assertEqual(set(known[table]["properties"]), set(options), table)
        self.assertEqual(set(known), set(written))

    def is_told_apart(self, listener):
        """Whether clients learn another address than that of the service, or their own."""
        named = listener.get("advertise") or listener.get("tls", {}).get("names")
        return named or listener.get("transparent") or listener["origin"].endswith("://original")

    def test_the_memory_limit_is_what_the_program_states(self):
        stated = " ".join(output(processes.need(ENROUTE), "cache", "--help").split())
        part, fixed = re.search(r"plus 1/(\d+) of it, plus (\d+) MiB", stated).groups()
        page = " ".join((GUIDE / "configuration.md").read_text().split())
        encrypted = int(re.search(r"Each encrypted connection.*? adds up to (\d+) KiB", page)[1])
        clients, each = re.search(r"of up to (\d+) DynamoDB clients .*?adds up to (\d+) MiB", page).groups()

        redis = {"listen": "redis://0.0.0.0:6380", "origin": "redis://a"}
        tls = {"tls": {"cert": "a", "key": "b"}}
        cases = [
            ("256MiB", {}, 0),
            (1 << 30, {}, 0),
            ("1GB", {}, 0),
            ("64MiB", tls, encrypted * 1000 >> 10),
            ("64MiB", {**tls, "origin": "rediss://a"}, encrypted * 2000 >> 10),
            ("64MiB", {"origin": "rediss+sentinel://a/b"}, encrypted * 1000 >> 10),
            ("64MiB", {"tls": {"pass_through": True}}, 0),
            ("64MiB", {"listen": "dynamodb://[::]:1", "origin": "dynamodb://a"}, int(clients) * int(each)),
        ]
        for memory, more, connections in cases:
            with self.subTest(memory, more=more):
                config = {"limits": {"connections_max": 1000}, "storage": {"memory": memory}}
                config["listener"] = [redis | more]
                objects = template(values("deployment") | {"config": config})
                found = pod(objects)["containers"][0]["resources"]
                number, unit = re.fullmatch(r"(\d+)([GM]i?B)?", str(memory)).groups()
                size = int(number) * {None: 1, "MiB": 1 << 20, "GB": 10**9}[unit]
                exact = size + size / int(part) + ((int(fixed) + connections) << 20)
                limit = int(found["limits"]["memory"].removesuffix("Mi")) << 20
                self.assertEqual(found["requests"]["memory"], found["limits"]["memory"])
                self.assertLessEqual(0, limit - exact)
                # Rounded up; parts of a MiB of connections were rounded down above.
                self.assertLess(limit - exact, 2 << 20)

    def test_the_program_serves_with_what_is_rendered(self):
        for mode in MODES:
            with self.subTest(mode), tempfile.TemporaryDirectory() as directory:
                self.serve(mode, Path(directory))

    def serve(self, mode, directory):
        """Starts the container's command and does what Kubernetes and clients do."""
        directory.chmod(0o755)
        secrets = secret_files(directory)
        with processes.redis("--requirepass", "secret") as origin:
            port = processes.free_port()
            host = "127.0.0.1" if mode == "sidecar" else "0.0.0.0"
            given = everything(mode)
            # Secrets may have longer names than volumes.
            given["secrets"] = ["redis", "tls." + 60 * "long"]
            tls = f"{SECRETS}/{given['secrets'][1]}"
            listener = {"listen": f"rediss://{host}:{port}", "origin": f"redis://{origin}"}
            listener["tls"] = {"cert": f"{tls}/tls.crt", "key": f"{tls}/tls.key"}
            listener["feed"] = {"password_file": f"{SECRETS}/redis/password"}
            # As on a node with two processors.
            given["config"] = {"workers": 2, "listener": [listener]}
            given["config"]["admin"] = {"listen": f"0.0.0.0:{admin_port(port)}"}
            objects = validated(template(given))
            text = objects["ConfigMap"]["data"]["enroute.toml"]
            for name in given["secrets"]:
                text = text.replace(f"{SECRETS}/{name}", str(secrets))
            config = directory / "enroute.toml"
            config.write_text(text)
            output(processes.need(ENROUTE), "config", "check", config)

            container = container_of(objects, given)
            if given["mode"] != "sidecar":
                volumes = [one for one in pod(objects.values())["volumes"] if "secret" in one]
                self.assertEqual({one["secret"]["defaultMode"] for one in volumes}, {SECRET_MODE})
            for mount in container["volumeMounts"]:
                self.assertRegex(mount["name"], r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
            self.assertEqual("advertise" in text, mode != "sidecar")
            mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
            expected = {CONFIG, *(f"{SECRETS}/{name}" for name in given["secrets"])}
            self.assertEqual(mounted, expected)
            *command, file = container["args"]
            self.assertEqual(file, f"{CONFIG}/enroute.toml")
            with processes.running(*as_user(container), ENROUTE, *command, config) as program:
                ports = {one["name"]: one["containerPort"] for one in container["ports"]}
                self.assertEqual(set(ports), {f"rediss-{port}", "enroute-admin"})
                program.line(re.compile("admin: ").search, processes.START_S)
                for probe in ("startupProbe", "readinessProbe"):
                    request = container[probe]["httpGet"]
                    self.assertEqual(get(ports[request["port"]], request["path"]), "ok\n")
                alive = ports[container["livenessProbe"]["tcpSocket"]["port"]]
                socket.create_connection(("127.0.0.1", alive)).close()
                endpoint = objects["PodMonitor"]["spec"]["podMetricsEndpoints"][0]
                self.assertIn("enroute_hits_total", get(ports[endpoint["port"]], endpoint["path"]))
                self.hit(port, ports["enroute-admin"])

    def hit(self, port, admin):
        context = ssl._create_unverified_context()
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as client:
            ask(client, "AUTH secret", b"+OK\r\n")
            ask(client, "SET greeting hello", b"+OK\r\n")
            for _ in range(10 * processes.START_S):
                ask(client, "GET greeting", b"$5\r\nhello\r\n")
                if json.loads(get(admin, "/stats"))["reads"]["hits"]:
                    return
                # Nothing is stored until the feed has connected.
                time.sleep(0.1)
        self.fail(f"no hit: {get(admin, '/stats')}")


class Guide(unittest.TestCase):
    """docs/guide/kubernetes.md: its files, and its commands as they are written."""

    def test_its_commands_do_what_it_says(self):
        page = (GUIDE / "kubernetes.md").read_text()
        blocks = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
        files = [text[2:].split("\n", 1) for kind, text in blocks if kind == "yaml"]
        self.assertGreater(len(files), 4)
        with tempfile.TemporaryDirectory() as directory:
            directory = Path(directory)
            (directory / "packaging" / "helm").mkdir(parents=True)
            (directory / "packaging" / "helm" / "enroute").symlink_to(CHART)
            for name, text in files:
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                (directory / name).write_text(text)
            found = {}
            for block in (text for kind, text in blocks if not kind):
                for line in block.splitlines():
                    program, *words = line.split()
                    self.assertIn(program, ("helm", "kubectl"))
                    if program == "helm" and words[0] in ("install", "upgrade"):
                        # No cluster is here: what would be installed.
                        rendered = helm("template", *words[1:], *kube(), cwd=directory)
                        found[words[1]] = validated(yaml.safe_load_all(rendered))
                    elif program == "helm":
                        helm(*words, *(kube() if words[0] == "lint" else []), cwd=directory)
                    else:
                        # Objects that the page names exist.
                        for kind, name in re.findall(r"(deployment)/(\S+)", line):
                            self.assertIn((kind, name), [
                                (one["kind"].lower(), one["metadata"]["name"])
                                for objects in found.values() for one in objects.values()
                            ])
        self.assertEqual(set(found), {"cache", "nodes", "shop"})
        # The last command for this release has added them.
        self.assertLessEqual({"PodMonitor", "PrometheusRule"}, set(found["cache"]))
        spec = found["shop"]["Deployment"]["spec"]["template"]["spec"]
        self.assertEqual([one["restartPolicy"] for one in spec["initContainers"]], ["Always"])
        volumes = {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume}
        self.assertEqual(volumes, {found["shop"]["ConfigMap"]["metadata"]["name"]})

    def test_the_packed_chart_is_the_chart(self):
        # A link would lead out of the archive.
        with tempfile.TemporaryDirectory() as directory:
            helm("package", CHART, "--destination", directory)
            packed = next(Path(directory).iterdir())
            given = everything("deployment")
            self.assertEqual(template(given, chart=packed), template(given))


if __name__ == "__main__":
    unittest.main()
