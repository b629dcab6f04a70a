"""For test_chart.py: renders the Helm chart, validates the result, runs the program with it."""

import contextlib
import copy
import json
import os
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

from lab.library import processes
from lab.library.repository import ROOT

CHART = Path(os.environ.get("CHART", ROOT / "packaging" / "helm" / "enroute"))
ENROUTE = Path(os.environ.get("ENROUTE", ROOT / "target" / "debug" / "enroute"))
# The oldest one that Chart.yaml admits, and the newest one that the validator knows.
KUBERNETES = ("1.30", "1.37")
CONFIG = "/etc/enroute/config"
SECRETS = "/etc/enroute/secrets"
# User and group of the container.
USER = 65532
SECRET_MODE = 0o440


def values(mode):
    host = "127.0.0.1" if mode == "sidecar" else "0.0.0.0"
    listener = {"listen": f"redis://{host}:6380", "origin": "redis://redis:6379"}
    return {"mode": mode, "config": {"listener": [listener]}}


def everything(mode):
    """Values with all objects and most fields."""
    pods = {"nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}]}
    pods["imagePullSecrets"] = [{"name": "registry"}]
    monitoring = {"podMonitor": True, "prometheusRule": True, "labels": {"release": "prometheus"}}
    more = {"secrets": ["redis", "tls.example"], "pod": pods, "monitoring": monitoring}
    more["resources"] = {"requests": {"cpu": "250m"}, "limits": {"cpu": 2}}
    more["networkPolicy"] = {"egress": [{"to": [{"podSelector": {"matchLabels": {"app": "redis"}}}]}]}
    return values(mode) | more


def template(given, chart=CHART, version=KUBERNETES[-1]):
    text = helm("template", "cache", chart, *kube(version), values=given)
    return [found for found in yaml.safe_load_all(text) if found]


def refused(given):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(given, file)
        file.flush()
        command = ["helm", "template", "cache", str(CHART), "-f", file.name, *kube()]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode, f"accepted: {run.stdout}"
        return run.stderr


def kube(version=KUBERNETES[-1]):
    return ["--kube-version", f"{version}.0"]


def helm(*words, values=None, cwd=ROOT):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values or {}, file)
        file.flush()
        more = ["-f", file.name] if values else []
        if words[0] == "lint" and "--kube-version" not in words:
            more += kube()
        return output("helm", *words, *more, cwd=cwd)


def output(*words, cwd=ROOT):
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd)
    assert run.returncode == 0, f"{words}: {run.stdout}{run.stderr}"
    return run.stdout


def validated(objects):
    """The objects by kind, after Kubernetes' schemas have accepted them."""
    found = {}
    for each in filter(None, objects):
        if each["apiVersion"].startswith("monitoring.coreos.com"):
            jsonschema.validate(each, operator_schema(each["kind"]))
        else:
            for version in KUBERNETES:
                kubernetes_validate.validate(each, version, strict=True)
        assert each["kind"] not in found, f"two of kind {each['kind']}"
        found[each["kind"]] = each
    return found


def operator_schema(kind):
    """That of the operator's own definition, which also refuses fields that it does not name."""
    file = f"example/prometheus-operator-crd/monitoring.coreos.com_{kind.lower()}s.yaml"
    definition = yaml.safe_load((Path(os.environ["PROMETHEUS_OPERATOR"]) / file).read_text())
    schema = copy.deepcopy(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    # Kubernetes defines it.
    schema["properties"]["metadata"] = {"type": "object"}

    def close(part):
        if isinstance(part, dict):
            if "properties" in part and part.get("type") == "object":
                part.setdefault("additionalProperties", False)
            # Go's place for a flag.
            if isinstance(part.get("pattern"), str):
                part["pattern"] = part["pattern"].replace("^(?i)", "(?i)^")
            for inner in part.values():
                close(inner)
        elif isinstance(part, list):
            for inner in part:
                close(inner)

    close(schema["properties"]["spec"])
    return schema


def one(objects, kind):
    return next(found for found in objects if found["kind"].lower() == kind.lower())


def pod(objects):
    """The pods of a Deployment or DaemonSet."""
    kinds = ("Deployment", "DaemonSet")
    return next(each["spec"]["template"]["spec"] for each in objects if each["kind"] in kinds)


def container_of(objects, given):
    if given["mode"] != "sidecar":
        return pod(objects.values())["containers"][0]
    with tempfile.TemporaryDirectory() as directory:
        parent = Path(directory)
        (parent / "templates").mkdir()
        (parent / "charts").mkdir()
        (parent / "charts" / "enroute").symlink_to(CHART)
        (parent / "Chart.yaml").write_text("apiVersion: v2\nname: parent\nversion: 1.0.0\n")
        (parent / "templates" / "list.yaml").write_text(
            'kind: List\napiVersion: v1\nitems:\n{{ include "enroute.sidecar" .Subcharts.enroute }}\n'
        )
        return one(template({"enroute": given}, chart=parent), "List")["items"][0]


def secret_files(directory):
    """Files as Kubernetes mounts them for a group: root's, which the group may read."""
    secrets = directory / "secrets"
    secrets.mkdir()
    (secrets / "password").write_text("secret")
    names = ["-keyout", secrets / "tls.key", "-out", secrets / "tls.crt", "-subj", "/CN=cache"]
    output("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
           "-addext", "basicConstraints=critical,CA:FALSE", *names)
    for file in secrets.iterdir():
        if os.geteuid() == 0:
            os.chown(file, 0, USER)
        file.chmod(SECRET_MODE if os.geteuid() == 0 else 0o400)
    return secrets


def as_user(container):
    """If root runs this: a prefix that runs a command as the container's user, unprivileged."""
    context = container["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (USER, USER)
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "--inh-caps=-all"]


def admin_port(taken):
    for port in range(taken + 1, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("no port is free")


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=processes.START_S) as answer:
        return answer.read().decode()


def ask(client, command, expected):
    client.sendall(command.encode() + b"\r\n")
    reply = b""
    while len(reply) < len(expected):
        part = client.recv(4096)
        assert part, f"{command}: closed after {reply}"
        reply += part
    assert reply == expected, f"{command}: {reply}"
