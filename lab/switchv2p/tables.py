"""Tables of our results beside those of the paper and of the reference."""

from pathlib import Path

SCHEMES = ["nocache", "locallearning", "gwcache", "bluebird", "ondemand", "direct", "controller",
           "switchv2p"]
LAYERS = ("core", "spine", "tor")


def share(text, vms=10240):
    """A cache size as a share of all addresses."""
    return float(text[:-1]) / 100 if text.endswith("%") else int(text) / vms


def baseline(records, record):
    """The NoCache run with the same topology, trace and model as this run."""
    same = ("topology", "trace", "model", "digest")
    for each in records:
        if each["scheme"] == "nocache" and all(each[key] == record[key] for key in same):
            return each
    return None


def label(record):
    name = record["scheme"]
    if name == "controller":
        name += f" {record['controller_interval_us']:.0f} µs"
    return name


def row(record, base):
    """The row of one run."""
    def better(key):
        return f"{base[key] / record[key]:.2f}" if base and record[key] else ""

    return [
        "enroute", record["model"], label(record), Path(record["topology"]).stem, record["cache"],
        f"{record['packets_sent']}", f"{record['hit_rate'] * 100:.2f}", f"{record['fct_us']:.2f}",
        f"{record['first_packet_latency_us']:.3f}", f"{record['packet_latency_us']:.3f}",
        f"{record['packet_hops']:.3f}", better("fct_us"), better("first_packet_latency_us"),
        f"{sum(record['switch_bytes']) / 1e9:.4f}", f"{record['switch_bytes'][-1] / 1e9:.4f}",
    ]


# GB: bytes of all switches; last_GB: of the last switch, the gateway ToR of the last pod.
HEADER = ["source", "model", "scheme", "topology", "cache", "packets", "hit_%", "fct_us",
          "first_packet_us", "packet_us", "switches", "fct_better", "first_better", "GB", "last_GB"]


def runs(experiment, records, paper):
    """All runs of an experiment, and the reference's rows if they have the same trace."""
    rows = [row(record, baseline(records, record)) for record in records]
    reference = paper["reference"]
    traces = {Path(record["trace"]).name.removesuffix(".csv.gz") for record in records}
    if reference["trace"] in traces and experiment.kind in ("cache-sizes", "pods", "switches"):
        base = reference["rows"]["nocache"]
        rows += [reference_row(name, each, base) for name, each in reference["rows"].items()]
    return HEADER, rows


def reference_row(name, each, base):
    return [
        "reference", "published", name, "ft8-10k", "50%", f"{each['packets']}",
        f"{each['hit_rate'] * 100:.2f}", f"{each['fct_us']:.2f}",
        f"{each['first_packet_latency_us']:.3f}", f"{each['packet_latency_us']:.3f}",
        f"{each['packet_hops']:.3f}", f"{base['fct_us'] / each['fct_us']:.2f}",
        f"{base['first_packet_latency_us'] / each['first_packet_latency_us']:.2f}", "", "",
    ]


def layers(experiment, records, paper):
    """Table 5: share of hits at each layer."""
    rows = []
    for record in records:
        every = sum(record[layer]["hits"] for layer in LAYERS)
        first = sum(record[layer]["first_hits"] for layer in LAYERS)

        def shares(key, whole, record=record):
            return [f"{record[layer][key] / whole * 100:.1f}" if whole else "–" for layer in LAYERS]

        trace = Path(record["trace"]).name.removesuffix(".csv.gz")
        rows.append(["enroute", record["model"], trace, *shares("hits", every),
                     *shares("first_hits", first)])
    for source, key in (("paper", "table-5"), ("reference", "table-5-reference")):
        rows += [[source, "published", trace, *map(str, each["all"]), *map(str, each["first"])]
                 for trace, each in paper[key].items()]
    header = ["source", "model", "trace", *LAYERS, *(f"first_{layer}" for layer in LAYERS)]
    return header, rows


def migration(experiment, records, paper):
    """Table 4: counts, and their ratios to NoCache's."""
    header = ["source", "model", "scheme", "gateway_%", "gateway_packets", "packet_us", "latency_x",
              "last_us", "misdelivered", "misdelivered_x", "invalidations", "switches"]
    rows = []
    for record in records:
        base = baseline(records, record) or record
        rows.append([
            "enroute", record["model"], record["scheme"],
            f"{record['gateway_packets'] / record['packets_sent'] * 100:.2f}",
            str(record["gateway_packets"]), f"{record['packet_latency_us']:.3f}",
            f"{record['packet_latency_us'] / base['packet_latency_us']:.3f}",
            f"{record['last_misdelivered_us']:.2f}", str(record["misdelivered"]),
            f"{record['misdelivered'] / max(base['misdelivered'], 1):.2f}",
            str(record["invalidation_packets"]), f"{record['packet_hops']:.3f}",
        ])
    reference = paper["table-4-reference"]
    base = reference["nocache"]
    for name, each in reference.items():
        rows.append([
            "reference", "published", name, f"{each['gateway_packets'] / 640:.2f}",
            str(each["gateway_packets"]), f"{each['packet_latency_us']:.3f}",
            f"{each['packet_latency_us'] / base['packet_latency_us']:.3f}", f"{each['last_us']:.2f}",
            str(each["misdelivered"]), f"{each['misdelivered'] / base['misdelivered']:.2f}",
            str(each["invalidations"]), f"{each['hops']:.3f}",
        ])
    for name, each in paper["table-4"].items():
        rows.append(["paper", "published", name, f"{each['gateway']}", "", "", f"{each['latency']}",
                     f"{each['last_us']}", "", f"{each['misdelivered']}",
                     f"{each['invalidations']}", ""])
    return header, rows


def quirks(experiment, records, paper):
    """Effect of omitting one quirk of the published code."""
    whole = next((record for record in records if not record["quirks"]), None)
    header = ["without", "hit_%", "fct_us", "first_packet_us", "packet_us", "switches",
              "hits core/spine/ToR %", "learning", "fct_change_%"]
    rows = []
    for record in records:
        hits = sum(record[layer]["hits"] for layer in LAYERS) or 1
        rows.append([
            ", ".join(record["quirks"]) or "(none: as published)",
            f"{record['hit_rate'] * 100:.2f}", f"{record['fct_us']:.2f}",
            f"{record['first_packet_latency_us']:.3f}", f"{record['packet_latency_us']:.3f}",
            f"{record['packet_hops']:.3f}",
            " / ".join(f"{record[layer]['hits'] / hits * 100:.1f}" for layer in LAYERS),
            str(record["learning_packets"]),
            f"{(record['fct_us'] / whole['fct_us'] - 1) * 100:+.1f}" if whole else "",
        ])
    return header, rows


# Quantities of the reference's table, the allowed deviation (None: not limited), and its unit:
# percent of the reference's value, or percentage points.
FIGURES = [
    ("hit_rate", 0.5, "points"), ("fct_us", 1, "%"), ("first_packet_latency_us", 1, "%"),
    ("packet_latency_us", 1, "%"), ("packet_hops", 1, "%"), ("packets", 1, "%"),
    ("gateway_packets", None, "%"), ("learning_packets", None, "%"),
]


def reference(experiment, records, paper):
    """Each quantity of the reference beside ours, the deviation, and whether it is allowed."""
    ours = {record["scheme"]: record | {"packets": record["packets_sent"]} for record in records}
    rows = [
        compared(scheme, name, ours[scheme][name], expected[name], allowed, unit)
        for scheme, expected in paper["reference"]["rows"].items() if scheme in ours
        for name, allowed, unit in FIGURES if name in expected and (expected[name] or name == "hit_rate")
    ]
    for key, name, of in (
        ("bytes", "bytes", lambda each: sum(each["switch_bytes"])),
        ("gateway_tor_bytes", "gateway ToR's bytes", lambda each: each["switch_bytes"][-1]),
    ):
        for pair, expected in paper["reference"][key].items():
            above, below = pair.split("_over_")
            if above in ours and below in ours:
                got = of(ours[above]) / of(ours[below])
                rows.append(compared(above, f"{name} / {below}'s", got, expected, 1, "%"))
    shares = paper["table-5-reference"][paper["reference"]["trace"]]
    for key, name, allowed in (("all", "hits", 1), ("first", "first_hits", None)):
        every = sum(ours["switchv2p"][layer][name] for layer in LAYERS) if "switchv2p" in ours else 0
        for layer, expected in zip(("core", "spine", "tor"), shares[key], strict=True) if every else ():
            got = ours["switchv2p"][layer][name] / every
            row = compared("switchv2p", f"{name} at {layer}s", got, expected / 100, allowed, "points")
            rows.append(row)
    return ["scheme", "figure", "here", "reference", "deviation", "allowed", ""], rows


def compared(scheme, name, got, expected, allowed, unit):
    if unit == "points":
        deviation, values = (got - expected) * 100, [f"{each * 100:.2f} %" for each in (got, expected)]
    else:
        deviation, values = (got / expected - 1) * 100, [f"{each:.6g}" for each in (got, expected)]
        if isinstance(expected, int):
            values = [str(got), str(expected)]
    verdict = "" if allowed is None else "ok" if abs(deviation) <= allowed else "MISSES"
    limit = "" if allowed is None else f"{allowed} {unit}"
    return [scheme, name, *values, f"{deviation:+.2f} {unit}", limit, verdict]


OF_KIND = {"layers": layers, "migration": migration, "quirks": quirks, "reference": reference}


def table(experiment, records, paper):
    return OF_KIND.get(experiment.kind, runs)(experiment, records, paper)
